"""Odd input for `plan`, `simulate`, `forecast`, `evaluate` and `train`: what each case types, and the files it needs.

A case is its id, the arguments (file names are relative to the working folder), and the files to create.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

Case = tuple[str, list[str], dict[str, bytes]]

_MODEL: dict[str, Any] = {
    "operator": [
        {"name": "parse", "service_rate": 100, "arrivals": 150, "processors": 2, "pool": 3},
        {"name": "count", "service_rate": 80, "processors": 3, "service_scv": 0.5, "arrival_scv": 2, "splits": False},
    ],
    "flow": [{"from": "parse", "to": "count", "gain": 0.9}],
    "simulation": {
        "duration": 2,
        "warm_up": 0,
        "seed": 3,
        "curve": [[0, 1.0], [1, 2.0]],
        "slow_worker": [{"operator": "count", "replica": 1, "factor": 2, "start": 0, "end": 1}],
        "failure": [{"operator": "count", "replica": 0, "at": 0.5, "lasts": 0.5}],
        "routes": {"parse": [1, 1, 1]},
    },
}
_BATCHES: dict[str, Any] = {"cores": 4, "fixed_cost": 0.2, "task_cost": 0.001, "work_per_row": 0.01, "trigger": 0.1}
_ODD: dict[str, Any] = {
    "minus": -1,
    "zero": 0,
    "denormal": 5e-324,
    "small": 1e-9,
    "large": 1e12,
    "huge": 1e308,
    "infinite": float("inf"),
    "nan": float("nan"),
    "beyond 64 bits": 2**63,
    "400 zeros": 10**400,
    "text": "much",
    "duration": "2s",
    "empty": "",
    "null": None,
    "list": [1e308, 1e308],
    "table": {"a": {"b": 1}},
}
_NAMES = ["[/]", "[/red]", "[bold]x", "\x1b[2J", "\udcff", "\u202e", "a\nb", "n" * 300, "\U0001f600", "a b", "%s{}"]
_NUMBERS = [
    "0",
    "-1",
    "nan",
    "inf",
    "1e400",
    "1e308",
    "5e-324",
    "9" * 20,
    "9" * 400,
    "9" * 5000,
    "\u0663",
    "x",
    "",
    "[/]",
]


def _label(text: str) -> str:
    """A text as part of an id."""
    shown = ascii(text)[1:-1]
    return shown if len(shown) < 20 else f"{shown[:9]} x{len(text)}"


def _fields(table: dict[str, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in table.items():
        yield (*path, key)
        for place, entry in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(entry, dict):
                yield from _fields(entry, (*path, key, place) if isinstance(value, list) else (*path, key))


def _with(path: tuple[Any, ...], value: Any, model: dict[str, Any]) -> bytes:
    changed = copy.deepcopy(model)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(changed).encode()


def _models() -> Iterator[Case]:
    batches = {**_MODEL, "micro_batch": _BATCHES}
    batches["simulation"] = {**_MODEL["simulation"], "mode": "micro-batch"}
    for mode, model in (("pipeline", _MODEL), ("batches", batches)):
        paths = [path for path in _fields(model) if mode == "pipeline" or path[0] == "micro_batch"]
        for number, path in enumerate(paths):
            for place, (name, value) in enumerate(_ODD.items()):
                label = f"{mode} {'.'.join(map(str, path))} {name}"
                command = ["simulate", "m.json"] if (number + place) % 2 else ["plan", "m.json", "--budget", "9"]
                yield f"{command[0]} {label}", command, {"m.json": _with(path, value, model)}
    for name in _NAMES:
        named = json.loads(json.dumps(_MODEL).replace('"count"', json.dumps(name)))
        files = {"m.json": json.dumps(named).encode()}
        yield f"plan name {_label(name)}", ["plan", "m.json", "--latency", "500ms"], files
        yield f"simulate name {_label(name)}", ["simulate", "m.json"], files


def _model_files() -> Iterator[Case]:
    toml = b'[[operator]]\nname = "parse"\nservice_rate = 100\narrivals = 150\n'
    contents = {
        "empty": b"",
        "utf-16": toml.decode().encode("utf-16"),
        "utf-16 without a mark": toml.decode().encode("utf-16-le"),
        "latin-1": b'[[operator]]\nname = "Z\xfcrich"\n',
        "binary": bytes(range(256)),
        "mark": b"\xef\xbb\xbf" + toml,
        "deep": b"a = " + b"[" * 20_000,
        "dotted": b"operator" + b".a" * 3_000 + b" = 1",
        "digits": toml + b"processors = " + b"9" * 5000,
        "hexadecimal": toml + b"processors = 0x" + b"f" * 5000,
        "date": toml + b"pool = 2020-01-01",
        "many operators": b'[[operator]]\nname = "a"\n' * 1000,
    }
    for name, content in contents.items():
        for command in (["plan", "m.toml", "--budget", "9"], ["simulate", "m.toml"]):
            yield f"{command[0]} TOML {name}", command, {"m.toml": content}
    contents = {
        "deep": b"[" * 100_000,
        "deep tables": b'{"a":' * 100_000,
        "digits": b'{"operator": [{"service_rate": ' + b"9" * 5000 + b"}]}",
        "list": b"[]",
        "null": b"null",
        "text": b'"x"',
        "cut": b'{"operator": [{"na',
    }
    for name, content in contents.items():
        for command in (["plan", "m.json", "--budget", "9"], ["simulate", "m.json"]):
            yield f"{command[0]} JSON {name}", command, {"m.json": content}
    for name in ("/dev/zero", "/proc/self/mem", "/dev/null", "missing.toml", ".", "n" * 300, "\udcff.toml"):
        yield f"plan file {_label(name)}", ["plan", name, "--budget", "9"], {}
        yield f"simulate file {_label(name)}", ["simulate", name], {}


def _model_options() -> Iterator[Case]:
    files = {"m.json": json.dumps(_MODEL).encode()}
    batches = {"m.json": json.dumps({**_MODEL, "micro_batch": _BATCHES}).encode()}
    simulation = {"mode": "micro-batch", "duration": 5}
    controlled = {"m.json": json.dumps({**_MODEL, "micro_batch": _BATCHES, "simulation": simulation}).encode()}
    for number in _NUMBERS:
        for option in ("--budget", "--latency"):
            yield f"plan {option} {_label(number)}", ["plan", "m.json", option, number], files
            yield f"plan batches {option} {_label(number)}", ["plan", "m.json", option, number], batches
        yield f"simulate --seed {_label(number)}", ["simulate", "m.json", "--seed", number], files
        for option in ("--latency", "--period", "--cores-per-executor", "--max-executors"):
            command = ["simulate", "m.json", "--policies", "replicas", option, number]
            yield f"simulate {option} {_label(number)}", command, controlled
    for name in ("nowhere/x.png", "x.doc", ".", "", "n" * 300 + ".png", "m.json", "\udcff", "m.json/x.png"):
        yield f"simulate --plot {_label(name)}", ["simulate", "m.json", "--plot", name], files
    for name in ("nobody", "", "[/]", "\udcff", "replicas,,", "static,static"):
        yield f"simulate --policies {_label(name)}", ["simulate", "m.json", "--policies", name], controlled
    for latency in ("500ms", "2s", "1 minute", "0.5"):
        yield f"plan --latency {latency}", ["plan", "m.json", "--latency", latency], files


def _rows(count: int = 150) -> list[str]:
    return [f"2026-01-01T{minute // 12:02}:{minute % 12 * 5:02},{minute % 7 + 3}" for minute in range(count)]


def _csv(rows: list[str], header: str = "time,rows") -> bytes:
    return "\n".join([header, *rows, ""]).encode()


def _commands(label: str, options: list[str], files: dict[str, bytes]) -> Iterator[Case]:
    """One of the three commands; which one depends on the label."""
    command, *more = (["forecast"], ["evaluate", "--json"], ["train", "--output", "kept"])[sum(label.encode()) % 3]
    yield f"{command} {label}", [command, *options, "--model", "last value", *more], files


def _series_files() -> Iterator[Case]:
    rows = _rows()
    contents = {
        "good": _csv(rows),
        "reversed": _csv(rows[::-1]),
        "exchanged": _csv([*rows[:9], rows[10], rows[9], *rows[11:]]),
        "doubled": _csv([*rows[:9], rows[8], *rows[9:]]),
        "same time": _csv([f"2026-01-01T00:00,{number}" for number in range(150)]),
        "no time": _csv([*rows[:9], "never,5", *rows[10:]]),
        "empty": b"",
        "header": b"time,rows\n",
        "binary": bytes(range(256)),
        "utf-16": _csv(rows).decode().encode("utf-16"),
        "columns": _csv(rows, "time"),
        "ragged": _csv([*rows, "a,b,c,d"]),
        "quote": _csv([*rows, '"open,5']),
        "blank lines": _csv([*rows[:9], "", "", *rows[9:]]),
    }
    cells = (
        "text",
        "inf",
        "-inf",
        "nan",
        "",
        "-1",
        "5e-324",
        "1e308",
        "1e16",
        "9" * 400,
        "0x1f",
        "1,5",
        "\x1b[2J",
        "True",
    )
    contents |= {f"value {_label(cell)}": _csv([*rows[:9], f"2026-01-01T00:45,{cell}", *rows[10:]]) for cell in cells}
    contents |= {f"all {_label(cell)}": _csv([row.split(",")[0] + "," + cell for row in rows]) for cell in cells}
    for name, content in contents.items():
        yield from _commands(f"CSV {name}", ["load.csv"], {"load.csv": content})
    for name in (
        "nothing.csv",
        "/dev/zero",
        "load.txt",
        "[/]",
        "\udcff",
        "n" * 300 + ".csv",
        ".csv",
        "damaged.parquet",
    ):
        yield from _commands(f"source {_label(name)}", [name], {"load.txt": b"1", "damaged.parquet": b"PAR1x"})
    for name in ("[/].csv", "{}.csv", "[red].csv"):
        yield from _commands(f"file {_label(name)}", [name], {name: _csv(rows)})


def _series_options() -> Iterator[Case]:
    files = {"load.csv": _csv(_rows())}
    for number in _NUMBERS:
        for option in ("--horizon", "--season", "--seed"):
            yield from _commands(f"{option} {_label(number)}", ["load.csv", option, number], files)
        for option in ("--share", "--latest"):
            command = ["evaluate", "load.csv", "--model", "last value", option, number]
            yield f"evaluate {option} {_label(number)}", command, files
    for name in ("[/]", "[/red]", "", "oracle", "\udcff", "n" * 300, "load.csv", "."):
        for command in (["forecast", "load.csv"], ["evaluate", "load.csv"], ["train", "load.csv", "--output", "kept"]):
            yield f"{command[0]} --model {_label(name)}", [*command, "--model", name], files
        yield from _commands(f"--column {_label(name)}", ["load.csv", "--column", name], files)
        output = ["train", "load.csv", "--model", "last value", "--output", name]
        yield f"train --output {_label(name)}", output, files
    for name in ("nowhere/x.png", "x.doc", ".", "", "n" * 300 + ".png", "\udcff.png", "load.csv/x.png"):
        for command in ("forecast", "evaluate"):
            plot = [command, "load.csv", "--model", "last value", "--plot", name]
            yield f"{command} --plot {_label(name)}", plot, files


def _saved_models() -> Iterator[Case]:
    files = {"load.csv": _csv(_rows())}
    card: dict[str, Any] = {
        "format": 1, "model": "last value", "series": "load", "step_seconds": 300.0, "horizons": [1], "seasons": None,
        "seed": 0, "values": 60, "features": {}, "scores": {}, "members": [], "arrays": "a.npz", "sha256": "",
        "state": {},
    }  # fmt: skip
    contents = {"deep": b"[" * 100_000, "empty": b"", "text": b'"x"', "binary": bytes(range(256))}
    contents |= {
        f"{field} {name}": _with((field,), value, card)
        for field in (
            "values",
            "scores",
            "horizons",
            "seasons",
            "model",
            "seed",
            "step_seconds",
            "state",
            "arrays",
            "format",
        )
        for name, value in _ODD.items()
        if name in {"huge", "text", "null", "list", "minus"}
    }
    for name, content in contents.items():
        held = {**files, "kept/model.json": content}
        yield f"forecast saved {name}", ["forecast", "load.csv", "--model", "kept"], held
        yield f"train saved {name}", ["train", "load.csv", "--output", "kept", "--resume"], held


CASES: list[Case] = [
    *_models(),
    *_model_files(),
    *_model_options(),
    *_series_files(),
    *_series_options(),
    *_saved_models(),
]
