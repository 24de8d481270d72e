"""Plot of a replay: load, latency, and the actions over time, one line per target."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

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
from foretide.reports.figure import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DAY = 86_400.0
_MOST_LABELS = 60


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
