"""How long tuples take on each worker, task by task, and splits that follow it: dynamic grouping in real time.

In real time a task stays with its worker, so what its tuples take tells how its worker does, and a split decides how
many tuples the worker gets. Tasks of one edge do the same work: their times are comparable, whatever the bolt.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from foretide.control.policies.share_model import is_better_without
from foretide.control.policies.worker_health import Suspicion
from foretide.control.policies.worker_records import BypassSettings
from foretide.control.world.setup import Weights, full_tasks
from foretide.control.world.world import World
from foretide.metrics.alarm_rules import waits_for_cores
from foretide.metrics.peers import median_of_others

MAX_AGE = 3.0
"""Seconds after which the times of a task no longer describe the present."""

_MIN_TUPLES = 5
_FLOOR_MS = 0.05
"""Added to both sides of a comparison, for each tuple: tiny times vary for many reasons."""

_PROBE_AGE = 12.0
"""Seconds after which what the process of a worker used no longer describes the present; it is read every 5 s."""

_CPU_FLOOR = 1.0
"""Percent of a core added to both sides of a comparison: an idle process waits for many reasons."""

_CROWDED_FACTOR = 4

_LEAST_MOVED = 0.02


@dataclass(frozen=True)
class Patience:
    """How many times in a row a worker must be slow. What all workers show is worked out once, when it is asked for.

    Where every worker waits for cores, the time of each varies: what slows one of them must last longer, unless its
    threads wait much longer than those of its peers, too.
    """

    settings: BypassSettings
    world: World

    def of(self, worker: str) -> int:
        """For one worker."""
        alike = self._crowded and self.waiting.get(worker, 1.0) < self.settings.slow
        return self.settings.patience * (_CROWDED_FACTOR if alike else 1)

    @cached_property
    def _crowded(self) -> bool:
        return waits_for_cores(self.world.snapshot) is not None

    @cached_property
    def waiting(self) -> dict[str, float]:
        """How many times as long as on its peers the threads of each worker wait for cores."""
        return waiting_for_cores(self.world)


def compare_tasks(world: World, *, since: Mapping[str, float], min_tuples: int = _MIN_TUPLES) -> dict[str, Suspicion]:
    """How many times as long as on its peers tuples take on each worker, by what its tasks measured last.

    Args:
        world: With placements.
        since: For some workers, a time before which nothing counts.
        min_tuples: Fewer say nothing.
    """
    took: defaultdict[str, float] = defaultdict(float)
    usual: defaultdict[str, float] = defaultdict(float)
    tuples: defaultdict[str, float] = defaultdict(float)
    for edge, places in world.observed.placements.items():
        by_worker = _times(world, edge, places, since)
        peers = median_of_others({worker: ms / count for worker, (ms, count) in by_worker.items()})
        for worker, ms_of_peers in peers.items():
            busy, rows = by_worker[worker]
            took[worker] += busy
            usual[worker] += rows * ms_of_peers
            tuples[worker] += rows
    found: dict[str, Suspicion] = {}
    for worker, rows in tuples.items():
        if rows >= min_tuples:
            floor = rows * _FLOOR_MS
            words = f"its tuples take {took[worker] / rows:.3g} ms, the same on its peers {usual[worker] / rows:.3g}"
            found[worker] = Suspicion((took[worker] + floor) / (usual[worker] + floor), words)
    return found


def waiting_for_cores(world: World) -> dict[str, float]:
    """How many times as long as on its peers the threads of each worker take, since they are ready and have no core.

    This tells a worker on a busy core even while it has next to no tuples: few tuples are soon done there, too.
    """
    stretched = {
        worker: (waits + used + _CPU_FLOOR) / (used + _CPU_FLOOR)
        for worker in world.observed.in_service
        if (waits := world.snapshot.value("worker_cpu_wait_percent", worker, within=_PROBE_AGE)) is not None
        and (used := _cpu_percent(world, worker)) is not None
    }
    return {worker: stretched[worker] / peers for worker, peers in median_of_others(stretched).items()}


def _cpu_percent(world: World, worker: str) -> float | None:
    parts = [
        world.snapshot.value(f"worker_cpu_{part}_percent", worker, within=_PROBE_AGE) for part in ("user", "system")
    ]
    return sum(part for part in parts if part is not None) if None not in parts else None


def _times(
    world: World, edge: str, places: tuple[str | None, ...], since: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Milliseconds and tuples of the tasks of each worker in service behind an edge."""
    sums: dict[str, tuple[float, float]] = {}
    part, figures = world.setup.by_edge.get(edge), world.snapshot.figures
    serving, oldest = world.observed.in_service, world.at - MAX_AGE
    for task, worker in enumerate(places if part is not None else ()):
        subject = f"{part.name if part else edge}/{task}"
        busy, rows = figures.get(("task_busy_ms", subject)), figures.get(("task_rows", subject))
        if worker not in serving or busy is None or rows is None or rows[0] <= 0:
            continue
        if busy[1] == rows[1] and rows[1] > oldest and rows[1] > since.get(worker, oldest):
            before = sums.get(worker, (0.0, 0.0))
            sums[worker] = (before[0] + busy[0], before[1] + rows[0])
    return sums


def split_without(
    world: World, edge: str, factors: Mapping[str, float], probe_share: float, before: Weights
) -> Weights | None:
    """Weights in which slow workers get a part of their usual share; None if it is so already, or cannot be.

    Tasks of the pool that are on other workers and get nothing yet take the place of those that get next to nothing.
    Where a task is may not be known before it gets tuples: such tasks come last, and a bad choice is corrected a cycle
    later.

    Args:
        world: With the placements of the edge.
        edge: Whose split to make.
        factors: For slow workers the part of the usual share that their tasks keep; 0 for next to nothing.
        probe_share: The part of the stream that tasks with a factor of 0 get together: to see how their workers do.
        before: Weights from before the first worker was slow.
    """
    now, places = world.observed.routes.get(edge, ()), world.observed.placements[edge]
    if len(places) != len(now) or not now:
        return None
    slow = {task: factors[worker] for task, worker in enumerate(places) if worker is not None and worker in factors}
    wanted = max(len(full_tasks(now)), len(full_tasks(before)))
    base = {task: before[task] for task in full_tasks(before)}
    kept = [task for task in base if slow.get(task, 1.0) > 0]
    usual = sum(base.values()) / len(base) if base else 1.0
    spare = sorted((task for task in range(len(now)) if task not in base and task not in slow), key=_unknown(places))
    stand_ins = spare[: max(wanted - len(kept), 0)]
    weights = [0.0] * len(now)
    for task in (*kept, *stand_ins):
        weights[task] = base.get(task, usual) * slow.get(task, 1.0)
    if not any(weights):
        return None
    probes, total = [task for task in base if slow.get(task, 1.0) == 0], sum(weights)
    for task in probes:
        weights[task] = min(probe_share * total / len(probes), usual / 20)
    return tuple(weights) if _moves(now, tuple(weights)) else None


def _unknown(places: tuple[str | None, ...]) -> Callable[[int], bool]:
    """Whether the worker of a task is not known."""
    return lambda task: places[task] is None


def was_reset(world: World, edge: str, factors: Mapping[str, float]) -> bool:
    """Whether tasks on slow workers have more than their part of the usual share: somebody else made the split."""
    now, places = world.observed.routes.get(edge, ()), world.observed.placements[edge]
    pairs = enumerate(places[: len(now)])
    slow = {task: factors[worker] for task, worker in pairs if worker is not None and worker in factors}
    others = [now[task] for task in full_tasks(now) if task not in slow]
    usual = sum(others) / len(others) if others else 0.0
    return any(now[task] > max(1.2 * factor, 0.1) * usual for task, factor in slow.items())


def _moves(now: Weights, new: Weights) -> bool:
    """Whether a new split differs from the present one by more than rounding."""
    total, whole = sum(now), sum(new)
    return max(abs(a / total - b / whole) for a, b in zip(now, new, strict=True)) > _LEAST_MOVED


def others_should_carry(world: World, edge: str, slow: Mapping[str, float], bad: frozenset[str]) -> bool:
    """Whether tuples stay less long if bad workers get next to nothing of an edge, as far as its work is known.

    Args:
        world: With the placements of the edge.
        edge: Whose tasks to consider, in use or not.
        slow: How many times as long tuples take on slow workers.
        bad: The slow workers in question.
    """
    part, places = world.setup.by_edge[edge], world.observed.placements[edge]
    busy = world.snapshot.value("utilization", part.name, within=MAX_AGE)
    others = [worker for worker in places if worker not in bad]
    if not others or busy is None:
        return bool(others)
    active = len(full_tasks(world.observed.routes.get(edge, ())))
    work = busy * active * _work_elsewhere(world, edge, bad)
    capacity = sum(1 / slow.get(worker, 1.0) if worker is not None else 1.0 for worker in others)
    tasks = Counter(slow[worker] for worker in places if worker is not None and worker in bad)
    has_share = any(places[task] in bad for task in full_tasks(world.observed.routes.get(edge, ())))
    return is_better_without(work, capacity, tasks, world.target.quantile, has_share=has_share)


def _work_elsewhere(world: World, edge: str, slow: frozenset[str]) -> float:
    """The time that all tuples would have taken on the other workers, over what they took: slow ones take longer."""
    times = _times(world, edge, world.observed.placements[edge], {})
    took, tuples = (sum(column) for column in zip(*times.values(), strict=True)) if times else (0.0, 0.0)
    elsewhere = [each for worker, each in times.items() if worker not in slow]
    healthy_ms, healthy = sum(ms for ms, _ in elsewhere), sum(count for _, count in elsewhere)
    return healthy_ms / healthy * tuples / took if healthy and took else 1.0
