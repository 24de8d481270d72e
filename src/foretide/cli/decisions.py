"""`foretide decisions` and `foretide explain`: what the control loop decided, why, and with which effect."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from foretide.cli.console import (
    AppOption,
    Console,
    JsonOption,
    SinceOption,
    StoreOption,
    Text,
    echo,
    parse_whole,
    print_json,
)
from foretide.cli.terms import explained
from foretide.control.decisions.decision import Decision, to_data
from foretide.control.decisions.explain import explain as explain_decision
from foretide.control.decisions.explain import heading, progress_of_wishes, summary
from foretide.dates import local_date
from foretide.errors import DecisionNotFoundError, EmptyStoreError
from foretide.formatting import format_duration
from foretide.status.stored import PipelineDecisions, open_store, read_decisions
from foretide.store.metric_store import MetricStore

_MAX_ID = 10**20 - 1
_MIN_TABLE_WIDTH = 100


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
    start = None if since is None else time.time() - since
    try:
        with open_store(app, store) as (opened, pipeline):
            found = read_decisions(opened, pipeline, last=last, since=start, acted=acted)
            stored = opened.last_decision_id(pipeline) > 0
    except EmptyStoreError as empty:
        if as_json:
            print_json({"pipeline": None, "decisions": [], "problems": []})
        else:
            echo(str(empty))
        return
    if as_json:
        values = [as_values(decision) for decision in found.decisions]
        print_json({"pipeline": pipeline, "decisions": values, "problems": found.problems})
        return
    _show(found, stored=stored)
    tell_problems(found.problems)


def _show(found: PipelineDecisions, *, stored: bool) -> None:
    if not found.decisions:
        none_yet = "no decision is stored yet; the control loop stores them while it runs"
        echo(f"{found.pipeline}: {'no decision matches the filter' if stored else none_yet}")
        return
    console, title = Console(), f"{found.pipeline}: decisions"
    if console.width < _MIN_TABLE_WIDTH:
        table = _narrow_table(title, found.decisions)
    else:
        table = table_of_decisions(title, "outcome")
        for decision in found.decisions:
            add_decision(table, decision, outcome(decision))
    reasons = (reason for decision in found.decisions for reason in _reasons(decision))
    console.print(Group(table, *explained(reasons)))
    if (line := targets_held(found.decisions)) is not None:
        Console(highlight=False).print(line)


def targets_held(decisions: Sequence[Decision]) -> str | None:
    """How the latency target was kept in these decisions; None if none of them had one."""
    judged = [each for each in decisions if each.target_held is not None]
    if not judged:
        return None
    missed = sum(not each.target_held for each in judged)
    last = judged[-1]
    assert last.target is not None  # noqa: S101 - it was judged by it
    state = "held" if last.target_held else "MISSED"
    measured = format_duration(last.measured or 0.0)
    return (
        f"target {last.target.quantile} below {format_duration(last.target.latency or 0.0)}: {state}, "
        f"last measured {measured}; missed at {missed} of {len(judged)} decisions"
    )


_STYLES = {"better": "green", "worse": "red", "never observed": "red"}
_MAX_REASONS = 3


def as_values(decision: Decision) -> dict[str, Any]:
    """Everything that is kept of a decision, and its summary."""
    return {
        **to_data(decision),
        "acted": decision.acted,
        "target_held": decision.target_held,
        "summary": summary(decision),
    }


def moment(at: float) -> str:
    """A time for people, in their own time zone."""
    return local_date(at, "%m-%d %H:%M:%S")


def table_of_decisions(title: str, last: str) -> Table:
    """An empty table of decisions; `last` is the heading of its last column."""
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), expand=True
    )
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("time", no_wrap=True)
    table.add_column("change", ratio=2, overflow="fold")
    table.add_column("policy and reason", ratio=3, overflow="fold")
    table.add_column(last, no_wrap=True)
    return table


def _narrow_table(title: str, decisions: Iterable[Decision]) -> Table:
    """The decisions where five columns find no room: what was done and how it turned out, and below it why."""
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for decision in decisions:
        turned_out = outcome(decision)
        done = Text.assemble(_change(decision), " (" if turned_out else "", turned_out, ")" if turned_out else "")
        table.add_row(str(decision.id), moment(decision.at), Text("\n").join([done, *map(Text, _reasons(decision))]))
    return table


def add_decision(table: Table, decision: Decision, last: Text) -> None:
    """A row for a decision."""
    why = Text("\n".join(_reasons(decision)))
    table.add_row(str(decision.id), moment(decision.at), _change(decision), why, last)


def _change(decision: Decision) -> Text:
    change = "\n".join(action.describe() for action in decision.actions) or "nothing"
    change = f"advice: {change}" if decision.actions and not decision.acted else change
    return Text(change, style="bold" if decision.acted else "dim" if not decision.actions else "")


def outcome(decision: Decision) -> Text:
    """What it achieved, in a word or two."""
    if decision.effect is None:
        return Text("not known yet" if decision.acted else "", style="dim")
    return Text(decision.effect.outcome, style=_STYLES.get(decision.effect.outcome, "dim"))


def _reasons(decision: Decision) -> list[str]:
    """Why it was done, or what stopped it; problems; effects of earlier decisions."""
    chosen = [f"{wish.policy}: {wish.reason}" for wish in decision.chosen]
    stopped = [f"{done.guard} stopped {done.policy}: {done.reason}" for done in decision.guards if done.after is None]
    effects = [f"effect of decision {each.decision}: {each.outcome}" for each in decision.effects_of_earlier]
    reasons = list(dict.fromkeys([*(chosen or stopped), *decision.problems, *effects]))
    more = len(reasons) - _MAX_REASONS
    return reasons if more <= 0 else [*reasons[:_MAX_REASONS], f"and {more} more"]


def tell_problems(problems: Iterable[str]) -> None:
    """What could not be read, on stderr."""
    for problem in problems:
        Console(stderr=True).print(problem, style="yellow", markup=False, highlight=False, soft_wrap=True)


_TEXT_WIDTH = 110
_RECENT = 200


def explain(
    decision: Annotated[
        str | None,
        typer.Argument(metavar="DECISION", help="Number of the decision. Default: the last change."),
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
    if decision is not None and app is None and not decision.isdecimal():
        decision, app = None, decision  # `foretide explain shop`, as `foretide decisions shop`
    number = None if decision is None else parse_whole(decision, "DECISION", _MAX_ID)
    with open_store(app, store) as (found, name):
        selected = _find(found, name, number, problems)
    if as_json:
        parts = [asdict(part) for part in explain_decision(selected)]
        progress = [asdict(each) for each in progress_of_wishes(selected)]
        print_json({"decision": as_values(selected), "explanation": parts, "progress": progress})
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
    grid.add_column(max_width=_TEXT_WIDTH, overflow="fold")
    before = ""
    for part in explain_decision(decision):
        grid.add_row("" if part.label == before else part.label, Text(part.text))
        before = part.label
    yield grid
    yield from explained(part.text for part in explain_decision(decision))
    if decision.wishes:
        yield ""
        yield _progress_table(decision)


def _progress_table(decision: Decision) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
    for column in ("target", "planned", "requested", "observed"):
        table.add_column(column, overflow="fold")
    for each in progress_of_wishes(decision):
        table.add_row(*(Text(part) for part in (each.target, each.planned, each.requested, each.observed)))
    return table
