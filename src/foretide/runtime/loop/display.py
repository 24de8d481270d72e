"""A controller as a notebook shows it, and the line that is kept up to date while a query runs."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from threading import Event
from typing import TYPE_CHECKING, TextIO

from foretide.control.target_record import describe_target, reasons, verdict
from foretide.dates import local_date
from foretide.errors import ControlFolderError
from foretide.formatting import format_duration
from foretide.html import Html, tag
from foretide.text import printable

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder, ControlStatus, PipelineStatus

_LOOK_SECONDS = 0.5
_MAX_DECISIONS = 5
_CELL = "text-align:left;vertical-align:top;white-space:normal"


def controller_html(name: str, status: ControlStatus, folder: ControlFolder) -> Html:
    """The state of a control loop as a table."""
    rows = [
        tag("tr", tag("th", label, style=_CELL), tag("td", text, style=_CELL))
        for label, text in _rows(status, _last_batch(folder))
    ]
    state = f" ({status.mode}, {'ended' if status.ended else 'running'})"
    caption = tag("caption", tag("strong", f"Control loop of {name}"), state, style=_CELL)
    return tag("table", caption, tag("tbody", *rows))


def _last_batch(folder: ControlFolder) -> PipelineStatus | None:
    """The last batch; None before the first one, and if its file cannot be read."""
    try:
        return folder.status.pipeline()
    except ControlFolderError:
        return None


def _rows(status: ControlStatus, batch: PipelineStatus | None) -> Iterator[tuple[str, str]]:
    yield "target", describe_target(status.target)
    if status.record is not None and status.record.target.latency is not None:
        yield "measured", verdict(status.record)
        yield from (("", line) for line in reasons(status.record))
    yield "policies", ", ".join(status.policies) or "none"
    yield "last batch", "none has finished yet" if batch is None else _batch(batch)
    yield "workers", f"{len(status.workers)}, out of service by order: {', '.join(status.drained) or 'none'}"
    for each in status.decisions[-_MAX_DECISIONS:]:
        yield f"decision {each.id}", f"{local_date(each.at, '%H:%M:%S')}: {each.summary}"
    yield from (("problem", problem) for problem in status.problems)


def _batch(batch: PipelineStatus) -> str:
    if batch.idle:
        return "idle, waiting for rows"
    return f"batch {batch.batch:,}: {batch.input_rows:,} rows in {format_duration(batch.duration)}"


def progress_text(name: str, status: ControlStatus, folder: ControlFolder) -> str:
    """The state of a query in one line."""
    batch = _last_batch(folder)
    parts = ["waiting for the first batch" if batch is None else _batch(batch)]
    if status.record is not None and status.record.target.latency is not None:
        parts.append(verdict(status.record).partition(";")[0])
    if status.decisions:
        last = status.decisions[-1]
        parts.append(f"decision {last.id}: {last.summary}")
    parts += [f"problem: {problem}" for problem in status.problems[:1]]
    return " ".join(printable(f"{name}: {'; '.join(parts)}").split())


def show_progress(
    text: Callable[[], str], ended: Event, seconds: float | None = None, stream: TextIO | None = None
) -> None:
    """Keep a line up to date until the end, or for so long; where a line cannot be replaced, write each new one."""
    line = _Line(stream or sys.stdout)
    until = None if seconds is None else time.monotonic() + seconds
    try:
        while not ended.is_set() and (until is None or time.monotonic() < until):
            line.show(text())
            ended.wait(_LOOK_SECONDS if until is None else min(_LOOK_SECONDS, max(0.0, until - time.monotonic())))
        line.show(text())
    finally:
        line.end()


class _Line:
    """A line of a terminal or a notebook that is written over; any other output gets a line for each new text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._shown = stream, ""
        notebook = type(stream).__module__.startswith("ipykernel.")
        self._replaced = notebook or stream.isatty()
        self._width = None if notebook or not self._replaced else shutil.get_terminal_size().columns - 1

    def show(self, text: str) -> None:
        """Show a text, unless it is there already."""
        text = text[: self._width]
        if text == self._shown:
            return
        padded = text.ljust(len(self._shown))
        self._stream.write(f"\r{padded}" if self._replaced else f"{text}\n")
        self._stream.flush()
        self._shown = text

    def end(self) -> None:
        """Leave the last text, and begin a new line."""
        if self._replaced and self._shown:
            self._stream.write("\n")
            self._stream.flush()
