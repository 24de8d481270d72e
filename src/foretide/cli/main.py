"""The `foretide` command. A command's module is imported when the command is called, not before."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from foretide.errors import ForetideError

_COMMANDS = {
    "run": ("run:run", "Run an application under a replayed real load curve."),
    "demo": ("demo:app", "Run a demonstration."),
    "apps": ("apps:apps", "List the applications."),
    "topology": ("apps:topology", "Show topologies."),
    "list": ("pipelines:list_pipelines", "List the pipelines that run on this machine."),
    "status": ("pipelines:status", "Show the state of a pipeline and its control loop."),
    "stop": ("pipelines:stop", "Stop a pipeline after its current batch."),
    "drain": ("pipelines:drain", "Take a host or an executor out of service."),
    "restart": ("pipelines:restart", "Restart a pipeline from its checkpoint."),
    "route": ("steering:route", "Show and set the routes of a running pipeline."),
    "admission": ("steering:admission", "Show and set the admission limits of a running pipeline."),
    "target": ("steering:target", "Show and set the latency target of a running pipeline."),
    "metrics": ("metrics:metrics", "Show the metrics of a pipeline."),
    "decisions": ("decisions:decisions", "List the decisions of the control loop."),
    "explain": ("decisions:explain", "Explain a decision of the control loop."),
    "replay": ("replay:replay", "Replay policies over the recorded history of a pipeline."),
    "settings": ("settings:settings", "Show the settings in force, and where each comes from."),
    "plan": ("plan:plan", "Plan the processors of each operator from a model."),
    "simulate": ("simulate:simulate", "Simulate a model, with or without the control loop."),
    "train": ("forecast:train", "Train and save a model of a load."),
    "forecast": ("forecast:forecast", "Forecast a load, with intervals."),
    "evaluate": ("forecast:evaluate", "Evaluate the models on the last part of a series."),
}
"""The commands in the order of `foretide --help`: module and function (or group) below `foretide.cli`, and help."""


class LazyCommand(TyperCommand):
    """A command of which only the name and the help are known until it is called."""

    def __init__(self, name: str, target: str, help: str) -> None:  # noqa: A002 - click's name
        super().__init__(name, help=help)
        self._target = target

    def load(self) -> Any:
        """Import the command; click's object for it."""
        module, _, attribute = self._target.partition(":")
        found = getattr(import_module(f"foretide.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            return get_group(found)
        single = typer.Typer(add_completion=False)
        single.command(self.name)(found)
        return get_command(single)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments as the command itself does."""
        return self.load().make_context(info_name, args, parent, **extra)


class LazyGroup(TyperGroup):
    """The commands of the table."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.commands = {name: LazyCommand(name, *entry) for name, entry in _COMMANDS.items()}


class _Application(typer.Typer):
    """Prints Foretide's errors as one sentence and ends with exit code 1."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        try:
            return super().__call__(*args, **kwargs)
        except ForetideError as error:
            Console(stderr=True).print(f"foretide: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            sys.exit(1)


app = _Application(cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False)


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
