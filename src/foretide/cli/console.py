"""What commands print: progress bars, plain tables and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

_MAX_WITH_DECIMALS = 1000


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, as stdout holds the result alone; yields a function that sets the completed share."""
    columns = (TextColumn(label), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def plain_table(title: str, first: str, *columns: str) -> Table:
    """A table without borders: the first column to the left, numbers to the right."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def format_number(value: float) -> str:
    """Four significant digits, without an exponent.

    >>> format_number(12345.6), format_number(0.123456)
    ('12,346', '0.1235')
    """
    return f"{value:,.0f}" if abs(value) >= _MAX_WITH_DECIMALS else f"{value:.4g}"
