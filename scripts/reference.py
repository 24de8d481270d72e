"""Writes docs/reference from the code: commands, groupings, metrics, settings, errors. `make docs` runs it."""  # noqa: INP001

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from foretide import errors
from foretide.cli import app
from foretide.cli.main import LazyCommand
from foretide.metrics.catalogue import CATALOGUE, at_level
from foretide.metrics.metric import Level
from foretide.settings.load import CONFIG, DEFAULT_FILE, OTHER_VARIABLES
from foretide.settings.reference import PYTHON_ONLY, SECTIONS, SETTINGS, Setting, describe_section
from foretide.settings.run import MonitorSettings
from foretide.topology import groupings as grouping
from foretide.topology.groupings import Grouping

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
MADE = "<!-- Made from the code by scripts/reference.py: change the code, then run `make docs`. -->"
_OF_TYPER = {"install_completion", "show_completion", "help"}


def pages() -> dict[str, str]:
    """Every page by the name of its file."""
    return {
        "cli.md": cli_page(app),
        "errors.md": errors_page(),
        "groupings.md": groupings_page(),
        "metrics.md": metrics_page(),
        "settings.md": settings_page(),
    }


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _page(title: str, *paragraphs: str) -> str:
    return "\n\n".join([MADE, f"# {title}", *paragraphs]) + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


# ---- commands


def cli_page(cli: typer.Typer) -> str:
    """All commands of a Typer application, with what they take."""
    root: Any = get_command(cli)
    commands = list(_commands("foretide", root))
    overview = _table(["command", "what it does"], ([f"`{path}`", _first_line(each.help)] for path, each in commands))
    ends = "Every command has `--help`. It ends with 0 when all went well, with 1 and a sentence when Foretide refuses"
    as_json = 'With `--json` the sentence is `{"error": {"kind": ..., "message": ..., "command": ...}}` on stdout'
    debug = "An error that Foretide does not expect leaves its trace in `errors.log` in `FORETIDE_HOME`"
    return _page(
        "Commands",
        f"{root.help or ''}",
        f"{ends} or a run was not exact, with 2 when it was called wrongly, and with 130 after Ctrl-C.",
        f"{as_json}; numbers that are not finite are null. {debug}; `FORETIDE_DEBUG=1` prints it.",
        "Wherever `--app NAME` names the pipeline, a last argument does so too: `foretide status shop`.",
        overview,
        *(part for path, each in commands for part in _command(path, each)),
    )


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands below a group, in the order in which `--help` lists them."""
    command = command.load() if isinstance(command, LazyCommand) else command
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, each in below.items():
        if not each.hidden:
            yield from _commands(f"{path} {name}", each)


def _command(path: str, command: Any) -> Iterator[str]:
    taken = [each for each in command.params if each.name not in _OF_TYPER and not getattr(each, "hidden", False)]
    arguments = [each for each in taken if each.param_type_name == "argument"]
    options = [each for each in taken if each.param_type_name == "option"]
    usage = [path, *(["[OPTIONS]"] if options else []), *(_place(argument) for argument in arguments)]
    yield f"## {path}"
    yield inspect.cleandoc(command.help or "")
    yield f"```console\n{' '.join(usage)}\n```"
    if arguments:
        yield _table(["argument", "meaning", "default"], (_described(f"`{_value(a)}`", a) for a in arguments))
    if options:
        yield _table(["option", "meaning", "default"], (_described(_spelled(o), o) for o in options))


def _place(argument: Any) -> str:
    name = _value(argument) + ("..." if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


def _value(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper().replace("_", "-"))


def _spelled(option: Any) -> str:
    value = "" if option.is_flag or getattr(option, "count", False) else f" {_value(option)}"
    return ", ".join(f"`{name}{value}`" for name in [*option.opts, *option.secondary_opts])


def _described(name: str, parameter: Any) -> list[str]:
    return [name, f"{parameter.help or ''} {_bounds(parameter)}".strip(), _default(parameter)]


def _bounds(parameter: Any) -> str:
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    words = [f"{word} {bound:g}" for word, bound in (("at least", low), ("at most", high)) if bound is not None]
    return f"({', '.join(words)})" if words else ""


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return f"`{parameter.show_default}`"
    shown = not callable(parameter.default) and parameter.default not in (None, "", False)
    return f"`{getattr(parameter.default, 'value', parameter.default)}`" if shown else ""


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n", maxsplit=1)[0]


# ---- groupings


def groupings_page() -> str:
    """Every grouping, from its docstring."""
    kinds = [kind for kind in _classes(grouping) if issubclass(kind, Grouping) and kind is not Grouping]
    public = [kind for kind in kinds if not kind.__name__.startswith("_")]
    head = ["grouping", "in Python", "controllable", "exchange"]
    rows = ([kind.name, f"`{_call(kind)}`", _yes(kind.controllable), _yes(kind.exchanges)] for kind in public)
    return _page(
        "Groupings",
        _whole(grouping),
        _table(head, rows),
        *(part for kind in public for part in (f"## {kind.name}", f"```python\n{_call(kind)}\n```", _whole(kind))),
        *(part for kind in kinds if kind not in public for part in _common(kind, public)),
    )


def _common(base: type[Grouping], public: list[type[Grouping]]) -> Iterator[str]:
    """What several groupings inherit from one base, where the base says something about it."""
    said = _whole(base)
    if said and not said.startswith(f"{base.__name__}("):  # a dataclass without words of its own
        yield f"## What {_listed([kind.name for kind in public if issubclass(kind, base)])} share"
        yield said


def _call(kind: type[Grouping]) -> str:
    """How it is made, with its defaults: `ft.Shuffle(by=())`."""
    parameters = inspect.signature(kind).parameters.values()
    return f"ft.{kind.__name__}({', '.join(str(each.replace(annotation=each.empty)) for each in parameters)})"


def _yes(whether: object) -> str:
    return "yes" if whether else "no"


# ---- metrics

_SUBJECTS = {
    Level.QUERY: "the name of the pipeline",
    Level.OPERATOR: "the id of a spout or bolt",
    Level.EDGE: "the bolt that the edge leads into; `from->to` for a flow between two operators",
    Level.TASK: "the bolt and the number of its replica, such as `count/3`",
    Level.WORKER: "the id of the executor, or `driver` in local mode",
    Level.MACHINE: "the host, or `host/core0` for a single core",
}


def metrics_page() -> str:
    """Every metric of the catalogue, a table for each level."""
    often = _how_often()
    every = [f"{level.value} ({len(at_level(level))}, {often[level]})" for level in Level]
    return _page(
        "Metrics",
        f"There are {len(CATALOGUE)} metrics, in {len(every)} levels: {_listed(every)}. A metric has the same name in "
        "the store, on the command line, in Python and, with `foretide_` before it, in Prometheus. What is not known "
        "has no value: it is neither 0 nor NaN.",
        *(part for level in Level for part in _level(level, often[level])),
    )


def _how_often() -> dict[Level, str]:
    """How often each level is read, unless the settings say otherwise."""
    settings = MonitorSettings()
    slow = {Level.WORKER: settings.workers_every, Level.MACHINE: settings.machines_every}
    return {level: f"every {slow[level]:g} s" if level in slow else "every batch" for level in Level}


def _level(level: Level, often: str) -> Iterator[str]:
    yield f"## {level.value.capitalize()}"
    yield f"Read {often}. The subject is {_SUBJECTS[level]}."
    rows = ([f"`{metric.name}`", metric.unit, metric.meaning] for metric in at_level(level))
    yield _table(["metric", "unit", "meaning"], rows)


# ---- settings

_FORMS = """\
- **Durations** are numbers of seconds, or text such as `"2s"`, `"500 ms"` or `"1 minute 30 seconds"`.
- **None**, where the type allows it, is the text `"none"`.
- **Lists** are separated by commas in flags and variables, `--set control.policies=bypass,replicas`; an empty list is
  `[]`. Lists of tables, and tables, are given there as JSON. A list replaces the default; it is not added to it.
- A setting that is unknown, of the wrong type or out of bounds is an error that names the file, variable or flag. So
  is a variable that begins with `FORETIDE_` and is not a setting."""


def settings_page() -> str:
    """Every setting: a table for each section, and one of all advanced settings."""
    others = _listed([f"`{name}`" for name in sorted(OTHER_VARIABLES - {CONFIG})])
    advanced = [setting for setting in SETTINGS.values() if setting.scope is not None]
    python_only = ", ".join(f"`{path}`" for path in sorted(PYTHON_ONLY))
    return _page(
        "Settings",
        f"There are {len(SETTINGS)} settings, {len(advanced)} of them advanced. A flag such as `--set "
        f"guards.cooldown=30` overrides the environment (`{SETTINGS['guards.cooldown'].variable}=30`), that overrides "
        f"the file, and that overrides the default. The file is the one that `--config` names, or the one that "
        f"`{CONFIG}` names, or `{DEFAULT_FILE}` in the working folder. `foretide settings` shows the settings in "
        "force and where each came from; `--all` includes advanced ones.",
        '```toml\n[control]\nmode = "advise"\npolicies = ["bypass", "replicas"]\n\n'
        '[target]\nlatency = "2s"\n\n[guards]\ncooldown = 30\n```',
        _FORMS + f" ({others} are used elsewhere, and are ignored.)",
        *(part for section in SECTIONS for part in _section(section)),
        "## Advanced settings",
        "Their defaults suit nearly everybody.",
        _settings_table(advanced),
        f"In Python only: {python_only}.",
    )


def _section(section: str) -> Iterator[str]:
    shown = [setting for setting in SETTINGS.values() if setting.section == section and setting.scope is None]
    yield f"## {section}"
    yield describe_section(section)
    yield _settings_table(shown)


def _settings_table(settings: list[Setting]) -> str:
    rows = (
        [f"`{each.path}`", each.type_name, f"`{each.shown(each.default)}`", each.description, f"`{each.variable}`"]
        for each in settings
    )
    return _table(["setting", "type", "default", "meaning", "variable"], rows)


# ---- errors


def errors_page() -> str:
    """The tree of errors, and what each of them carries."""
    said, _, tree = _whole(errors).partition("\n\n")
    catch = "All of them can be imported from `foretide`. On the command line an error is one sentence and exit code 1."
    return _page(
        "Errors",
        f"{said} {catch}",
        f"```text\n{tree}\n```",
        *(part for kind in _classes(errors) for part in _error(kind)),
    )


def _error(kind: type) -> Iterator[str]:
    yield f"## {kind.__name__}"
    yield _whole(kind)
    if carried := _carried(kind):
        yield f"It carries {_listed([f'`{name}`' for name in carried])}."


def _carried(kind: type) -> list[str]:
    if is_dataclass(kind):
        return [each.name for each in fields(kind)]
    made_by = vars(kind).get("__init__")
    return list(inspect.signature(made_by).parameters)[1:] if made_by else []


def _classes(module: Any) -> list[Any]:
    """The classes that a module defines, in its order."""
    return [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]


def _whole(documented: Any) -> str:
    """A docstring of its own, not one that was inherited."""
    return inspect.cleandoc(vars(documented).get("__doc__") or "")


if __name__ == "__main__":
    main()
