"""Stores to test: SQLite in a file, and a real PostgreSQL server that the tests start and stop."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from foretide.store.metric_store import MetricStore

REQUIRED = "FORETIDE_REQUIRE_POSTGRES"
SETTINGS = {"fsync": "off", "shared_buffers": "16MB", "max_connections": "40", "listen_addresses": "127.0.0.1"}


def postgres_binaries():
    """The folder of PostgreSQL's programs, None when they are not installed."""
    on_path = [Path(found).resolve().parent for found in [shutil.which("postgres")] if found]
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: folder.parent.name.zfill(4))
    return next((folder for folder in (*on_path, *reversed(debian)) if (folder / "initdb").exists()), None)


def server_user():
    """Whom the server runs as: it refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    known = {user.pw_name: user for user in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class PostgresServer:
    """A server of our own, in a folder of its own, that can be stopped and started again."""

    def __init__(self, binaries, folder):
        self._binaries, self._folder, self._user = binaries, folder, server_user()
        self._process = None
        self._names = count()
        self.port = unused_port()
        if os.geteuid() == 0:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        superuser = ["-U", "foretide", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        with self._logged() as how:
            done = subprocess.run([binaries / "initdb", "-D", folder / "data", *superuser], **how, check=False)
        assert done.returncode == 0, self._log()

    @contextmanager
    def _logged(self):
        """How a program of the server is run: as its user, with what it says in the log."""
        identity = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        with (self._folder / "log").open("a") as log:
            how = {"stdout": log, "stderr": log, "cwd": self._folder}
            yield how if os.geteuid() != 0 else {**how, **identity}

    def _log(self):
        return (self._folder / "log").read_text()

    def start(self):
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        folders = ["-D", self._folder / "data", "-k", self._folder, "-p", str(self.port)]
        with self._logged() as how:
            self._process = subprocess.Popen([self._binaries / "postgres", *folders, *settings], **how)
        end = time.monotonic() + 60
        while not self._answers():
            assert self._process.poll() is None, self._log()
            assert time.monotonic() < end, self._log()
            time.sleep(0.02)

    def _answers(self):
        try:
            self.run("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def run(self, statement):
        with psycopg.connect(self.url().partition("?")[0], autocommit=True) as connection:
            connection.execute(statement)

    def stop(self):
        """Stop at once: connections are cut, as when a server goes away."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
            self._process = None

    def url(self, schema="public"):
        options = quote(f"-c search_path={schema}")
        return f"postgresql://foretide@127.0.0.1:{self.port}/postgres?options={options}"

    def fresh_url(self):
        """The URL of a schema that nothing has used."""
        schema = f"test_{next(self._names)}"
        self.run(f"CREATE SCHEMA {schema}")
        return self.url(schema)


@pytest.fixture(scope="session")
def postgres():
    binaries = postgres_binaries()
    if binaries is None:
        reason = "PostgreSQL is not installed: scripts/postgres.sh installs it"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{reason} ({REQUIRED}=1 asks for these tests)")
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="foretide-pg-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(binaries, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, tmp_path):
    """Where a store can be made, on each database."""
    if request.param == "sqlite":
        return str(tmp_path / "metrics.db")
    return request.getfixturevalue("postgres").fresh_url()


@pytest.fixture
def store(location):
    with MetricStore.open(location) as opened:
        yield opened


@pytest.fixture
def free_port():
    """A port that nothing listens on."""
    return unused_port()


@pytest.fixture(scope="session")
def processes():
    """Makes processes from one that has imported the store already: importing it takes longer than most tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["foretide.store.metric_store"])
    return context


@pytest.fixture
def start_process(processes):
    """Runs a function of a test's module in a process of its own, which does not outlive the test."""
    started = []

    def start(work, *arguments):
        process = processes.Process(target=work, args=arguments, daemon=True)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()
