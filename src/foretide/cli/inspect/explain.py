"""`foretide explain [DECISION]`: why that was decided, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from foretide.cli.inspect.tables import as_values, moment, tell_problems
from foretide.cli.options import AppOption, JsonOption, StoreOption
from foretide.control.decisions.decision import Decision
from foretide.control.decisions.explain import explain as explain_decision
from foretide.control.decisions.explain import heading, progress_of_wishes
from foretide.errors import DecisionNotFoundError
from foretide.status.stored import open_store
from foretide.store.metric_store import MetricStore

_TEXT_WIDTH = 110
_RECENT = 200


def explain(
    decision: Annotated[
        int | None, typer.Argument(metavar="DECISION", help="Its number. Default: the last that changed something.")
    ] = None,
    app: AppOption = None,
    store: StoreOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Explain a decision of the control loop.

    What was measured and forecast, what each policy asked for, what was chosen, and the effect.
    """
    problems: list[str] = []
    with open_store(app, store) as (found, name):
        selected = _find(found, name, decision, problems)
    if as_json:
        parts = [asdict(part) for part in explain_decision(selected)]
        progress = [asdict(each) for each in progress_of_wishes(selected)]
        typer.echo(json.dumps({"decision": as_values(selected), "explanation": parts, "progress": progress}))
    else:
        Console().print(Group(*_page(selected)))
    tell_problems(problems)


def _find(store: MetricStore, name: str, number: int | None, problems: list[str]) -> Decision:
    """The decision of that number; else the last one that changed or advised something, else the last one."""
    newest = store.last_decision_id(name)
    if number is not None:
        found = store.decisions(name, ids=[number], on_problem=problems.append)
    else:
        found = store.decisions(name, last=1, acted=True, on_problem=problems.append)
        recent = [] if found else store.decisions(name, last=_RECENT, on_problem=problems.append)
        found = found or [each for each in recent if each.chosen][-1:] or recent[-1:]
    if found:
        return found[0]
    tell_problems(problems)
    raise DecisionNotFoundError(name, number, newest if number is not None else 0)


def _page(decision: Decision) -> Iterator[RenderableType]:
    yield Text.assemble((heading(decision), "bold"), f", {moment(decision.at)}")
    yield ""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(max_width=_TEXT_WIDTH)
    before = ""
    for part in explain_decision(decision):
        grid.add_row("" if part.label == before else part.label, Text(part.text))
        before = part.label
    yield grid
    if decision.wishes:
        yield ""
        yield _progress_table(decision)


def _progress_table(decision: Decision) -> Table:
    table = Table("target", "planned", "requested", "observed", box=None, padding=(0, 2, 0, 0), header_style="cyan")
    for each in progress_of_wishes(decision):
        table.add_row(*(Text(part) for part in (each.target, each.planned, each.requested, each.observed)))
    return table
