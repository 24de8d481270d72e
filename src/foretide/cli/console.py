"""What commands share: options, safe output, JSON, progress bars, plain tables and numbers."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TextIO

import rich.console
import rich.text
import typer
from rich.box import SIMPLE_HEAD
from rich.segment import Segment
from rich.table import Table

from foretide.dates import local_date
from foretide.durations import parse_duration
from foretide.errors import DurationError, FileError
from foretide.runtime.threads import Worker
from foretide.text import printable

_MAX_QUOTED = 30


class Console(rich.console.Console):
    """Rich's console for text from users and files: without markup and emoji codes, control characters escaped."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False} | options)

    def render_str(self, text: str, **options: Any) -> rich.text.Text:
        """Escape before the layout, which would give escaped characters no room."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Escape what comes from the text, and leave the console's own control codes."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(printable(part.text), part.style)


class Text(rich.text.Text):
    """Rich's text with control characters escaped before the layout, which would give them no room."""

    def __init__(self, text: object = "", style: Any = "", **options: Any) -> None:
        super().__init__(printable(text), style, **options)

    def append(self, text: Any, style: Any = None) -> Self:
        """Add a text."""
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


def echo(text: object, *, err: bool = False) -> None:
    """Print a line on stdout, or on stderr."""
    typer.echo(printable(text), err=err)


def answer(values: object, text: str, *, as_json: bool) -> None:
    """Print what a command did: as JSON, or as a sentence."""
    if as_json:
        print_json(values)
    else:
        echo(text)


def warn(text: object) -> None:
    """Print a line on stderr."""
    Console(stderr=True).print(printable(text), style="yellow", highlight=False, soft_wrap=True)


def print_json(value: object, indent: int | None = None) -> None:
    """Print a value as JSON on stdout; dataclasses become objects, and numbers that are not finite null."""
    typer.echo(json.dumps(plain_values(value), indent=indent, allow_nan=False))


def plain_values(value: Any) -> Any:  # noqa: PLR0911 - a table of types
    """The value as JSON has it.

    >>> plain_values({"a": (1, math.inf), 2: Path("x")})
    {'a': [1, None], '2': 'x'}
    """
    match value:
        case None | bool() | str():
            return value
        case Integral():
            return int(value)
        case Real():
            return float(value) if math.isfinite(value) else None
        case Mapping():
            return {str(key): plain_values(part) for key, part in value.items()}
        case list() | tuple():
            return [plain_values(part) for part in value]
        case AbstractSet():
            return sorted((plain_values(part) for part in value), key=str)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {each.name: plain_values(getattr(value, each.name)) for each in fields(value) if each.init}
        case _ if hasattr(value, "tolist"):  # arrays
            return plain_values(value.tolist())
    return str(value)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, as stdout holds the result alone; yields a function that sets the completed share.

    Where stderr is no terminal, there are lines instead, from two seconds on.
    """
    if not sys.stderr.isatty():
        lines = PlainProgress(label)
        worker = Worker("foretide-progress", lines.turn, _LOOK_SECONDS, what="showing progress").start()
        try:
            yield lines.set_share
        finally:
            worker.stop()
        return
    from rich.progress import (  # noqa: PLC0415 - only for commands that take long
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description}", markup=False)
    with Progress(text, BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), console=Console(stderr=True),
                  transient=True) as bar:  # fmt: skip
        task = bar.add_task(printable(label), total=1.0)
        yield lambda share: bar.update(task, completed=share)


def plain_table(title: str, first: str, *columns: str, justify: Literal["left", "right"] = "right") -> Table:
    """A table without borders: the first column to the left, the others, mostly numbers, to the right."""
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify=justify, overflow="fold")
    return table


def compact_table(*columns: str) -> Table:
    """A table without lines and margins; what does not fit its column goes on in the next line."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


_LONG_AGO_SECONDS = 3600.0


def format_ago(at: float, now: float) -> str:
    """How long ago that was; its date if that is more than an hour.

    >>> format_ago(100.0, 142.0)
    '42 s ago'
    """
    age = max(0.0, now - at)
    if age <= _LONG_AGO_SECONDS:
        return f"{age:.0f} s ago"
    return local_date(at, "on %Y-%m-%d at %H:%M:%S")


def parse_duration_option(text: str | float) -> float:
    """Seconds, from the text of an option."""
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise typer.BadParameter(str(error)) from None
    if not seconds:
        raise typer.BadParameter("a duration must be greater than 0")
    return seconds


def parse_whole(text: str, name: str, most: int) -> int:
    """A whole number from 1 to `most`, from the text of an option or argument."""
    digits = text.lstrip("0")
    if not text.isascii() or not text.isdecimal() or len(digits) > len(str(most)) or not 1 <= int(digits or 0) <= most:
        raise typer.BadParameter(f"{name} must be a whole number between 1 and {most}, got '{text[:_MAX_QUOTED]}'")
    return int(digits)


DurationOption = partial(typer.Option, parser=parse_duration_option, metavar="DURATION")
"""An option that takes a duration such as 2s, 500ms or 10m."""

AppOption = Annotated[
    str | None, typer.Option("--app", metavar="NAME", help="Name of the pipeline. Optional if only one is running.")
]
ClientConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--client-config",
        metavar="FILE",
        help="Properties of Kafka clients, such as security, as Kafka's tools take them.",
    ),
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
    from foretide.reports.plots import check_output_file, new_figure  # noqa: PLC0415 - only for plots

    try:
        check_output_file(path, (".png", ".svg"))
    except FileError as error:
        raise typer.BadParameter(str(error), param_hint="--plot") from None
    new_figure()


_FIRST_SECONDS = 1.0
_MAX_GAP_SECONDS = 15.0
_LOOK_SECONDS = 0.25


class PlainProgress:
    """Writes a line after a second, and then at growing intervals of at most 15 s, whatever the share is."""

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic, stream: TextIO | None = None) -> None:
        self._label, self._clock, self._stream = printable(label), clock, stream or sys.stderr
        self._started, self._due = clock(), _FIRST_SECONDS
        self._share = 0.0

    def set_share(self, share: float) -> None:
        """Note the completed share."""
        self._share = share

    def turn(self) -> None:
        """Write a line if one is due."""
        passed = self._clock() - self._started
        if passed >= self._due:
            self._due = passed + min(_MAX_GAP_SECONDS, passed / 2 + _FIRST_SECONDS)
            print(f"{self._label}: {self._share:.0%} after {passed:,.0f} s", file=self._stream, flush=True)
