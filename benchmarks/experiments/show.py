"""An outcome in the terminal, and as rows of text that the report shows too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.experiments.outcome import Outcome, summary_rows
from foretide.formatting import format_number

SUMMARY_HEADS = ("measure", "side", "median", "quartiles", "repetitions", "change", "noise", "more than noise")
CLAIM_HEADS = ("the paper", "measured", "")
_SIGNIFICANT = 4
_FEW = 4
_MOST_ROWS = 12


def text(value: Any) -> str:
    """A value of a table.

    >>> text(0.12345), text(None), text(True), text((1.0, 2.0)), text(1234)
    ('0.1235', '-', 'yes', '1 to 2', '1,234')
    """
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return format_number(value, _SIGNIFICANT)
        case tuple() | list():
            return " to ".join(text(each) for each in value)
    return str(value)


def percent(value: float | None, *, signed: bool = False) -> str:
    """A share in per cent.

    >>> percent(0.1234), percent(0.5, signed=True), percent(None)
    ('12.3 %', '+50 %', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "from 0"
    return f"{'+' if signed and value > 0 else ''}{format_number(100 * value, 3)} %"


def summary(outcome: Outcome) -> list[tuple[str, ...]]:
    """Rows below `SUMMARY_HEADS`."""
    return [
        (
            row["measure"],
            row["side"],
            text(row["median"]),
            text(row["quartiles"]),
            text(row["repetitions"]),
            percent(row["change"], signed=True),
            percent(row["noise"]),
            text(row["beyond noise"]),
        )
        for row in summary_rows(outcome)
    ]


def pivot(outcome: Outcome) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows: a side a row, a measure a column, or the other way round; a star marks more than the noise."""
    cells: dict[tuple[str, str], str] = {}
    for row in summary_rows(outcome):
        star = " *" if row["beyond noise"] else ""
        cells[row["side"], row["measure"]] = text(row["median"]) + star
    measures = list(dict.fromkeys(measure for _, measure in cells))
    sides = list(dict.fromkeys(side for side, _ in cells))
    if len(measures) > max(_FEW, len(sides)):
        return ("measure", *sides), [(name, *(cells.get((side, name), "-") for side in sides)) for name in measures]
    return ("side", *measures), [(side, *(cells.get((side, name), "-") for name in measures)) for side in sides]


def noises(outcome: Outcome) -> list[tuple[str, str]]:
    """The noise of each measure, where it was measured."""
    found = [(each.name, outcome.noise(each.name)) for each in outcome.measures]
    return [(name, f"{percent(noise)} (*: differs by more)") for name, noise in found if noise is not None]


def claims(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Rows below `CLAIM_HEADS`."""
    return [(each.says, each.measured, reached(each.reached)) for each in outcome.claims]


def reached(value: bool | None) -> str:  # noqa: FBT001 - the value of a claim
    """Whether a claim is reached, in a word."""
    return {True: "reached", False: "short of it", None: "not comparable"}[value]


def table_texts(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """The cells of a table of an experiment."""
    return (tuple(text(value) for value in row.values()) for row in rows)


def mark(outcome: Outcome) -> str:
    """What kind of experiment it was, and in which form."""
    kinds = {"simulator": "simulator", "live": "live, on Spark", "computed": "computed, without Spark"}
    return kinds[outcome.kind] + (", quick form" if outcome.quick else "")


def show(outcome: Outcome, console: Console) -> None:
    """Print an outcome."""
    console.rule(f"{outcome.name} ({outcome.paper})")
    console.print(f"{outcome.title}. [{mark(outcome)}; {outcome.seconds:.0f} s; {outcome.machine}]", highlight=False)
    if outcome.scale:
        console.print(f"Scale: {outcome.scale}", highlight=False)
    if outcome.error:
        console.print(f"FAILED: {outcome.error}", style="red", highlight=False)
    _print(console, "", *pivot(outcome))
    _print(console, "", ("measure", "noise"), noises(outcome))
    for title, rows in outcome.tables.items():
        if rows:
            _print(console, title, tuple(rows[0]), list(table_texts(rows[:_MOST_ROWS])))
        if len(rows) > _MOST_ROWS:
            console.print(f"... and {len(rows) - _MOST_ROWS} more rows in the report", highlight=False)
    _print(console, "", CLAIM_HEADS, claims(outcome))


def _print(console: Console, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = Table(*heads, title=title or None, title_justify="left", box=SIMPLE_HEAD, show_edge=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)
