"""What `decisions`, `explain` and `replay` share: decisions as rows of a table and as plain values."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from foretide.control.decisions.decision import Decision, to_data
from foretide.control.decisions.explain import summary

_STYLES = {"better": "green", "worse": "red", "never observed": "red"}
_MAX_REASONS = 3


def as_values(decision: Decision) -> dict[str, Any]:
    """Everything that is kept of a decision, and its summary."""
    return {**to_data(decision), "acted": decision.acted, "summary": summary(decision)}


def moment(at: float) -> str:
    """A time for people, in their own time zone."""
    return time.strftime("%m-%d %H:%M:%S", time.localtime(at))


def table_of_decisions(title: str, last: str) -> Table:
    """An empty table of decisions; `last` is the heading of its last column."""
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), expand=True
    )
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("time", no_wrap=True)
    table.add_column("change", ratio=2)
    table.add_column("policy and reason", ratio=3)
    table.add_column(last, no_wrap=True)
    return table


def add_decision(table: Table, decision: Decision, last: Text) -> None:
    """A row for a decision."""
    change = "\n".join(action.describe() for action in decision.actions) or "nothing"
    change = f"advice: {change}" if decision.actions and not decision.acted else change
    style = "bold" if decision.acted else "dim" if not decision.actions else ""
    why = Text("\n".join(_reasons(decision)))
    table.add_row(str(decision.id), moment(decision.at), Text(change, style=style), why, last)


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
