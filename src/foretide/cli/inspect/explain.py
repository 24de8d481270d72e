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
from foretide.control.decisions.explain import explain as in_sentences
from foretide.control.decisions.progress import courses
from foretide.errors import DecisionNotFoundError
from foretide.status.stored import open_store
from foretide.store.metric_store import MetricStore

_LONGEST_LABEL = 24
_WIDEST = 110
_FIGURES = ("Seen", "Foreseen")
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
        meant = _find(found, name, decision, problems)
    if as_json:
        said = {"explanation": in_sentences(meant), "courses": [asdict(course) for course in courses(meant)]}
        typer.echo(json.dumps({"decision": as_values(meant), **said}))
    else:
        Console().print(Group(*_page(meant)))
    tell_problems(problems)


def _find(store: MetricStore, name: str, number: int | None, problems: list[str]) -> Decision:
    """The decision of that number; else the last one that changed something, or advised it, or said anything."""
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
    head, *sentences = in_sentences(decision)
    yield Text.assemble((head.rstrip("."), "bold"), f", {moment(decision.at)}")
    yield ""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(max_width=_WIDEST)
    before = ""
    for sentence in sentences:
        label, rest = _labelled(sentence)
        grid.add_row("" if label == before else label, Text(_lines(rest) if label in _FIGURES else rest))
        before = label
    yield grid
    if decision.wishes:
        yield ""
        yield _courses(decision)


def _labelled(sentence: str) -> tuple[str, str]:
    """A sentence as a short label and the rest.

    >>> _labelled("Seen: lag of 'read' 5 tuples.")
    ('Seen', "lag of 'read' 5 tuples.")
    >>> _labelled("Guard 'band' stopped 'use 4 replicas behind edge 'parse'': hardly a change.")
    ("Guard 'band'", "stopped 'use 4 replicas behind edge 'parse'': hardly a change.")
    """
    label, colon, rest = sentence.partition(": ")
    if colon and len(label) <= _LONGEST_LABEL:
        return label, rest
    if sentence.startswith("Guard '"):
        name, _, rest = sentence.removeprefix("Guard '").partition("' ")
        return f"Guard '{name}'", rest
    return "", sentence


def _lines(figures: str) -> str:
    """A line for each figure."""
    return figures.removesuffix(".").replace(", ", "\n")


def _courses(decision: Decision) -> Table:
    table = Table("about", "planned", "requested", "observed", box=None, padding=(0, 2, 0, 0), header_style="cyan")
    for course in courses(decision):
        table.add_row(*(Text(part) for part in (course.target, course.planned, course.requested, course.observed)))
    return table
