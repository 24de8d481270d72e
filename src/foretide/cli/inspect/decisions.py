"""`foretide decisions`: what the control loop decided, why, and with which effect."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer
from rich.console import Console

from foretide.cli.inspect.tables import add_decision, as_values, outcome, table_of_decisions, tell_problems
from foretide.cli.options import AppOption, JsonOption, SinceOption, StoreOption
from foretide.status.stored import PipelineDecisions, open_store, read_decisions


def decisions(
    app: AppOption = None,
    store: StoreOption = None,
    last: Annotated[int, typer.Option(min=1, metavar="N", help="Only the last N decisions.")] = 20,
    since: SinceOption = None,
    *,
    acted: Annotated[bool, typer.Option("--acted", help="Only those that changed something.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the decisions of the control loop.

    What was decided, why, and with which effect. Cycles without anything to report are not kept.
    """
    with open_store(app, store) as (opened, pipeline):
        start = None if since is None else time.time() - since
        found = read_decisions(opened, pipeline, last=last, since=start, acted=acted)
    if as_json:
        values = [as_values(decision) for decision in found.decisions]
        typer.echo(json.dumps({"pipeline": pipeline, "decisions": values, "problems": found.problems}))
        return
    _show(found)
    tell_problems(found.problems)


def _show(found: PipelineDecisions) -> None:
    if not found.decisions:
        typer.echo(f"{found.pipeline}: no decision matches; there are others")
        return
    table = table_of_decisions(f"{found.pipeline}: decisions", "outcome")
    for decision in found.decisions:
        add_decision(table, decision, outcome(decision))
    Console().print(table)
