"""What a running pipeline would need for another load or target, by what was measured of its batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from foretide.control.policies.batch_allocation import BatchPlanner, Choice, model_error
from foretide.control.world.measured import NotYet, arrivals, batch_observation
from foretide.control.world.setup import OperatorSetup, Target
from foretide.control.world.world import World
from foretide.errors import CapacityError
from foretide.formatting import format_duration, format_number
from foretide.planning.advice import SHUFFLE_PARTITIONS
from foretide.queueing.learned_batches import MAX_BATCHES, BatchObservation, LearnedBatches, learn

MAX_EXECUTORS = 1024


@dataclass(frozen=True, slots=True)
class Capacity:
    """Executors, replicas and the latency to expect for a load.

    Attributes:
        interval: Fewest and most executors that may be needed, by the error of the model.
        pools: Tasks that each operator behind an edge needs, and has now.
        state_partitions: Partitions of its state that each stateful operator needs, and has now.
        restartable: Whether a restart can change them.
        bottleneck: The operator whose stage takes longest.
        learned: The costs of batches that the answer rests on.
        most_cores: Most cores in the batches that they were learnt from.
    """

    query: str
    rate: float
    target: Target
    executors: int
    interval: tuple[int, int | None]
    cores_per_executor: int
    latency: float
    pools: Mapping[str, tuple[int, int]]
    state_partitions: Mapping[str, tuple[int, int]]
    restartable: bool
    bottleneck: str
    learned: LearnedBatches
    most_cores: int


def capacity(worlds: Iterable[World], rate: float | None, latency: float | None, budget: int | None = None) -> Capacity:
    """The fewest executors that carry a rate (the measured one by default) within a latency (the target's by default).

    With a budget, no more than fit into that many cores.

    Raises:
        CapacityError: Too few batches were recorded, the query is in real time, or no number of executors does.
    """
    last: World | None = None
    observed: list[BatchObservation] = []
    for last in worlds:
        batch = batch_observation(last)
        observed = [*observed[-MAX_BATCHES:], *([] if batch is None else [batch])]
    learned = learn(observed)
    if last is None or learned is None:
        raise CapacityError(f"{len(observed)} batches with rows were recorded, too few to learn what they cost")
    if last.setup.mode != "micro-batch":
        raise CapacityError(
            "a query in real time has no batches to learn from; `foretide plan FILE` plans a model of it"
        )
    target = last.target if latency is None else replace(last.target, latency=latency, relaxed=0.0)
    if target.latency is None:
        raise CapacityError("there is no latency target; give one with --latency, such as --latency 2s")
    return _planned(learned, last, rate, replace(target, budget=budget), max(batch.cores for batch in observed))


def _planned(learned: LearnedBatches, world: World, rate: float | None, target: Target, most_cores: int) -> Capacity:
    now = arrivals(world)
    present = math.inf if isinstance(now, NotYet) else sum(now.values())
    wanted = present if rate is None else rate
    if not math.isfinite(wanted):
        raise CapacityError("it is not known how many rows arrive; give a number of rows a second with --rate")
    held = world.snapshot.value(target.metric)
    off = None if held is None or math.isinf(present) else model_error(learned, world, present, held / 1000.0)
    error = off or 1.0
    spread = [error * (1 - learned.error), error, error * (1 + learned.error)]
    low, choice, high = (_cheapest(learned, world, wanted, target, each) for each in spread)
    if choice is None or choice.executors is None:
        raise CapacityError(
            f"{format_number(wanted)} rows/s within {format_duration(target.latency or 0)}: "
            f"{_reached(learned, world, wanted, target, error)}"
        )
    stages = {stage.operator: choice.model.stage_seconds(stage, 1000.0) for stage in choice.model.stages}
    return Capacity(
        world.setup.query,
        wanted,
        target,
        choice.executors,
        (choice.executors if low is None else low.executors or 1, None if high is None else high.executors),
        world.setup.cores_per_executor,
        choice.latency,
        {part.name: (choice.replicas[part.name], part.pool) for part in world.setup.by_edge.values()},
        {part.name: (choice.replicas.get(part.name, part.pool), part.pool) for part in _stateful(world)},
        world.setup.can_repartition,
        max(stages, key=lambda name: stages[name]),
        learned,
        most_cores,
    )


def _cheapest(learned: LearnedBatches, world: World, rate: float, target: Target, error: float) -> Choice | None:
    """The fewest executors; with other state partitions only where these make them fewer."""
    as_is, larger = (_planner(learned, world, rate, target, error, state=state).cheapest() for state in (False, True))
    if as_is is None or larger is None:
        return as_is or larger
    return larger if (larger.executors or 0) < (as_is.executors or 0) else as_is


def _reached(learned: LearnedBatches, world: World, rate: float, target: Target, error: float) -> str:
    """What is possible where the target is not, in words."""
    fastest = (_planner(learned, world, rate, target, error, state=state).fastest() for state in (False, True))
    best = min(fastest, key=lambda choice: choice.latency)
    if math.isinf(best.latency):
        return "no number of executors keeps up"
    return f"the lowest {target.quantile} is {format_duration(best.latency)}, with {best.executors} executors"


def _planner(
    learned: LearnedBatches, world: World, rate: float, target: Target, error: float, *, state: bool
) -> BatchPlanner:
    """A planner with as many executors, within the budget, and as many tasks and partitions as it takes."""
    setup = replace(world.setup, executors=(1, MAX_EXECUTORS))
    anything = replace(world, setup=setup, target=target)
    enlarged = [part.name for part in setup.by_edge.values()]
    enlarged += [part.name for part in _stateful(world)] if state else []
    return BatchPlanner(learned, anything, rate, error=error).with_large_pools(enlarged)


def _stateful(world: World) -> list[OperatorSetup]:
    """The operators that Spark's state gives their tasks."""
    return [part for part in world.setup.operators if part.stateful and part.edge is None]


def explain(found: Capacity) -> list[str]:
    """The answer in sentences."""
    learned, low, high = found.learned, found.interval[0], found.interval[1]
    between = f"between {low} and {high}" if high is not None else f"{low} or more"
    cores = f"{found.cores_per_executor} core{'s' if found.cores_per_executor > 1 else ''}"
    answer = (
        f"{found.executors:,} executors of {cores} carry {format_number(found.rate)} rows/s with a "
        f"{found.target.quantile} latency of about {format_duration(found.latency)} "
        f"(target {format_duration(found.target.latency or 0.0)}); {between} by the error of the model."
    )
    pools = [
        f"Edge '{name}' needs {tasks} tasks; its pool has {pool}: foretide restart --pool {name}={tasks}."
        for name, (tasks, pool) in found.pools.items()
        if tasks > pool
    ]
    state = [
        f"The state of '{name}' needs {needed} partitions; it has {now}: {_how_to_repartition(found, needed)}."
        for name, (needed, now) in found.state_partitions.items()
        if needed > now
    ]
    learnt = (
        f"Learnt from {learned.batches} batches with up to {found.most_cores} cores: a batch costs "
        f"{format_duration(learned.fixed_cost)}, and the model is off by {learned.error:.0%} on average."
    )
    return [answer, *pools, *state, f"The bottleneck is {found.bottleneck}.", learnt]


def _how_to_repartition(found: Capacity, partitions: int) -> str:
    if found.restartable:
        return f"foretide restart --state-partitions {partitions}"
    return f"start it on a new checkpoint with {SHUFFLE_PARTITIONS}={partitions}; this one keeps its partitions"
