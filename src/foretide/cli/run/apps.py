"""`foretide apps`: what there is to run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from foretide.apps.registry import APPS


def apps(*, as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """List the applications."""
    if as_json:
        typer.echo(json.dumps(APPS))
        return
    for name, summary in APPS.items():
        typer.echo(f"{name:20} {summary}")
