"""Load-aware splits: PA-SPS's Algorithm 1 over the execution times of the replicas behind an edge.

A micro-batch leaves no queue behind, so every interval starts at utilization 0 and only the replicas' own execution
times tell them apart. (Starting from the last interval's utilization, as printed, swings between two splits.) Tasks
that get next to nothing because their worker is slow keep that share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import SetSplit
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.setup import OperatorSetup, Weights, full_tasks
from foretide.control.world.world import World
from foretide.routing.ring import DEFAULT_SLOTS, assign


@dataclass(frozen=True, slots=True)
class LoadAwareSettings(Bounded):
    """When a load-aware edge is split again."""

    section: ClassVar[str] = "load_aware"

    min_moved: Annotated[
        float,
        Interval(ge=0, lt=1),
        Doc("Share of the stream that a new split must move; otherwise the one in force stays."),
        Scope.ADVANCED,
    ] = 0.05


@dataclass(frozen=True, slots=True)
class TaskSums:
    """Rows of each replica behind an edge, and how long its tasks ran (ms), since a time.

    `at` is the time of the last figures in it.
    """

    since: float
    at: float
    rows: tuple[float, ...]
    busy: tuple[float, ...]

    def added(self, at: float, rows: Sequence[float], busy: Sequence[float]) -> TaskSums:
        """With another batch. One of another pool begins anew."""
        if len(rows) != len(self.rows):
            return TaskSums(at, at, tuple(rows), tuple(busy))
        return TaskSums(
            self.since,
            at,
            tuple(one + other for one, other in zip(self.rows, rows, strict=True)),
            tuple(one + other for one, other in zip(self.busy, busy, strict=True)),
        )


def balanced_split(weights: Weights, sums: TaskSums, interval: float, min_moved: float) -> tuple[int, ...] | None:
    """The slots of each task for the coming interval; None if that would move hardly anything.

    >>> balanced_split((512.0, 512.0), TaskSums(0.0, 30.0, (3000.0, 3000.0), (3000.0, 6000.0)), 30.0, 0.05)
    (683, 341)
    """
    slots = round(sum(weights))
    if len(sums.rows) != len(weights) or not any(sums.rows) or slots < len(weights):
        return None
    active = full_tasks(weights)
    per_slot = sum(sums.rows) / slots
    cost = [per_slot * _per_row(sums, task) / 1000 / max(interval, 1e-9) for task in active]
    wanted = [0 if task in active else round(weight) for task, weight in enumerate(weights)]
    for task, count in zip(active, assign([0.0] * len(active), cost, slots - sum(wanted)), strict=True):
        wanted[task] = count
    moved = sum(abs(new - old) for new, old in zip(wanted, weights, strict=True)) / 2
    return tuple(wanted) if moved > min_moved * slots and any(wanted) else None


def _per_row(sums: TaskSums, task: int) -> float:
    """Milliseconds a row: the mean where there were no rows, and never 0, or some replica loses its slots for good."""
    if not sums.rows[task]:
        return max(1.0, sum(sums.busy)) / sum(sums.rows)
    return max(1.0, sums.busy[task]) / sums.rows[task]


@dataclass(frozen=True, slots=True)
class LoadAwareSplits:
    """Splits load-aware edges again once per interval of each, by what their replicas took for their rows."""

    settings: LoadAwareSettings = field(default_factory=LoadAwareSettings)
    name: str = "load_aware"

    def start(self) -> Mapping[str, TaskSums]:
        """Nothing measured yet."""
        return {}

    def wish(self, state: Mapping[str, TaskSums], world: World) -> tuple[Mapping[str, TaskSums], list[Wish]]:
        """A split for each edge whose interval is over and whose load is uneven."""
        after: dict[str, TaskSums] = {}
        wishes: list[Wish] = []
        for part in world.setup.operators:
            if part.edge is None or part.balance_every is None:
                continue
            sums = _with_newest(state.get(part.edge), world, part)
            if sums is None:
                continue
            after[part.edge] = sums
            if world.at - sums.since >= part.balance_every and any(sums.rows):
                after[part.edge] = TaskSums(world.at, sums.at, *[(0.0,) * part.pool] * 2)
                wishes += self._wished(part, sums, world)
        return after, wishes

    def _wished(self, part: OperatorSetup, sums: TaskSums, world: World) -> list[Wish]:
        edge = str(part.edge)
        weights = ring_weights(world.observed.routes.get(edge, ()))
        slots = balanced_split(weights, sums, world.at - sums.since, self.settings.min_moved)
        if slots is None:
            return []
        took = [_per_row(sums, task) for task in full_tasks(weights)]
        reason = f"its replicas took {min(took):.3g} to {max(took):.3g} ms for a tuple"
        expected = Expectation("they end at the same time")
        return [Wish(self.name, SetSplit(edge, tuple(map(float, slots))), reason, expected, routine=True)]


def ring_weights(weights: Weights) -> Weights:
    """Weights as slots of a ring; those that are slots already stay as they are.

    >>> ring_weights((1.0, 1.0, 0.0)), ring_weights((600.0, 424.0))
    ((512.0, 512.0, 0.0), (600.0, 424.0))
    """
    total = sum(weights)
    return weights if total in (0, DEFAULT_SLOTS) else tuple(weight / total * DEFAULT_SLOTS for weight in weights)


def _with_newest(sums: TaskSums | None, world: World, part: OperatorSetup) -> TaskSums | None:
    """With the figures of the last batch, if they are not in it already."""
    keys = [f"{part.name}/{task}" for task in range(part.pool)]
    figures = world.snapshot.figures
    at = max((figures["task_rows", key][1] for key in keys if ("task_rows", key) in figures), default=None)
    if at is None or (sums is not None and at <= sums.at):
        return sums

    def values(metric: str) -> list[float]:
        found = (figures.get((metric, key), (0.0, at)) for key in keys)
        return [value if measured == at else 0.0 for value, measured in found]

    rows, busy = values("task_rows"), values("task_busy_ms")
    return TaskSums(at, at, tuple(rows), tuple(busy)) if sums is None else sums.added(at, rows, busy)
