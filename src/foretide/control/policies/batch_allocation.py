"""Executors, replicas and rows in flight with which micro-batches hold a latency target, at the least cost.

The model is learnt from the batches that were measured (`foretide.queueing.learned_batches`). Where it is off by a
factor for the present allocation, all that it says is multiplied by that factor: fine-tuning by the measured latency.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from foretide.control.world.measured import FRESH, cores_in_service
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.errors import BatchOverloadError
from foretide.formatting import format_duration, format_number
from foretide.queueing.batches import BatchModel, SteadyBatches
from foretide.queueing.learned_batches import LearnedBatches

QUANTILES: Mapping[str, float] = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
SETTLE_SECONDS = 15.0
"""Seconds after which latency is to be below the target again, once executors have come."""

_MAX_EXECUTORS = 1024
_ANY = 1 << 20
_MAX_BATCHES = 500
_SETTLED = 1.5
_BATCH_SHARE = 0.5
"""Share of the target that the longest batch may take."""

_ROOM, _MIN_ROOM = 2.0, 1.25
"""Rows of a batch's limit over those of an ordinary one: when it is set, and below which it is set anew."""


def held_latency(steady: SteadyBatches, target: Target) -> float:
    """The latency that a target speaks of."""
    return steady.latency(QUANTILES[target.quantile]) if target.quantile in QUANTILES else steady.mean_latency


@dataclass(frozen=True, slots=True)
class Choice:
    """An allocation: executors (None if their number cannot be changed), replicas, and the latency to expect."""

    executors: int | None
    replicas: Mapping[str, int]
    model: BatchModel
    latency: float

    @property
    def cores(self) -> int:
        """Tasks that run at the same time."""
        return self.model.costs.cores


@dataclass(frozen=True)
class BatchPlanner:
    """Says what latency each number of executors brings.

    Attributes:
        rate: Rows a second to plan for.
        lead: Seconds until an executor that is asked for runs tasks.
        before: Rows a second until then; None for as many as are planned for.
        error: Measured latency over the modelled one; all latencies are multiplied by it.
        headroom: Share of the target that a plan may use; the rest is for what no model knows.
        repartitioned: Whether state has at least a partition for each core, as after a restart.
    """

    learned: LearnedBatches
    world: World
    rate: float
    lead: float = 0.0
    before: float | None = None
    error: float = 1.0
    headroom: float = 1.0
    repartitioned: bool = False
    _known: dict[int, Choice] = field(default_factory=dict, repr=False)

    @property
    def goal(self) -> float:
        """The latency that a plan has to meet."""
        return (self.world.target.latency or math.inf) * self.headroom

    @cached_property
    def executors(self) -> tuple[int, int]:
        """Fewest and most executors in service that may be asked for."""
        serving = max(len(self.world.observed.in_service), 1)
        if self.world.setup.executors is None:
            return serving, serving
        least, most = self.world.setup.executors
        budget = self.world.target.budget
        if budget is not None:
            most = min(most, max(budget // self.world.setup.cores_per_executor, 1))
        return min(least, most), most

    @property
    def present(self) -> int:
        """Executors in service."""
        return max(len(self.world.observed.in_service), 1)

    def choice(self, executors: int) -> Choice:
        """The best use of that many executors."""
        if executors not in self._known:
            cores = cores_in_service(self.world)
            if self.world.setup.executors is not None:
                cores = executors * self.world.setup.cores_per_executor
            replicas = {part.name: min(part.pool, cores) for part in self.world.setup.by_edge.values()}
            if self.repartitioned:
                stateful = (part for part in self.world.setup.operators if part.stateful)
                replicas |= {part.name: max(part.pool, cores) for part in stateful}
            self._known[executors] = self._with(executors, cores, replicas)
        return self._known[executors]

    def _with(self, executors: int, cores: int, replicas: Mapping[str, int]) -> Choice:
        model = self.learned.model(cores, replicas, self.world.setup.trigger)
        count = executors if self.world.setup.executors is not None else None
        return Choice(count, replicas, model, self.error * modelled(model, self.rate, self.world.target))

    def cheapest(self, most: int | None = None) -> Choice | None:
        """The fewest executors with which the target is met; None if none do."""
        least, limit = self.executors
        for executors in range(least, (most or limit) + 1):
            if self.choice(executors).latency <= self.goal:
                return self.choice(executors)
        return None

    def cheapest_that_settles(self) -> Choice | None:
        """The fewest executors with which the target is met, and met soon with the rows that wait now."""
        found = self.cheapest()
        if found is None or found.executors is None:
            return found
        for executors in range(found.executors, self.executors[1] + 1):
            if self._settles(self.choice(executors)):
                return self.choice(executors)
        return self.choice(self.executors[1])

    def _settles(self, choice: Choice) -> bool:
        """Whether batches, played one after another from what waits now, are below the target in time."""
        snapshot, trigger = self.world.snapshot, self.world.setup.trigger
        last = (snapshot.value("batch_duration_ms", within=FRESH) or 0.0) / 1000.0
        soon = self.rate if self.before is None else self.before
        waiting = soon * last + (snapshot.value("total_lag", within=FRESH) or 0.0)
        more = choice.executors is not None and choice.executors > self.present
        now, lead, at, length = self.choice(self.present).model, self.lead if more else 0.0, 0.0, last
        for _ in range(_MAX_BATCHES):
            if at >= lead + SETTLE_SECONDS:
                break
            before, model = max(length, trigger), now if at < lead else choice.model
            length = self.error * model.length(waiting)
            at, waiting = at + max(length, trigger), (soon if at < self.lead else self.rate) * max(length, trigger)
            if at > lead and before + length <= (self.world.target.latency or math.inf):
                return True
        return False

    def fastest(self) -> Choice:
        """The allocation with the lowest latency."""
        least, most = self.executors
        choices = (self.choice(count) for count in range(least, most + 1))
        return min(choices, key=lambda each: (each.latency, each.model.seconds_per_row))

    def out_of_reach(self) -> str:
        """What would be needed where no allowed allocation meets the target."""
        best, target = self.fastest(), self.world.target
        words = f"{target.quantile} latency of {format_duration(target.latency or 0.0)} is out of reach"
        reached = f"{_duration(best.latency)} are expected with {_count(best)}"
        if math.isinf(best.latency):
            reached = f"{_count(best)} cannot keep up with {format_number(self.rate)} rows/s"
        if self.world.setup.executors is None:
            return f"{words}: {reached}; the number of executors cannot be changed here"
        most = min(self.executors[1] * 16, _MAX_EXECUTORS)
        if (enough := self.cheapest(most)) is not None:
            return f"{words}: {reached}; {_count(enough)} would be needed (control.max_executors)"
        if (enough := self.with_large_pools().cheapest(most)) is not None:
            return f"{words}: {reached}; {_count(enough)} and a task of every edge for each core would be needed"
        floor = self.error * best.model.length(0.0) + self.world.setup.trigger
        return f"{words}: {reached}, and more would not help: {_duration(floor)} are spent before any row is processed"

    def with_large_pools(self, names: Collection[str] | None = None) -> BatchPlanner:
        """The same with as many tasks as cores: behind each edge, or those of these operators, state included."""
        setup = self.world.setup
        chosen = {part.name for part in setup.by_edge.values()} if names is None else names
        operators = tuple(
            replace(part, pool=_ANY) if part.edge and part.name in chosen else part for part in setup.operators
        )
        repartitioned = any(setup.by_name[name].stateful for name in chosen)
        world = replace(self.world, setup=replace(setup, operators=operators))
        return replace(self, world=world, repartitioned=repartitioned, _known={})

    def waiting(self, choice: Choice, seconds: float) -> float:
        """How long rows wait on average over so many seconds, in which a load above the limit piles up."""
        if math.isfinite(choice.latency):
            return choice.latency
        left = max(1 - choice.model.highest_rate / self.rate, 0.0)
        return self.error * choice.model.length(0.0) + left * seconds / 2

    def admission(self, choice: Choice, now: int | None) -> int | None:
        """Most rows that a batch should take, so that none takes long after a surge; None for no limit.

        A limit is well above what an ordinary batch takes, so it never keeps rows back for long. One in force stays as
        long as that is so and the executors stay.
        """
        try:
            ordinary = choice.model.steady(self.rate).rows
        except BatchOverloadError:
            return None
        if now is not None and now >= _MIN_ROOM * ordinary and choice.executors in (None, self.present):
            return now
        seconds = (self.world.target.latency or math.inf) * _BATCH_SHARE / self.error
        rows = max(choice.model.rows_within(seconds), _ROOM * ordinary)
        return int(rows) if math.isfinite(rows) else None


def modelled(model: BatchModel, rate: float, target: Target) -> float:
    """The latency that the model gives at a rate; infinite if it cannot carry it."""
    try:
        return held_latency(model.steady(rate), target)
    except BatchOverloadError:
        return math.inf


def model_error(learned: LearnedBatches, world: World, rate: float, latency: float) -> float | None:
    """Measured latency over the modelled one for what is in force; None while batches have not settled."""
    replicas = {part.name: world.replicas(part.name) for part in world.setup.by_edge.values()}
    model = learned.model(cores_in_service(world), replicas, world.setup.trigger)
    try:
        steady = model.steady(rate)
    except BatchOverloadError:
        return None
    rows = world.snapshot.value("input_rows", within=FRESH) or 0.0
    settled = steady.rows / _SETTLED <= rows <= steady.rows * _SETTLED
    return min(max(latency / held_latency(steady, world.target), 0.5), 3.0) if settled else None


def describe(planner: BatchPlanner, choice: Choice) -> str:
    """Why this allocation, in figures."""
    learned = planner.learned
    words = f"{format_number(planner.rate)} rows/s are expected, for which {_count(choice)} take about "
    words += _duration(choice.latency)
    fewer = None if choice.executors is None or choice.executors <= 1 else planner.choice(choice.executors - 1)
    if fewer is not None:
        words += f" ({_count(fewer)}: {_duration(fewer.latency)})"
    cost = f"a batch costs {format_duration(learned.fixed_cost)} and {format_duration(choice.model.seconds_per_row)}"
    return f"{words}; {cost} a row; measured {planner.error:.2f} x the model"


def _count(choice: Choice) -> str:
    if choice.executors is None:
        return f"{choice.cores} core{'s' if choice.cores > 1 else ''}"
    return f"{choice.executors} executor{'s' if choice.executors > 1 else ''}"


def _duration(seconds: float) -> str:
    return format_duration(seconds) if math.isfinite(seconds) else "ever longer"
