"""What `train`, `forecast` and `evaluate` share: the bar, cells of tables, and checks of options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from foretide.forecasting.load.registry import NAMES
from foretide.reports.forecast_plot import new_figure

SOURCE_HELP = "A CSV or Parquet file, a running pipeline, or a packaged trace such as taxi or tweets-goog."


@contextmanager
def progress_bar(doing: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, so that stdout holds the result and nothing else; yields what it is told the share by."""
    columns = (TextColumn(doing), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def table_of(title: str, first: str, *columns: str) -> Table:
    """A plain table: the first column to the left, figures to the right."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def number(value: float) -> str:
    """Four digits that count, without powers of ten for usual loads."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004 beyond, no decimals


def check_model(name: str) -> str:
    """A name in the catalogue, or a usage error that lists them."""
    if name not in NAMES:
        raise typer.BadParameter(f"there is no model '{name}'; choose one of {', '.join(NAMES)}")
    return name


def check_plot(path: Path | None) -> None:
    """Before anything is computed: can the plot be made?"""
    if path is None:
        return
    if path.suffix not in {".png", ".svg"}:
        raise typer.BadParameter(f"'{path}' should end in .png or .svg", param_hint="--plot")
    new_figure()
