"""Shows a run: a live page on a terminal, plain lines elsewhere."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

from rich.bar import Bar
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from foretide.apps.app import APPS
from foretide.cli.console import Console, Text
from foretide.control.target_record import reasons, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretide.apps.app import App
    from foretide.apps.experiment import Verification
    from foretide.control.target_record import TargetRecord
    from foretide.reports.plots import BatchRow
    from foretide.runtime.pipeline.submit import Pipeline
    from foretide.spark.sources.port import SourcePort


_BAR_WIDTH = 40
_PAGE_WIDTH = 100
_LINE_SECONDS = 5.0
_MAX_LINES = 5


def open_view(console: Console, app: App, plan: SourcePort[Any], ratio: str | None) -> PlainLines:
    """A live page on a terminal, lines elsewhere."""
    kind = LivePage if console.is_terminal and not console.is_dumb_terminal else PlainLines
    return kind(console, app, plan, ratio)


class PlainLines:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, console: Console, app: App, plan: SourcePort[Any], ratio: str | None) -> None:
        self._console, self._app, self._plan, self._ratio = console, app, plan, ratio
        self._shown = 0.0

    def __enter__(self) -> Self:
        curve = self._plan.source.curve
        split = f"is split {self._ratio} midway" if self._ratio else "keeps its split"
        self._print(
            f"{self._app.name}: {APPS[self._app.name]}. {self._plan.total_rows:,} rows in {curve.duration:g} s along a "
            f"real load curve; edge '{self._app.edge}' {split}."
        )
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to restore."""

    def say(self, event: str) -> None:
        """A line of its own."""
        self._print(f">> {event}")

    def update(self, batches: Sequence[BatchRow], record: TargetRecord | None = None) -> None:
        """A line every five seconds of the load curve; another one for the target, if there is one."""
        if batches and batches[-1].due >= self._shown + _LINE_SECONDS:
            self._shown = batches[-1].due
            self._print(_batch_line(batches[-1], self._app.edge))
            if record is not None and record.target.latency is not None:
                self._print(f"           {verdict(record)}")

    def conclude(
        self, console: Console, pipeline: Pipeline, verification: Verification, summary: dict[str, Any]
    ) -> None:
        """The result, its verification, and where the output is."""
        show_result(console, pipeline, self._app)
        show_verification(console, verification, summary)

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


def _batch_line(batch: BatchRow, edge: str) -> str:
    """A batch in one line."""
    tasks = "unknown" if batch.per_task is None else " : ".join(f"{rows:,}" for rows in batch.per_task)
    return (
        f"t={batch.due:5.1f} s  batch {batch.batch:3}  {batch.rows:8,} rows  {batch.rate:9,.0f} rows/s  "
        f"latency p50 {_seconds(batch.p50)} p99 {_seconds(batch.p99)}  routes v{batch.version}  {edge} {tasks}"
    )


class LivePage(PlainLines):
    """A page that is redrawn: progress, rates, latency, rows per task, and events."""

    def __enter__(self) -> Self:
        self._events: list[str] = []
        self._record: TargetRecord | None = None
        self._live = Live(self._page([]), console=self._console, refresh_per_second=4)
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the last page on the screen."""
        self._live.__exit__(None, None, None)

    def say(self, event: str) -> None:
        """Show an event at the foot of the page."""
        self._events = [*self._events, event][-_MAX_LINES:]

    def update(self, batches: Sequence[BatchRow], record: TargetRecord | None = None) -> None:
        """Redraw the page."""
        self._record = record or self._record
        self._live.update(self._page(batches))

    def _page(self, batches: Sequence[BatchRow]) -> Panel:
        duration = self._plan.source.curve.duration
        done = batches[-1].due if batches else 0.0
        progress = Table.grid(padding=(0, 1))
        progress.add_row("replay", ProgressBar(duration, done, width=_BAR_WIDTH), f"{done:4.0f} of {duration:g} s")
        if not batches:
            body: list[Any] = [progress, Text("waiting for the first batch ...", style="dim")]
        else:
            body = [progress, _figures(batches), _tasks(batches, self._app.edge), *self._target_lines()]
        body += [Text(f"» {event}", style="yellow") for event in getattr(self, "_events", [])]
        width = min(_PAGE_WIDTH, self._console.width)
        return Panel(Group(*body), title=f"foretide · {self._app.name}", subtitle=APPS[self._app.name], width=width)

    def _target_lines(self) -> list[Text]:
        record = self._record
        if record is None or record.target.latency is None:
            return []
        style = {True: "green", False: "bold red", None: "dim"}[record.held]
        return [Text(verdict(record), style=style), *(Text(f"  {line}") for line in reasons(record))]


def _figures(batches: Sequence[BatchRow]) -> Table:
    recent = [batch for batch in batches[-_MAX_LINES:] if batch.rows]
    last = batches[-1]
    rate = sum(s.rows for s in recent) / max(1e-9, sum(s.seconds for s in recent)) if recent else 0.0
    timed = next((batch for batch in reversed(batches) if batch.p50 is not None), last)
    table = Table("batch", "rows", "rows/s", "p50", "p99", "backlog", "routes in force", box=None, padding=(0, 2))
    version = "default split" if last.version is None and last.rows else f"version {timed.version}"
    table.add_row(
        f"{last.batch}", f"{timed.rows:,}", f"{rate:,.0f}", _seconds(timed.p50), _seconds(timed.p99),
        "-" if last.backlog is None else f"{last.backlog:,}", version,
    )  # fmt: skip
    return table


def _tasks(batches: Sequence[BatchRow], edge: str) -> Table:
    known = next((batch for batch in reversed(batches) if batch.per_task and sum(batch.per_task)), None)
    table = Table.grid(padding=(0, 1))
    if known is None or known.per_task is None:
        return table
    total = sum(known.per_task)
    for task, rows in enumerate(known.per_task):
        bar = Bar(total, 0, rows, width=_BAR_WIDTH, color="cyan")
        table.add_row(f"{edge} task {task}", bar, f"{rows:,} rows, {rows / total:.1%}")
    return table


def show_result(console: Console, pipeline: Pipeline, app: App) -> None:
    """The first rows of the result, largest first where it counts something."""
    frame = pipeline.output(app.result).toPandas()
    counted = [name for name in frame.columns if frame[name].dtype.kind in "iu"]
    largest = frame.sort_values(counted[-1], ascending=False) if counted else frame
    table = Table(*frame.columns, title=f"{app.result}: {len(frame):,} rows, such as", title_justify="left", box=None)
    for column in table.columns:
        column.overflow = "fold"
    for row in largest.head(_MAX_LINES).itertuples(index=False):
        table.add_row(*(f"{value:,}" if isinstance(value, Integral) else str(value) for value in row))
    console.print(table)


def show_verification(console: Console, verification: Verification, summary: dict[str, Any]) -> None:
    """Whether rows are missing or duplicated."""
    taken, batches, restarts = (summary[name] for name in ("rows_taken", "batches", "restarts"))
    proof = Table.grid(padding=(0, 2))
    rows = f"{verification.handed_out:,} emitted, {taken:,} processed in {batches} batches, {restarts} restarts"
    proof.add_row("rows", rows)
    proof.add_row("edges", f"audited in {summary['batches_audited']} batches, {len(summary['alarms'])} alarms")
    proof.add_row("result", f"{verification.found_rows:,} rows; computed without Spark: {verification.expected_rows:,}")
    proof.add_row("", f"{verification.missing:,} missing, {verification.surplus:,} surplus or different")
    console.print(proof)
    for alarm in summary["alarms"][:_MAX_LINES]:
        console.print(Text.assemble(("alarm: ", "red"), alarm), soft_wrap=True)
    end = "No row was lost." if verification.exact else "The output is not the expected one."
    style = "bold green" if verification.exact else "bold red"
    console.print(Text.assemble((end, style), f" Output: {summary['output']}"), soft_wrap=True)
    console.print(f"Metrics: foretide metrics --store {summary['metrics']}", highlight=False, soft_wrap=True)


def _seconds(value: float | None) -> str:
    return "   -  " if value is None else f"{value:5.2f} s"
