"""What commands share: options, progress bars, plain tables and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from foretide.durations import parse_duration
from foretide.errors import DurationError

_MAX_WITH_DECIMALS = 1000


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, as stdout holds the result alone; yields a function that sets the completed share."""
    from rich.progress import (  # noqa: PLC0415 - only for commands that take long
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(label), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def plain_table(title: str, first: str, *columns: str, justify: Literal["left", "right"] = "right") -> Table:
    """A table without borders: the first column to the left, the others, mostly numbers, to the right."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify=justify)
    return table


def format_number(value: float) -> str:
    """Four significant digits, without an exponent.

    >>> format_number(12345.6), format_number(0.123456)
    ('12,346', '0.1235')
    """
    return f"{value:,.0f}" if abs(value) >= _MAX_WITH_DECIMALS else f"{value:.4g}"


def parse_duration_option(text: str | float) -> float:
    """Seconds, from the text of an option."""
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise typer.BadParameter(str(error)) from None
    if not seconds:
        raise typer.BadParameter("a duration must be greater than 0")
    return seconds


def check_at_least(seconds: float, duration: float, option: str = "--duration") -> None:
    """Refuse a duration that is too short."""
    if duration < seconds:
        raise typer.BadParameter(f"must be at least {seconds:g} s, got {duration:g} s", param_hint=option)


DurationOption = partial(typer.Option, parser=parse_duration_option, metavar="DURATION")
"""An option that takes a duration such as 2s, 500ms or 10m."""

AppOption = Annotated[
    str | None, typer.Option("--app", metavar="NAME", help="Name of the pipeline. Optional if only one is running.")
]
ControlFolderOption = Annotated[
    str | None,
    typer.Option("--control-folder", metavar="FOLDER", help="Control folder of the pipeline, instead of its name."),
]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="STORE", help="Metrics store, a file or URL. Default: that of the pipeline."),
]
SinceOption = Annotated[float | None, DurationOption("--since", help="Only the last DURATION, such as 10m.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Output as JSON.")]
PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Save a plot as .png or .svg. Requires the extra 'plot'."),
]


def check_plot(path: Path | None) -> None:
    """Refuse a plot that cannot be made before anything is computed."""
    if path is None:
        return
    if path.suffix not in {".png", ".svg"}:
        raise typer.BadParameter(f"'{path}' must end in .png or .svg", param_hint="--plot")
    from foretide.reports import new_figure  # noqa: PLC0415 - only for plots

    new_figure()
