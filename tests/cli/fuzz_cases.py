"""Odd input for every command: what is typed, what lies in files, and what the environment says.

Commands and options are those that the application has, so a new one is covered without an entry here.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from typer.main import get_command

from cli import fuzz_damage as damage
from cli.fuzz_damage import NUMBERS, Damage
from foretide.cli.main import VARIANTS, app

QUICK = {
    "bench": ["--list"],
    "plan": ["model.toml", "--budget", "6"],
    "simulate": ["model.toml", "--seed", "1"],
    "train": ["load.csv", "--output", "new", "--model", "last value", "--season", "24"],
    "forecast": ["load.csv", "--model", "last value", "--horizon", "2", "--season", "24"],
    "evaluate": ["load.csv", "--model", "last value", "--season", "24"],
    "metrics": ["--store", "metrics.db"],
    "decisions": ["--store", "metrics.db"],
    "explain": ["--store", "metrics.db"],
    "replay": ["--store", "metrics.db", "--policy", "static"],
    "report": ["metrics.db"],
    "topology show": ["url-count"],
    "stop": ["--app", "shop", "--no-wait"],
    "status": ["--control-folder", "control"],
    "drain": ["host-b", "--control-folder", "control"],
    "restart": ["--control-folder", "control"],
    "route show": ["--control-folder", "control"],
    "route set": ["work", "3:1", "--control-folder", "control"],
    "admission show": ["--control-folder", "control"],
    "admission set": ["lines", "50", "--control-folder", "control"],
    "target show": ["--control-folder", "control"],
    "target set": ["--latency", "2s", "--control-folder", "control"],
    "run script": ["job.py"],
    "run topology": ["job:shop"],
}
"""Arguments with which a command does something in no time; without an entry it gets what it requires."""

TEXTS = [
    *("", " ", "x", "none", "NaN", "[/]", "[bold red]x", ":smile:", "{x}", "%s", "=", "a=b", "a=", "a=1", "1:2", "1:0"),
    *("\x1b[2J", "a\nb", "a\tb", "\x07", "\u202eabc", "\u0663", "\u00b2", "k\u00e4se", "\U0001f600", "n" * 300),
    *(os.fsdecode(b"\xff"), os.fsdecode(b"a\xff.parquet"), "--", "-", "--json", "../../outside", "http://[::1"),
    *("work=300000000", "work=5", "guards.cooldown=30", "guards.cooldown=1e400", "target.latency=nan", "x.y=1"),
    *("run.trigger=1e308", "control.policies=none", "monitoring.store=mysql://x", "monitoring.rules=[[[["),
    *("2s", "1e20h", "1e300s", "-1s", "0s", "1 fortnight", "all", "p98", "query", "static", "last value", "shop"),
    *("sqlite:///metrics.db?timeout=x", "postgresql://[::1", "mysql://x", "sqlite://", "local[0]", "local[x]"),
]


PATHS = [
    *("folder", "missing", "missing/x.png", "folder/x.png", "x.png", "x.jpg", "model.toml", "model.toml/x", "socket"),
    *("binary", "empty", "deep.json", "deep.toml", "utf16.toml", "loop", "metrics.db", "load.csv", "control", "saved"),
    *("x" * 300 + ".png", "unreadable", "unwritable/x.png", "x.parquet", "."),
]
DEVICES = ["null", "zero", "memory"]
"""Links to devices. Only for what is read: as root, a file that is replaced may be the device itself."""

WAITING = {"--servers"}
"""Options whose odd values take the time that a server is waited for."""

INHERITED = {"--socket"}
"""Options for the number of a file that a parent has opened: odd ones are files of these tests."""

READ = {"file", "source", "--config", "--client-config", "--control-folder"}


KINDS = ("commands and options", "damaged files", "models, series and saved models", "environment",
         "refused before Spark")  # fmt: skip

SIZES = ["0", "-1", "nan", "99999999", "9" * 5000, "\u00b2", "", "1", "80"]


@dataclass(frozen=True)
class Case:
    """What is typed, and what is done to the folder before."""

    group: str
    argv: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    change: Damage | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of input, as docs/reliability.md has it."""
        kinds = {"file": KINDS[1], "models": KINDS[2], "environment": KINDS[3], "refused before Spark": KINDS[4]}
        return kinds.get(self.group.partition(":")[0], KINDS[0])

    def __str__(self) -> str:
        what = {name: content[:80] for name, content in self.files.items()}
        return f"[{self.group}] foretide {' '.join(map(ascii, self.argv))[:300]} {what or ''} {self.environment or ''}"


def commands() -> dict[str, Any]:
    """Every command by its name, groups included, and `run` for programs and topologies of one's own."""
    found = {}
    for name, lazy in get_command(app).commands.items():
        loaded = lazy.load()
        inner = getattr(loaded, "commands", None)
        found.update({f"{name} {each}": command for each, command in inner.items()} if inner else {name: loaded})
        found.update({f"run {each}": lazy.load(target) for each, target in VARIANTS.items() if name == "run"})
    return found


def words_of(name: str) -> list[str]:
    """What is typed for a command."""
    return ["run"] if name in {f"run {each}" for each in VARIANTS} else name.split()


def cases(seed: int, count: int) -> list[Case]:
    """So many cases, the same ones for a seed; each command, option and file has its share."""
    rng = random.Random(seed)
    families = [[*_typed(rng, name, command)] for name, command in commands().items()]
    families += [*_in_files(rng).values(), [*_in_surroundings()], [*_known_models()], [*_known_models()]]
    for each in families:
        rng.shuffle(each)
    chosen: list[Case] = []
    while len(chosen) < count and any(families):
        chosen += [each.pop() for each in families if each]
    return chosen[:count]


def _known_models() -> Iterator[Case]:
    """The cases that were written by hand for models and series."""
    with contextlib.suppress(ImportError):
        for name, argv, files in importlib.import_module("cli.fuzz_models").CASES:
            yield Case(f"models: {argv[0] if argv else name}", tuple(argv), files)


def _typed(rng: random.Random, name: str, command: Any) -> Iterator[Case]:
    quick = QUICK.get(name) or [_required(each) for each in _arguments(command) if each.required]
    has_json = any("--json" in each.opts for each in command.params)
    for each in command.params:
        for value in _values(each):
            typed = _replaced(quick, command, each, value)
            extra = ["--json"] if has_json and rng.random() < 0.5 else []
            yield Case(name, (*words_of(name), *extra, *typed))
    for value in (*TEXTS[:8], "extra"):
        yield Case(name, (*words_of(name), *quick, value, value))


def _arguments(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


def _required(argument: Any) -> str:
    return {"file": "model.toml", "source": "load.csv"}.get(argument.name, "x")


def _values(parameter: Any) -> list[str]:
    if getattr(parameter, "is_flag", False):
        return [""]
    if set(parameter.opts) & (WAITING | INHERITED):
        return []
    names = {parameter.name, *parameter.opts}
    return [*TEXTS, *NUMBERS, *PATHS, *(DEVICES if names & READ else [])]


def _replaced(quick: list[str], command: Any, parameter: Any, value: str) -> list[str]:
    """The quick arguments, with the value in the place of the parameter's own."""
    if parameter.param_type_name == "argument":
        place = _arguments(command).index(parameter)
        before, options = _split(quick, command)
        before = [*before, *["1"] * (place + 1 - len(before))]
        return [*before[:place], value, *before[place + 1 :], *options]
    option = parameter.opts[-1]
    rest = list(quick)
    if option in rest:
        del rest[rest.index(option) : rest.index(option) + (1 if parameter.is_flag else 2)]
    given = option if parameter.is_flag else f"{option}={value}"
    return [given, *rest]  # what follows a program are its own arguments


def _split(quick: list[str], command: Any) -> tuple[list[str], list[str]]:
    count = min(len(_arguments(command)), next((i for i, each in enumerate(quick) if each.startswith("-")), len(quick)))
    return quick[:count], quick[count:]


STEERING = ["routes.json", "status.json", "control.json", "admission.json", "target.json", "drained.json"]
STEERING += ["restart.json", "stop.json", "joins.json", "pipeline.json", "held.json", "supervisor.json"]
STEERING += ["mode.json", "restarted.json", "query.json", "workers.json", "loop.json", "driver.json", "join-j.json"]
READERS = {
    "control": [
        ["status"], ["list"], ["route", "show"], ["target", "show"], ["admission", "show"], ["drain", "0"], ["restart"],
        ["route", "set", "work", "1:2"], ["admission", "set", "lines", "5"], ["target", "set", "--budget", "4"],
        ["stop", "--no-wait"], ["mode", "show"], ["mode", "set", "advise"],
    ],
    "home/running": [
        ["list"], ["status"], ["stop", "--no-wait"], ["drain", "0"], ["restart"], ["metrics"], ["decisions"],
        ["explain"], ["replay", "--policy", "static"], ["route", "show"], ["admission", "show"], ["target", "show"],
        ["forecast", "shop", "--model", "last value"], ["status", "--app", "shop"],
    ],
    "metrics.db": [["metrics"], ["metrics", "--level", "worker"], ["decisions"], ["explain"], ["explain", "1"],
                   ["replay", "--policy", "static"], ["metrics", "--export", "x.parquet"], ["report", "metrics.db"]],
    "model.toml": [["plan", "model.toml", "--budget", "6"], ["simulate", "model.toml"]],
    "load.csv": [["forecast", *QUICK["forecast"]], ["evaluate", *QUICK["evaluate"]], ["train", *QUICK["train"]]],
    "foretide.toml": [["settings"], ["settings", "--all"], ["replay", *QUICK["replay"]], ["run"]],
    "saved": [["forecast", "load.csv", "--model", "saved"], ["train", "load.csv", "--output", "saved", "--resume"]],
}  # fmt: skip
"""Commands that read a file."""


def _in_files(rng: random.Random) -> dict[str, list[Case]]:
    """Damaged files of every kind, and a command that reads them."""
    found = defaultdict(list)
    for group, name, damages in _damages(rng):
        for each in damages:
            argv = [*rng.choice(READERS[group]), *(["--json"] if rng.random() < 0.5 else [])]
            found[group].append(Case(f"file: {group}", tuple(argv), change=partial(_damage, name=name, damage=each)))
    return found


def _damages(rng: random.Random) -> Iterator[tuple[str, str, list[Damage]]]:
    """A group, a file of it, and what may happen to the file."""
    for name in STEERING:
        yield "control", f"control/{name}", [*damage.replacements(), *damage.json_changes(rng, 12)]
    yield "home/running", "home/running/shop.json", [*damage.replacements(), *damage.json_changes(rng, 40)]
    yield "home/running", "home/running/odd.json", [*damage.replacements(), *damage.entries()]
    yield "metrics.db", "metrics.db", [*damage.replacements(links=False), *damage.bytes_changed(rng, 10)]
    yield "metrics.db", "metrics.db", damage.rows_changed(rng)
    for name in ("model.toml", "load.csv", "foretide.toml"):
        yield name, name, [*damage.replacements(), *damage.words_changed(rng, 20)]
    yield "saved", "saved/model.json", [*damage.replacements(), *damage.json_changes(rng, 30)]


def _damage(folder: Path, name: str, damage: Damage) -> None:
    damage(folder / name)


def _in_surroundings() -> Iterator[Case]:
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        for value in SIZES:
            yield Case("environment", ("decisions", "--store", "metrics.db"), environment={name: value})
    for home in ("x" * 5000, "model.toml", "model.toml/below", "missing", "unwritable", "loop", os.fsdecode(b"\xff")):
        for argv in (["list"], ["status", "--json"], ["forecast", "shop"], ["decisions"]):
            yield Case("environment", tuple(argv), environment={"FORETIDE_HOME": home})
    for value in ("1", "", "x"):
        for name in ("DEBUG", "ALONE", "GUARDS__COOLDOWN", "GUARDS_COOLDOWN", "CONFIG", "ODD"):
            yield Case("environment", ("settings", "--json"), environment={f"FORETIDE_{name}": value})


REFUSED_BEFORE_SPARK = [
    *(["demo", "join", f"--duration={value}"] for value in ("inf", "1e20", "nan", "-1", "1s")),
    *(["demo", "url-count", f"--duration={value}"] for value in ("inf", "1e20", "0", "1s")),
    *(["run", f"--duration={value}"] for value in ("inf", "1e20", "0", "x")),
    *(["run", f"--rate={value}"] for value in ("inf", "nan", "1e308", "0")),
    *(["run", f"--plot={value}"] for value in ("missing/x.png", "x.jpg", "x.doc", ".", "folder")),
    *(["demo", "url-count", f"--plot={value}"] for value in ("missing/x.png", "x.doc", "folder")),
    *(["demo", "url-count", f"--report={value}"] for value in ("missing/x.html", "x.doc", "folder")),
    *(["run", f"--output={value}"] for value in ("model.toml", "model.toml/below", "control", "x" * 300)),
    *(["run", f"--set={value}"] for value in ("monitoring.store=mysql://x", "guards.cooldown=x", "run.trigger=1e308")),
    *(["run", f"--master={value}"] for value in ("nonsense", "", "local[0]", "local[x]", "local[2", "spark://")),
    *(["demo", "join", f"--master={value}"] for value in ("nonsense", "", "local[0]", "local[x]", "local[2")),
    ["demo", "join", "--partitions=100000000"],
    ["demo", "join", "--orders=1e308"],
    *(["run", "--latency=1s", word] for word in ("--model=missing", "--model=folder", "--history=missing.csv")),
    *(["run", "--config=empty", word] for word in ("--history=load.csv", "--event=2026-11-27 18:00 1h x3")),
    *(["run", "--latency=1s", f"--event={value}"] for value in ("tomorrow", "2026-11-27 18:00 1h x-3")),
    *(["run", program, "--latency=1s", "--set=run.monitoring=false"] for program in ("url-count", "job:shop")),
    *(["run", f"--sink={value}", "job:shop"] for value in ("json:null/x", "parquet:model.toml", "json:unwritable/x\0")),
    *(["run", program, "--set=run.output_mode=complete"] for program in ("url-count", "job:shop")),
    ["run", "--set=monitoring.store=mysql://x", "job.py"],
    ["run", "--latency=1s", "--model=missing", "job.py"],
    ["run", "x" * 400 + ".py"],
    ["run", "--policy=nothing"],
    ["run", "--ratio=1:2"],
]
"""What has to be refused before Spark starts."""
