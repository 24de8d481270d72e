"""Plots of runs: load, latency and the split of an edge over time; a run with control beside one without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foretide.reports.figure import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("tab:red", "tab:green")


@dataclass(frozen=True)
class BatchRow:
    """One batch. `due` is how far along the load curve it has come, and `ended` when it ended, in seconds."""

    batch: int
    rows: int
    seconds: float
    due: float
    p50: float | None
    p99: float | None
    backlog: int | None
    version: int | None
    per_task: tuple[int, ...] | None
    alarms: tuple[str, ...]
    ended: float = 0.0

    @property
    def rate(self) -> float:
        """Rows processed per second."""
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Disturbances:
    """When an executor is slowed down, when the load surges, and when the run ends, in seconds of the replay."""

    slow_at: float
    surge_at: float
    end: float


@dataclass(frozen=True)
class PlottedRun:
    """A run: its batches, when the control loop decided something, and the load forecast for each time."""

    name: str
    batches: Sequence[BatchRow]
    decided_at: Sequence[float] = ()
    forecasts: Sequence[tuple[float, float]] = ()


def draw_run(batches: Sequence[BatchRow], path: Path, edge: str) -> None:
    """Plot rows, latency and the split of an edge over time."""
    figure = new_figure(9, 6.5)
    timed = _timed(batches)
    load, latency, split = figure.subplots(3, 1, sharex=True)
    times = [batch.due for batch in timed]
    load.plot(times, [batch.rows / 1000 for batch in timed], color="tab:blue", marker=".")
    load.set_ylabel("rows per batch, thousands")
    latency.plot(times, [batch.p99 for batch in timed], color="tab:red", label="p99")
    latency.plot(times, [batch.p50 for batch in timed], color="tab:orange", label="p50")
    latency.set_ylabel("tuple latency, s")
    latency.set_ylim(bottom=0)
    latency.legend(loc="upper right")
    _draw_split(split, timed, edge)
    save_figure(figure, path)


def _draw_split(axes: Axes, batches: Sequence[BatchRow], edge: str) -> None:
    known = [(batch.due, batch.per_task) for batch in batches if batch.per_task and sum(batch.per_task)]
    axes.set_ylabel(f"split of '{edge}'")
    axes.set_xlabel("seconds of replay")
    axes.set_ylim(0, 1)
    if known:
        shares = [[rows / sum(tasks) for rows in tasks] for _, tasks in known]
        labels = [f"task {task}" for task in range(len(shares[0]))]
        axes.stackplot([due for due, _ in known], list(zip(*shares, strict=True)), labels=labels, step="post")
        axes.legend(loc="upper right")


def draw_comparison(runs: Sequence[PlottedRun], disturbances: Disturbances, path: Path) -> None:
    """Plot load and latency of a run without control and of one with it."""
    figure = new_figure(10, 6.5)
    load, latency = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    for run, colour in zip(runs, _COLOURS, strict=True):
        timed = _timed(run.batches)
        ended = [batch.ended for batch in timed]
        latency.plot(ended, [batch.p99 for batch in timed], color=colour, marker=".", label=f"p99, {run.name}")
        load.plot(ended, [batch.rate / 1000 for batch in timed], color=colour, label=f"processed, {run.name}")
        if run.forecasts:
            times, values = zip(*run.forecasts, strict=True)
            load.plot(times, [value / 1000 for value in values], "k:", linewidth=1, label="load forecast 10 s earlier")
        for at in run.decided_at:
            latency.axvline(at, color=colour, linestyle=":", linewidth=1)
    _mark(load, disturbances)
    _mark(latency, disturbances)
    top = latency.get_ylim()[1]
    latency.text(disturbances.slow_at, top * 0.6, " executor 0 slowed", color="tab:red", fontsize=9)
    latency.text(disturbances.surge_at, top * 0.6, " load surges", color="tab:orange", fontsize=9)
    load.set_ylabel("rows/s, thousands")
    latency.set_ylabel("tuple latency (p99), s")
    latency.set_xlabel("seconds of replay (dotted: a decision)")
    save_figure(figure, path)


def _mark(axes: Axes, disturbances: Disturbances) -> None:
    axes.axvspan(disturbances.slow_at, disturbances.end, color="tab:red", alpha=0.06)
    axes.axvspan(disturbances.surge_at, disturbances.end, color="tab:orange", alpha=0.10)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")


def _timed(batches: Sequence[BatchRow]) -> list[BatchRow]:
    return [batch for batch in batches if batch.rows and batch.p99 is not None]
