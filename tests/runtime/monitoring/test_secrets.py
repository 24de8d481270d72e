"""Passwords of stores and tokens of webhooks are shown nowhere, and nothing of a pipeline is open to other users."""

import json
import logging
import os
import socket
import stat
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from foretide.cli.main import app
from foretide.errors import ForetideError
from foretide.runtime.monitoring.monitor import Monitor
from foretide.secrets import masked, masked_url
from foretide.settings.load import effective_settings, load_settings
from foretide.settings.run import MonitorSettings, RunSettings
from foretide.settings.settings import Settings
from foretide.spark.executors import WorkerListing
from foretide.status.pipelines import Running, announce
from foretide.store.metric_store import MetricStore
from foretide.topology.graph import Spout, Topology
from foretide.topology.sources import Rate
from helpers import wait_for

PASSWORD, TOKEN, OTHER = "not-for-eyes-1", "not-for-eyes-2", "not-for-eyes-3"
STORE = f"postgresql://someone:{PASSWORD}@127.0.0.1:9/metrics?sslpassword={OTHER}"
HOOK = f"http://127.0.0.1:9/services/{TOKEN}?key={OTHER}"
SETTINGS = {
    "store": STORE,
    "webhook": HOOK,
    "node_exporters": {"far": f"http://me:{OTHER}@127.0.0.1:9/metrics"},
    "workers_every": 0,
    "machines_every": 0.1,
}


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def monitor(tmp_path, **settings):
    workers = SimpleNamespace(local=True, driver_pid=os.getpid(), listed=lambda: WorkerListing([]), close=lambda: None)
    return Monitor(Topology("app", [Spout("read", Rate(1))], []), str(tmp_path), workers, MonitorSettings(**settings))


def call(*arguments):
    done = CliRunner().invoke(app, [*arguments])
    return f"{done.output}{done.exception}{getattr(done.exception, '__cause__', '')}"


def said(capsys, *arguments, debug="0"):
    """What a process prints that fails."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setenv("FORETIDE_DEBUG", debug)
        app(list(arguments))
    printed = capsys.readouterr()
    assert "foretide: " in printed.err or "error" in printed.out
    return printed.out + printed.err


def problems(tmp_path):
    """What a monitor says whose store, webhook and node_exporter do not answer."""
    made = monitor(tmp_path, **SETTINGS)
    made.start()
    try:
        made._alarms._webhook.send({"an": "alarm"})
        wait_for(lambda: len(made.problems) == 3)
        return "\n".join([*made.problems, *made.snapshot().problems, repr(made.__dict__["_alarms"])])
    finally:
        made.stop()


def test_no_command_log_repr_problem_or_error_shows_a_secret(tmp_path, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    announce(Running("secret", os.getpid(), str(tmp_path / "control"), STORE))
    (tmp_path / "foretide.toml").write_text(f'[monitoring]\nstore = "{STORE}"\nwebhook = "{HOOK}"\n')
    shown = {
        "list": call("list"),
        "list --json": call("list", "--json"),
        "metrics": call("metrics"),
        "decisions": call("decisions", "--app", "secret"),
        "replay": call("replay"),
        "settings": call("settings", "--all"),
        "settings --json": call("settings", "--json"),
        "a wrong setting": call("settings", "--set", f"monitoring.webhook=htps://host/{TOKEN}"),
        "a wrong type": call("settings", "--set", f"monitoring.node_exporters={STORE}"),
        "a wrong URL": call("metrics", "--store", f"postgresql://someone:{PASSWORD}@host:{OTHER}/metrics"),
        "no source": said(capsys, "forecast", STORE),
        "no source, as JSON": said(capsys, "evaluate", HOOK, "--json"),
        "no folder": said(capsys, "status", "--control-folder", f"file://me:{PASSWORD}@host/folder"),
        "a trace": said(capsys, "metrics", debug="1"),
        "problems": problems(tmp_path),
        "repr": repr([MonitorSettings(**SETTINGS), RunSettings(monitoring=MonitorSettings(**SETTINGS))]),
        "repr of all settings": repr(Settings(monitoring=MonitorSettings(**SETTINGS))),
        "settings in force": str(effective_settings(load_settings())),
    }
    shown["log"] = caplog.text
    for place, text in shown.items():
        found = [word for word in (PASSWORD, TOKEN, OTHER) if word in text]
        assert found == [], f"{place}: {text}"
    assert "postgresql://someone:***@127.0.0.1:9/metrics" in shown["settings --json"]
    assert json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)


@given(
    st.text(min_size=1),
    st.sampled_from(["postgresql://me:{}@host/db", "https://host/{}", "https://me:{}@host/", "a://h/d?password={}"]),
)
def test_no_part_of_an_address_with_a_secret_shows_it(secret, address):
    marked = f"{PASSWORD}{secret}{PASSWORD}"
    if "=" in address:
        marked = marked.replace("&", "")
    assert PASSWORD not in masked_url(address.format(marked))


def test_what_is_no_address_stays_as_it_is():
    for text in ("metrics.db", "/a/b@c:d.db", "a sentence: with://", "postgresql://me@host/db", "far:9100", ""):
        assert masked(text) == masked_url(text) == text


def test_prometheus_is_served_to_this_machine_only_unless_told(tmp_path):
    for settings, expected in (({}, "127.0.0.1"), ({"prometheus_host": "0.0.0.0"}, "0.0.0.0")):
        made = monitor(tmp_path, prometheus_port=0, workers_every=0, machines_every=0, store="", **settings)
        made.start()
        try:
            assert made.prometheus._server.server_address[0] == expected
            socket.create_connection(("127.0.0.1", made.prometheus.port), 20).close()
        finally:
            made.stop()


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_a_new_store_is_its_owners_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        with MetricStore.open(tmp_path / "metrics.db") as store:
            store.write_alarms("p", [])
            modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("metrics.db*")}
    finally:
        os.umask(before)
    assert modes == {0o600}


def test_the_password_is_not_in_what_a_server_answers(tmp_path):
    with pytest.raises(ForetideError) as refused:
        MetricStore.open(f"postgresql://me:{PASSWORD}@127.0.0.1:9/db?options={PASSWORD}&connect_timeout={PASSWORD}")
    assert PASSWORD not in str(refused.value)
