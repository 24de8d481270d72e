"""The `foretide` command. A command's module is imported when the command is called, not before."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from foretide.cli.exits import restore_interrupts, run_command

_COMMANDS = {
    "run": ("running.run:run", "Run an application, a topology of your own, or a PySpark program.", "Run"),
    "demo": ("running.demo:app", "Run a demonstration.", "Run"),
    "apps": ("apps:apps", "List the applications.", "Run"),
    "topology": ("apps:topology", "Show topologies.", "Run"),
    "kafka": ("kafka:app", "Run a Kafka broker on this machine, for development and tests.", "Run"),
    "soak": ("soak:soak", "Disturb a pipeline at random, and compare all that it has written.", "Run"),
    "list": ("pipelines:list_pipelines", "List the pipelines that run on this machine.", "Watch"),
    "status": ("pipelines:status", "Show the state of a pipeline and its control loop.", "Watch"),
    "advice": (
        "pipelines:advice",
        "Show what could be changed in a query, and what that would save.",
        "Watch",
    ),
    "metrics": ("metrics:metrics", "Show the metrics of a pipeline.", "Watch"),
    "decisions": ("decisions:decisions", "List the decisions of the control loop.", "Watch"),
    "explain": ("decisions:explain", "Explain a decision of the control loop.", "Watch"),
    "report": ("report:report", "Report on one or several runs in an HTML file.", "Watch"),
    "dashboard": (
        "dashboard:dashboard",
        "Show the pipelines of this machine in a browser, and serve the REST API.",
        "Watch",
    ),
    "replay": ("replay:replay", "Replay policies over the recorded history of a pipeline.", "Watch"),
    "stop": ("pipelines:stop", "Stop a pipeline after its current batch.", "Steer"),
    "drain": ("pipelines:drain", "Take a host or an executor out of service.", "Steer"),
    "restart": ("pipelines:restart", "Restart a pipeline from its checkpoint.", "Steer"),
    "route": ("steering:route", "Show and set the routes of a running pipeline.", "Steer"),
    "admission": ("steering:admission", "Show and set the admission limits of a running pipeline.", "Steer"),
    "target": ("steering:target", "Show and set the latency target of a running pipeline.", "Steer"),
    "mode": ("steering:mode", "Show and set what the control loop of a running pipeline does.", "Steer"),
    "settings": ("settings:settings", "Show the settings in force, and where each comes from.", "Settings"),
    "doctor": ("doctor:doctor", "Check what Foretide needs on this machine, and say what mends it.", "Settings"),
    "plan": ("plan:plan", "Plan processors from a model, or executors from what was measured of a pipeline.", "Plan"),
    "simulate": ("simulate:simulate", "Simulate a model, with or without the control loop.", "Plan"),
    "history": ("history:app", "Hand in the earlier load of a pipeline.", "Forecast"),
    "bench": ("bench:bench", "Run the experiments of the papers, with their rivals beside them.", "Plan"),
    "train": ("forecast:train", "Train and save a model of a load.", "Forecast"),
    "forecast": ("forecast:forecast", "Forecast a load, with intervals.", "Forecast"),
    "evaluate": ("forecast:evaluate", "Evaluate the models on the last part of a series.", "Forecast"),
}
"""The commands in the order of `foretide --help`: module and function (or group) below `foretide.cli`, help, panel."""

_OWN_TOPOLOGY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
VARIANTS = {"script": "running.script:run_script", "topology": "running.own_topology:run_topology"}
"""What `foretide run` does if it is given a program or a topology instead of the name of an application."""

_COMPLETION = frozenset({"install_completion", "show_completion"})


class LazyCommand(TyperCommand):
    """A command of which only the name, the help and the panel are known until it is called."""

    def __init__(self, name: str, target: str, help: str, panel: str) -> None:  # noqa: A002 - click's name
        super().__init__(name, help=help, rich_help_panel=panel)
        self._target = target

    def load(self, target: str | None = None) -> Any:
        """Import the command, or another one in its place; click's object for it."""
        module, _, attribute = (target or self._target).partition(":")
        found = getattr(import_module(f"foretide.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            group = get_group(found)
            for command in group.commands.values():
                _accept_app_as_argument(command)
            return group
        command = _single_command(self.name, found)
        _accept_app_as_argument(command)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments as the command itself does."""
        place, variant = given_program(args) if self.name == "run" else (None, None)
        loaded = self.load(None if variant is None else VARIANTS[variant])
        if variant == "script" and place is not None:
            loaded.allow_interspersed_args = False  # what follows the program are its arguments
        restore_interrupts()
        return loaded.make_context(info_name, args, parent, **extra)


def _single_command(name: str | None, function: Callable[..., Any]) -> Any:
    single = typer.Typer(add_completion=False)
    single.command(name)(function)
    return get_command(single)


def _take_app(
    app_argument: Annotated[
        str | None, typer.Argument(metavar="APP", help="Name of the pipeline, as with --app.")
    ] = None,
) -> None:
    """Has the argument that other commands get."""


def _accept_app_as_argument(command: Any) -> None:
    """Where `--app NAME` names the pipeline, a last argument does so too: `foretide status shop`."""
    if not any("--app" in each.opts for each in command.params):
        return

    def callback(*, app_argument: str | None = None, **values: Any) -> Any:
        if app_argument is not None:
            if values["app"] not in {None, app_argument}:
                raise typer.BadParameter(f"'{values['app']}' and '{app_argument}' are two pipelines; name one of them")
            values["app"] = app_argument
        return run(**values)

    run, command.callback = command.callback, callback
    command.params.append(_single_command(None, _take_app).params[0])


class LazyGroup(TyperGroup):
    """The commands of the table."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.commands = {name: LazyCommand(name, *entry) for name, entry in _COMMANDS.items()}

    def get_params(self, ctx: Any) -> list[Any]:
        """The options; those for shell completion are not shown."""
        found: list[Any] = super().get_params(ctx)
        for option in found:
            option.hidden = option.hidden or option.name in _COMPLETION
        return found

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run a command, and exit as `foretide.cli.exits` says."""
        given = sys.argv[1:] if args is None else list(args)
        extra |= {"prog_name": "foretide", "standalone_mode": False}
        program = given_program(given[1:])[0] if given[:1] == ["run"] else None
        options = given if program is None else given[: program + 1]
        options = options[: options.index("--")] if "--" in options else options
        run_command(partial(super().main, given, **extra), partial(_command_in, given), as_json="--json" in options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an interrupt keeps what it says, which Typer would drop."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise SystemExit(1) from interrupt


def given_program(args: Sequence[str]) -> tuple[int | None, str | None]:
    """The place of a program or a topology of the user's among the arguments of `run`, and which of them it is.

    >>> given_program(["--latency", "2s", "job.py", "--json"]), given_program(["--sink", "json:out", "jobs.x:shop"])
    ((2, 'script'), (2, 'topology'))
    >>> given_program(["url-count"])
    (None, None)
    """
    for place, (before, word) in enumerate(zip(["", *args], args, strict=False)):
        if word.endswith(".py") and not word.startswith("-"):
            return place, "script"
        if before != "--sink" and _OWN_TOPOLOGY.fullmatch(word):
            return place, "topology"
    return None, None


def _command_in(args: Sequence[str]) -> str:
    """The name of the command, with that of its group; nothing if there is none."""
    name, inner = [*args, "", ""][:2]
    if name not in _COMMANDS:
        return ""
    module, _, attribute = _COMMANDS[name][0].partition(":")
    found = getattr(sys.modules.get(f"foretide.cli.{module}"), attribute, None)
    is_inner = isinstance(found, typer.Typer) and inner.replace("-", "").isalpha()
    return f"{name} {inner}" if is_inner else name


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version  # noqa: PLC0415 - slow to import

        typer.echo(f"foretide {version('foretide')}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Predictive control for streaming pipelines on Apache Spark."""
