"""Plots. Matplotlib, which is an extra, is imported here alone, and only when a plot is made."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from foretide.control.actions.registry import (
    Action,
    Quarantine,
    QuarantineHost,
    Release,
    ReleaseHost,
    Restart,
    SetSplit,
)
from foretide.control.history import Advice
from foretide.control.world.world import World
from foretide.errors import EnvironmentNotReadyError, FileError
from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from foretide.forecasting.backtest import Backtest
    from foretide.simulation.results import SimulationResult

_COLOURS = ("tab:red", "tab:green")
_LOW, _HIGH = (int(np.argmin(np.abs(LEVELS - level))) for level in (0.1, 0.9))
_DAY = 86_400.0
_MOST_LABELS = 60


def new_figure(width: float = 10, height: float = 4) -> Figure:
    """An empty figure, of a size in inches; EnvironmentNotReadyError if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise EnvironmentNotReadyError("plots require matplotlib: pip install 'foretide[plot]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the path's suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path


def check_output_file(path: Path, suffixes: Collection[str]) -> None:
    """Refuse a file that cannot be written, before anything is computed that would be lost then.

    Raises:
        FileError: The suffix is another one, the folder is missing, or the file cannot be created or replaced.
    """
    if path.suffix.lower() not in suffixes:
        raise FileError(path, f"must end in {' or '.join(suffixes)}")
    try:
        exists = path.exists()
        if exists and not path.is_file():
            raise FileError(path, "cannot be replaced: it is not a regular file")
        if not path.parent.exists():
            raise FileError(path, f"cannot be written: the folder '{path.parent}' does not exist; create it first")
        with path.open("ab"):
            pass
        if not exists:
            path.unlink()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the name is not valid"
        raise FileError(path, f"cannot be written: {reason}") from error


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


def draw_run(batches: Sequence[BatchRow], path: Path, edge: str, target: float | None = None) -> None:
    """Plot rows, latency with the target in seconds, if there is one, and the split of an edge over time."""
    figure = new_figure(9, 6.5)
    timed = _with_latency(batches)
    load, latency, split = figure.subplots(3, 1, sharex=True)
    times = [batch.due for batch in timed]
    load.plot(times, [batch.rows / 1000 for batch in timed], color="tab:blue", marker=".")
    load.set_ylabel("rows per batch, thousands")
    latency.plot(times, [batch.p99 for batch in timed], color="tab:red", label="p99")
    latency.plot(times, [batch.p50 for batch in timed], color="tab:orange", label="p50")
    latency.set_ylabel("tuple latency, s")
    _draw_target(latency, target)
    latency.set_ylim(bottom=0)
    latency.legend(loc="upper right")
    _draw_split(split, timed, edge)
    save_figure(figure, path)


def _draw_target(axes: Axes, target: float | None) -> None:
    if target is not None:
        axes.axhline(target, color="tab:blue", linewidth=1, label=f"target {target:g} s")


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


def draw_comparison(
    runs: Sequence[PlottedRun], disturbances: Disturbances, path: Path, target: float | None = None
) -> None:
    """Plot load and latency of a run without control and of one with it, with the target in seconds."""
    figure = new_figure(10, 6.5)
    load, latency = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    for run, colour in zip(runs, _COLOURS, strict=True):
        timed = _with_latency(run.batches)
        ended = [batch.ended for batch in timed]
        latency.plot(ended, [batch.p99 for batch in timed], color=colour, marker=".", label=f"p99, {run.name}")
        load.plot(ended, [batch.rate / 1000 for batch in timed], color=colour, label=f"processed, {run.name}")
        if run.forecasts:
            times, values = zip(*run.forecasts, strict=True)
            load.plot(times, [value / 1000 for value in values], "k:", linewidth=1, label="load forecast 10 s earlier")
        for at in run.decided_at:
            latency.axvline(at, color=colour, linestyle=":", linewidth=1)
    _draw_target(latency, target)
    _mark(load, disturbances)
    _mark(latency, disturbances)
    top = latency.get_ylim()[1]
    latency.text(disturbances.slow_at, top * 0.6, " executor 0 slowed", color="tab:red", fontsize=9)
    latency.text(disturbances.surge_at, top * 0.6, " load surges", color="tab:orange", fontsize=9)
    load.set_ylabel("rows/s, thousands")
    latency.set_ylabel("tuple latency (p99), s")
    latency.set_xlabel("seconds of replay (dotted: a decision)")
    save_figure(figure, path)


@dataclass(frozen=True)
class LatencyRun:
    """A run in real time: for each second of it p50 and p99 in milliseconds, and when something was decided."""

    name: str
    seconds: Sequence[tuple[float, float, float]]
    decided_at: Sequence[float] = ()


def draw_latencies(runs: Sequence[LatencyRun], slow_at: float | None, target: float | None, path: Path) -> None:
    """Latency of runs, second by second, on a logarithmic scale, with the target in milliseconds, if there is one."""
    figure = new_figure(10, 5.5)
    axes = figure.subplots()
    end = max((run.seconds[-1][0] for run in runs if run.seconds), default=1.0)
    for run, colour in zip(runs, _COLOURS, strict=False):
        at = [each[0] for each in run.seconds]
        axes.plot(at, [each[2] for each in run.seconds], color=colour, linewidth=2, label=f"{run.name}: p99")
        axes.plot(at, [each[1] for each in run.seconds], color=colour, linestyle=":", label=f"{run.name}: p50")
        for place, decided in enumerate((at for at in run.decided_at if 0 <= at <= end), 1):
            axes.axvline(decided, color=colour, alpha=0.4, linewidth=1, label="decision" if place == 1 else None)
            axes.text(decided, 1.01, str(place), color=colour, ha="center", transform=axes.get_xaxis_transform())
    if slow_at is not None:
        axes.axvspan(slow_at, end, color="black", alpha=0.06, label="one executor is slow")
    if target is not None:
        axes.axhline(target, color="tab:blue", linewidth=1.5, label=f"target: {target:,.0f} ms")
    axes.set(yscale="log", xlim=(0, end), xlabel="seconds", ylabel="latency from Kafka to Kafka, ms")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(visible=True, which="major", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=4, fontsize="small")
    save_figure(figure, path)


class ReplicaChange(Protocol):
    """A change of the replicas of an operator: when, in seconds of the run, to how many, and whether by a forecast."""

    @property
    def at(self) -> float: ...  # noqa: D102

    @property
    def replicas(self) -> int: ...  # noqa: D102

    @property
    def foreseen(self) -> bool: ...  # noqa: D102


class ReplicaRun(Protocol):
    """A run whose replicas change: its batches as time, rows and p99 latency in seconds.

    `first` is how many there are at the start, and `foreseen` what was forecast for each time of the run some seconds
    before: time, and the 80 % interval.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def batches(self) -> Sequence[tuple[float, int, float]]: ...  # noqa: D102

    @property
    def first(self) -> int: ...  # noqa: D102

    @property
    def changes(self) -> Sequence[ReplicaChange]: ...  # noqa: D102

    @property
    def foreseen(self) -> Sequence[tuple[float, float, float]]: ...  # noqa: D102


def draw_foresight(
    load: Sequence[tuple[float, float]],
    runs: Sequence[ReplicaRun],
    path: Path,
    target: float | None = None,
    ahead: float = 10.0,
) -> None:
    """The load and what was forecast of it, and for each run its replicas, with the reason of increases, and latency.

    Args:
        load: When it changes, in seconds of the run, and to how many rows a second.
        runs: What happened.
        path: Of the picture.
        target: Of the latency in seconds, if there is one.
        ahead: Seconds before a time at which it was forecast.
    """
    figure = new_figure(10, 8)
    due, replicas, latency = figure.subplots(3, 1, sharex=True)
    due.step([at for at, _ in load], [rate for _, rate in load], where="post", color="black", label="what came")
    due.set_ylabel("rows due per second")
    for run, colour in zip(runs, _COLOURS, strict=False):
        if run.foreseen:
            at, low, high = zip(*run.foreseen, strict=True)
            label = f"80 % interval, forecast {ahead:g} s before"
            due.fill_between(at, low, high, color=colour, alpha=0.3, label=label)
        _draw_replicas(replicas, run, colour)
        latency.plot([at for at, _, _ in run.batches], [p99 for _, _, p99 in run.batches], color=colour, label=run.name)
    replicas.set_ylabel("active replicas")
    latency.set_ylabel("tuple latency (p99), s")
    latency.set_xlabel("seconds of the load")
    if target is not None:
        latency.axhline(target, color="black", linestyle=":", label=f"target: {target:g} s")
    end = max((run.batches[-1][0] for run in runs if run.batches), default=load[-1][0])
    for axes in (due, replicas, latency):
        axes.set_ylim(bottom=0, top=1.25 * axes.get_ylim()[1])
        axes.set_xlim(0, end)
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", ncols=3, fontsize="small")
    save_figure(figure, path)


def _draw_replicas(axes: Axes, run: ReplicaRun, colour: str) -> None:
    """The replicas over time; each increase is marked with how many were added, and whether a forecast caused it."""
    points = [(0.0, run.first), *((each.at, each.replicas) for each in run.changes)]
    points += [(run.batches[-1][0], points[-1][1])] if run.batches else []
    axes.step([at for at, _ in points], [count for _, count in points], where="post", color=colour, label=run.name)
    for (_, before), change in zip(points, run.changes, strict=False):
        if change.replicas > before:
            text = f"+{change.replicas - before}, {'forecast' if change.foreseen else 'measured'}"
            left = change.foreseen or change.at > 0.85 * points[-1][0]  # room for the words
            place = (-4 if left else 4, 3 if change.foreseen else -12)  # runs often change to the same number
            axes.annotate(
                text, (change.at, change.replicas), place, textcoords="offset points", ha="right" if left else "left",
                fontsize=8, color=colour,
            )  # fmt: skip


def draw_partitions(loads: Mapping[str, Sequence[float]], path: Path) -> None:
    """Share of the load of each partition, under each of several plans."""
    figure = new_figure(8, 4)
    axes = figure.subplots()
    width = 0.8 / max(1, len(loads))
    for place, (name, shares) in enumerate(loads.items()):
        axes.bar([partition + place * width for partition in range(len(shares))], shares, width, label=name)
    partitions = max((len(shares) for shares in loads.values()), default=0)
    axes.axhline(1 / max(1, partitions), color="black", linestyle=":", linewidth=1, label="even")
    middle = (len(loads) - 1) * width / 2
    axes.set_xticks([partition + middle for partition in range(partitions)], [str(each) for each in range(partitions)])
    axes.set(xlabel="partition", ylabel="share of the load, same rows")
    axes.legend()
    save_figure(figure, path)


def _mark(axes: Axes, disturbances: Disturbances) -> None:
    axes.axvspan(disturbances.slow_at, disturbances.end, color="tab:red", alpha=0.06)
    axes.axvspan(disturbances.surge_at, disturbances.end, color="tab:orange", alpha=0.10)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")


def _with_latency(batches: Sequence[BatchRow]) -> list[BatchRow]:
    return [batch for batch in batches if batch.rows and batch.p99 is not None]


def draw_backtest(backtest: Backtest, place: int, path: Path, latest: int) -> Path:
    """Plot the last forecasts of a rolling origin at one horizon, against the values that came."""
    figure = new_figure()
    horizon = backtest.horizons[place]
    cut = slice(-latest, None)
    axes = figure.subplots()
    times, quantiles = horizon.places[cut], horizon.quantiles[cut]
    axes.fill_between(times, quantiles[:, _LOW], quantiles[:, _HIGH], alpha=0.25, label="80 % interval")
    axes.plot(times, horizon.truth[cut], color="black", linewidth=0.9, label="truth")
    axes.plot(times, horizon.mean[cut], linewidth=1.1, label="mean")
    axes.set(title=f"{backtest.name}, {horizon.steps} ahead", xlabel="step", ylabel="load")
    return _finish(figure, path)


def draw_forecast(values: Floats, ahead: SeriesForecast, path: Path) -> Path:
    """Plot the last values and the forecast after them."""
    figure = new_figure()
    axes = figure.subplots()
    shown = values[-5 * ahead.horizon - 50 :]
    future = np.arange(1, ahead.horizon + 1)
    axes.plot(np.arange(1 - len(shown), 1), shown, color="black", linewidth=0.9, label="measured")
    axes.fill_between(future, ahead.quantiles[:, _LOW], ahead.quantiles[:, _HIGH], alpha=0.25, label="80 % interval")
    axes.plot(future, ahead.mean, label="mean")
    axes.plot(future, ahead.median, linestyle="--", label="median")
    axes.set(xlabel="steps from now", ylabel="load")
    return _finish(figure, path)


def _finish(figure: Figure, path: Path) -> Path:
    for axes in figure.axes:
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left")
    return save_figure(figure, path)


@dataclass(frozen=True, slots=True)
class ReplayPoint:
    """What a picture needs of a batch: tuples due per second, seconds that tuples took, seconds that they may take."""

    at: float
    load: float | None
    latency: float | None
    target: float | None
    quantile: str

    @classmethod
    def of(cls, world: World) -> Self:
        """The point of a world."""
        rates = [world.snapshot.value("arrival_rate", spout) for spout in world.setup.spouts]
        known = [rate for rate in rates if rate is not None]
        load = sum(known) if known else world.snapshot.value("input_rows_per_second")
        latency = world.snapshot.value(world.target.metric)
        seconds = None if latency is None else latency / 1000.0
        return cls(world.at, load, seconds, world.target.latency, world.target.quantile)


def draw_replay(points: Sequence[ReplayPoint], advised: Sequence[Advice], path: Path) -> None:
    """Plot load, latency and actions over time."""
    figure = new_figure()
    targets = list(dict.fromkeys(action.target for each in advised for action in each.decision.actions))
    figure.set_size_inches(10, 6 + 0.25 * len(targets))
    load, latency, done = figure.subplots(
        3, 1, sharex=True, gridspec_kw={"height_ratios": [3, 3, 1 + 0.3 * len(targets)]}
    )
    _curve(load, [(each.at, each.load) for each in points], "tab:blue")
    load.set_ylabel("tuples due per second")
    _curve(latency, [(each.at, each.latency) for each in points], "tab:red")
    latency.set_ylabel(f"latency {points[-1].quantile}, s")
    if any(each.target is not None for each in points):
        _curve(latency, [(each.at, each.target) for each in points], "black", linestyle=":")
    _marks(done, advised, targets)
    for axes in (load, latency):
        axes.set_ylim(bottom=0)
        for each in advised:
            axes.axvline(_dates([each.decision.at])[0], color="grey", alpha=0.4, linewidth=0.8)
    for axes in (load, latency, done):
        axes.grid(alpha=0.3)
    _tell_time(done)
    save_figure(figure, path)


def _tell_time(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415 an extra

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _curve(axes: Axes, values: Sequence[tuple[float, float | None]], color: str, linestyle: str = "-") -> None:
    known = [(at, value) for at, value in values if value is not None]
    axes.plot(_dates(at for at, _ in known), [value for _, value in known], color=color, linestyle=linestyle)


def _marks(axes: Axes, advised: Sequence[Advice], targets: Sequence[str]) -> None:
    marks = [(each.decision.at, action) for each in advised for action in each.decision.actions]
    axes.scatter(_dates(at for at, _ in marks), [targets.index(action.target) for _, action in marks], marker="v")
    for at, action in marks if len(marks) <= _MOST_LABELS else []:
        place = (_dates([at])[0], targets.index(action.target))
        axes.annotate(_short(action), place, (4, 4), textcoords="offset points", fontsize=8)
    axes.set_yticks(range(len(targets)), targets)
    axes.set_ylim(-0.5, max(len(targets), 1) - 0.2)


def _short(action: Action) -> str:
    match action:
        case Quarantine() | QuarantineHost():
            return "out"
        case Release() | ReleaseHost():
            return "in"
        case SetSplit():
            return "split"
        case Restart():
            return "restart"
        case _:
            return "all" if action.amount in (None, float("inf")) else f"{action.amount:,.0f}"


def _dates(times: Iterable[float]) -> list[float]:
    """Days, as matplotlib counts them, shifted to the reader's own time zone as in the tables."""
    return [(at + time.localtime(at).tm_gmtoff) / _DAY for at in times]


def draw_simulation(result: SimulationResult, path: Path) -> None:
    """Plot latency and queues of a simulation over time."""
    figure = new_figure(9, 6)
    latency, queues = figure.subplots(2, 1, sharex=True)
    timeline = result.timeline
    for level, values in timeline.latency.items():
        latency.plot(timeline.times, values, label=f"p{100 * level:g}")
    for name, lengths in timeline.queue_length.items():
        queues.plot(timeline.times, lengths, label=name)
    latency.set(ylabel="latency (s)", title="From arrival until fully processed, by time of arrival")
    queues.set(ylabel="tuples waiting", xlabel="simulated time (s)")
    _finish(figure, path)
