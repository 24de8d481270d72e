"""`foretide apps` and `foretide topology show APP`: the applications and their topologies."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from foretide.apps.app import APPS, Load, find_app
from foretide.cli.console import JsonOption
from foretide.topology.draw import as_mermaid, as_text

topology = typer.Typer(help="Show topologies.", no_args_is_help=True)


def apps(*, as_json: JsonOption = False) -> None:
    """List the applications."""
    if as_json:
        typer.echo(json.dumps(APPS))
        return
    for name, summary in APPS.items():
        typer.echo(f"{name:20} {summary}")


@topology.callback()
def _group() -> None:
    """Show topologies."""


@topology.command()
def show(
    name: Annotated[str, typer.Argument(metavar="APP", help="The application; see `foretide apps`.")],
    *,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flowchart.")] = False,
) -> None:
    """Draw the topology of an application."""
    built = find_app(name).build(Load())
    typer.echo(as_mermaid(built) if mermaid else as_text(built), nl=False)
