"""`foretide topology show APP`: draws a topology."""

from __future__ import annotations

from typing import Annotated

import typer

from foretide.apps.app import Load
from foretide.apps.registry import find_app
from foretide.topology.draw import as_mermaid, as_text

app = typer.Typer(help="Look at topologies.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Look at topologies."""


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="APP", help="The application (see `foretide apps`).")],
    *,
    mermaid: Annotated[bool, typer.Option(help="As a Mermaid flowchart.")] = False,
) -> None:
    """Draw an application's topology."""
    topology = find_app(name).build(Load())
    typer.echo(as_mermaid(topology) if mermaid else as_text(topology), nl=False)
