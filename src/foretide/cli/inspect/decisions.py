"""`foretide decisions APP`: what the control loop decided, why, and how it turned out."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer
from rich.console import Console

from foretide.cli.inspect.tables import add_decision, as_values, table_of_decisions, tell_problems, verdict
from foretide.cli.pipelines import JsonOption
from foretide.cli.stores import AppArgument, StoreOption, opened_store
from foretide.control.decisions.decision import Decision
from foretide.errors import DecisionNotFoundError


def decisions(
    app: AppArgument = None,
    last: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 20,
    since: Annotated[float | None, typer.Option(min=0, help="Only of the last so many seconds.")] = None,
    store: StoreOption = None,
    *,
    acted: Annotated[bool, typer.Option("--acted", help="Only those that changed something.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the decisions of the control loop.

    What was decided, why, and with which effect. Cycles without anything to report are not kept.
    """
    problems: list[str] = []
    with opened_store(app, store) as (found, name):
        if not found.last_decision_id(name):
            raise DecisionNotFoundError(name)
        begin = None if since is None else time.time() - since
        made = found.decisions(name, last=last, since=begin, acted=acted, on_problem=problems.append)
    if as_json:
        values = [as_values(decision) for decision in made]
        typer.echo(json.dumps({"pipeline": name, "decisions": values, "problems": problems}))
        return
    _show(name, made)
    tell_problems(problems)


def _show(name: str, made: list[Decision]) -> None:
    if not made:
        typer.echo(f"{name}: no such decision; there are others")
        return
    table = table_of_decisions(f"{name}: decisions", "turned out")
    for decision in made:
        add_decision(table, decision, verdict(decision))
    Console().print(table)
