"""Runs commands with odd input in this process, each in a folder that is made anew, and looks at how they end.

Spark is replaced by an error, so that a start is counted; whoever waits is interrupted, as by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cli.fuzz_cases import KINDS, Case
from cli.fuzz_damage import remove, write
from foretide.cli.main import app
from foretide.control.decisions.decision import Decision
from foretide.control.history import RecordedWorld
from foretide.control.world.setup import Setup
from foretide.control_folder.folder import ControlFolder
from foretide.dashboard import server
from foretide.errors import ForetideError
from foretide.metrics.metric import Sample
from foretide.status.pipelines import Running, announce
from foretide.store.metric_store import MetricStore

CPU_SECONDS = 6.0
REAL_SECONDS = 120.0
MEMORY = 1_000_000_000
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

MODEL = """
[[operator]]
name = "parse"
service_rate = 100.0
arrivals = 150.0
processors = 2

[[operator]]
name = "count"
service_rate = 80.0
processors = 3

[[flow]]
from = "parse"
to = "count"
gain = 1.0

[simulation]
duration = 2.0
warm_up = 0.0
"""
SETTINGS = '[guards]\ncooldown = 30\nmax_replicas = 8\n\n[target]\nlatency = "2s"\n\n[run]\ntrigger = "1s"\n'
STATE = {
    "status.json": {"batch": 7, "finished": 1e9, "input_rows": 30, "route_version": 1},
    "control.json": {"at": 1e9, "mode": "act", "policies": ["bypass"], "target": {"latency": 2.0},
                     "workers": {"0": "host-a", "1": "host-b"}},
    "pipeline.json": {"name": "shop", "spouts": {"lines": True}, "pools": {"work": 2}},
}  # fmt: skip
PROGRAM = """
import foretide as ft

shop = ft.Topology("shop", [ft.Spout("lines", ft.Rate(5))], [ft.Bolt("work", lambda df: df, [ft.From("lines")])])
print("it ran")
"""
CSV = "time,load\n" + "".join(f"{5 * step},{100 + step % 24}\n" for step in range(130))


class SparkStarted(BaseException):
    """Spark, or another process, would start now."""


class Hang(BaseException):
    """A command took too long."""


# ---- the folder of a case


def make_folder(place: Path) -> None:
    """Good files of every kind, and some odd ones; every case gets a copy."""
    place.mkdir(parents=True)
    with contextlib.chdir(place):
        for name, content in {
            "model.toml": MODEL.encode(), "load.csv": CSV.encode(), "binary": bytes(range(256)), "empty": b"",
            "deep.json": b"[" * 100_000, "deep.toml": b"a = " + b"[" * 20_000, "utf16.toml": MODEL.encode("utf-16"),
            "unreadable": b"x", "foretide.toml": SETTINGS.encode(), "job.py": PROGRAM.encode(),
        }.items():  # fmt: skip
            Path(name).write_bytes(content)
        for name in ("folder", "unwritable"):
            Path(name).mkdir()
        with MetricStore.open("metrics.db") as store:
            store.write("shop", [Sample("machine_load_1m", "a", 10.0 + at, 1.5) for at in range(20)])
            store.write("shop", [Sample("input_rows_per_second", "shop", 5.0 * at, 100.0 + at) for at in range(60)])
            store.write("shop", [Sample("worker_heap_bytes", "0", 10.0, 1e9)])
            for metric in ("batch", "input_rows", "latency_p99_ms"):
                store.write("shop", [Sample(metric, "shop", 10.0 * at, float(at)) for at in range(1, 9)])
            store.write_setups("shop", [RecordedWorld(5.0, Setup("shop"))])
            store.write_decisions("shop", [Decision(each, 5.0, "shop", problems=("odd",)) for each in (1, 2)])
        CliRunner().invoke(app, ["train", "load.csv", "--output", "saved", "--model", "last value", "--season", "24"])


def _prepare(case: Case, origin: Path, folder: Path) -> None:
    """The folder of a case: a pipeline runs, with a control loop, in this process."""
    remove(folder)
    shutil.copytree(origin, folder, symlinks=True)
    for name, target in {"loop": "loop", "null": "/dev/null", "zero": "/dev/zero", "memory": "/proc/self/mem"}.items():
        (folder / name).symlink_to(target)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as made, contextlib.chdir(folder):
        made.bind("socket")
    control = ControlFolder(str(folder / "control"))
    control.change_routes(lambda table: table.declare("work", pool=2))
    for name, content in STATE.items():
        write(folder / "control" / name, json.dumps(content).encode())
    announce(Running("shop", os.getpid(), control.location, str(folder / "metrics.db")))
    (entry,) = (folder / "home" / "running").iterdir()
    entry.rename(entry.with_name("shop.json"))
    for name, content in case.files.items():
        write(folder / name, content)
    (folder / "unreadable").chmod(0)
    (folder / "unwritable").chmod(0o500)
    if case.change is not None:
        case.change(folder)


# ---- running


@dataclass(frozen=True)
class Outcome:
    """How a case ended: what is wrong, if anything."""

    case: Case
    code: int
    output: str
    wrong: str = ""
    unexpected: BaseException | None = None
    hung: bool = False
    started_spark: bool = False


class Fuzzer:
    """Runs cases, one after the other."""

    def __init__(self, place: Path) -> None:
        self._origin, self._folder = place / "origin", place / "a" / "b" / "case"
        self._folder.parent.mkdir(parents=True)
        make_folder(self._origin)

    def run(self, case: Case) -> Outcome:
        """Run a case, and look at how it ended."""
        with _environment({"FORETIDE_HOME": str(self._folder / "home"), "COLUMNS": "100"}):
            _prepare(case, self._origin, self._folder)
        variables = {"FORETIDE_HOME": str(self._folder / "home"), "COLUMNS": "100"} | case.environment
        with (
            contextlib.chdir(self._folder),
            _environment(variables),
            _limits(self._folder) as starts,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, [*case.argv])
        return _judge(case, result, started=bool(starts))


def _judge(case: Case, result: Any, *, started: bool) -> Outcome:
    cause = getattr(result.exception, "__cause__", None)
    spark, hung = started, isinstance(cause, Hang)
    expected = cause is None or isinstance(cause, ForetideError | KeyboardInterrupt) or hasattr(cause, "format_message")
    wrong = [
        *(["it did not exit"] if result.exception is not None and not isinstance(result.exception, SystemExit) else []),
        *([f"exit code {result.exit_code}"] if result.exit_code not in {0, 1, 2, 130} else []),
        *(["a traceback"] if "Traceback" in result.output and "FORETIDE_DEBUG" not in case.environment else []),
        *(["control characters"] if CONTROL_CHARACTERS.search(result.output) else []),
        *(["no JSON"] if "--json" in case.argv and not _is_json(result.stdout) else []),
        *(["silent"] if result.exit_code in {0, 1} and not result.output.strip() else []),
    ]
    unexpected = None if expected or spark or hung else cause
    return Outcome(case, result.exit_code, result.output, ", ".join(wrong), unexpected, hung, spark)


def _is_json(text: str) -> bool:
    """Whether it is one value, or with `--follow` one in each line."""
    try:
        json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    except ValueError:
        return "\n" in text.strip() and all(_is_json(line) for line in text.splitlines())
    return True


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _limits(folder: Path) -> Iterator[list[object]]:
    """Stop a case that computes, waits or takes memory without end; who waits is interrupted, as by Ctrl-C.

    Yields the processes that it would have started.
    """
    starts: list[object] = []

    def hang(*_: Any) -> None:
        raise Hang

    def start(_: Any, arguments: object, *__: Any, **___: Any) -> None:
        starts.append(arguments)
        raise SparkStarted

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    def interrupt_server(*_: Any) -> None:
        raise KeyboardInterrupt

    process: Any = subprocess.Popen  # Spark is a process of its own, and its version is asked for first
    saved = (time.sleep, server.create_app, tempfile.tempdir, process.__init__)
    handlers = [(number, signal.signal(number, hang)) for number in (signal.SIGPROF, signal.SIGALRM)]
    time.sleep, server.create_app = interrupt, interrupt_server  # type: ignore[assignment]
    tempfile.tempdir, process.__init__ = str(folder), start  # type: ignore[assignment]
    memory = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, memory[1]))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, REAL_SECONDS)
    try:
        yield starts
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, memory)
        for number, handler in handlers:
            signal.signal(number, handler)
        time.sleep, server.create_app, tempfile.tempdir, process.__init__ = saved


_COLUMNS = ("cases", "no clear end", "tracebacks", "hangs", "accepted, so that Spark starts")


def report(outcomes: list[Outcome]) -> str:
    """The table of docs/reliability.md, then every case that went wrong."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for each in outcomes:
        found = (True, each.wrong, each.unexpected is not None, each.hung, each.started_spark)
        for name in (each.case.kind, "all"):
            kinds[name] += Counter(column for column, value in zip(_COLUMNS, found, strict=True) if value)
    lines = [f"| inputs | {' | '.join(_COLUMNS)} |", f"|---{'|--:' * len(_COLUMNS)}|"]
    found_kinds = [name for name in (*KINDS, "all") if name in kinds]
    lines += [f"| {name} | {' | '.join(f'{kinds[name][each]:,}' for each in _COLUMNS)} |" for name in found_kinds]
    for each in outcomes:
        if each.wrong or each.hung or each.unexpected is not None:
            what = each.wrong or ("hang" if each.hung else f"{type(each.unexpected).__name__}: {each.unexpected}"[:150])
            lines.append(f"{what}: {_origin(each.unexpected)} {each.case}")
    return "\n".join(lines)


def _origin(error: BaseException | None) -> str:
    """The last line of Foretide's own that an error passed through."""
    found, trace = "", error.__traceback__ if error is not None else None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/foretide/" in file and not file.endswith(("cli/exits.py", "cli/main.py")):
            found = f"{file.rpartition('/foretide/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
