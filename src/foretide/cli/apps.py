"""`foretide apps` and `foretide topology show APP`: the applications and their topologies."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from foretide.apps.app import APPS, Load, find_app
from foretide.cli.console import JsonOption, echo, print_json
from foretide.topology.draw import as_mermaid, as_text
from foretide.topology.graph import Topology, output_name

topology = typer.Typer(help="Show topologies.", no_args_is_help=True)


def apps(*, as_json: JsonOption = False) -> None:
    """List the applications."""
    if as_json:
        print_json(APPS)
        return
    for name, summary in APPS.items():
        echo(f"{name:24} {summary}")


@topology.callback()
def _group() -> None:
    """Show topologies."""


@topology.command()
def show(
    name: Annotated[str, typer.Argument(metavar="APP", help="The application; see `foretide apps`.")],
    *,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flowchart.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw the topology of an application."""
    if mermaid and as_json:
        raise typer.BadParameter("cannot be combined with --mermaid", param_hint="--json")
    built = find_app(name).build(Load())
    if as_json:
        print_json(_values(built))
    else:
        echo((as_mermaid(built) if mermaid else as_text(built)).rstrip("\n"))


def _values(built: Topology) -> dict[str, Any]:
    bolts = [
        {
            "name": bolt.id,
            "pool": bolt.pool_size if bolt.controllable else None,
            "inputs": [
                {
                    "component": source.component,
                    "stream": source.stream,
                    "grouping": str(source.grouping),
                    "feedback": source.feedback,
                }
                for source in bolt.inputs
            ],
        }
        for bolt in built.in_order()
    ]
    outputs = [output_name(bolt.id, stream) for bolt, stream in built.outputs()]
    return {"name": built.name, "spouts": [spout.id for spout in built.spouts], "bolts": bolts, "outputs": outputs}
