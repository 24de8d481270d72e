"""Models made from what was measured: a network for planning, and micro-batches from which to learn their cost.

What is not known yet is reported, never guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from foretide.control.world.setup import OperatorSetup
from foretide.control.world.world import World
from foretide.queueing.learned_batches import BatchObservation, StageObservation
from foretide.queueing.network import Flow, Network, Operator

FRESH = 120.0
"""Seconds after which a figure no longer describes the present."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """Not enough is known yet: the figures that are missing. Not a failure; ask again after the next batches."""

    missing: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.missing[:3])
        return f"not known yet: {shown}" + (f" and {len(self.missing) - 3} more" if len(self.missing) > 3 else "")  # noqa: PLR2004


def arrivals(world: World) -> dict[str, float] | NotYet:
    """Tuples a second that arrive at each spout, as measured."""
    rates = {spout: world.snapshot.value("arrival_rate", spout, within=FRESH) for spout in world.setup.spouts}
    missing = tuple(f"arrival_rate of '{spout}'" for spout, rate in rates.items() if rate is None)
    known = {spout: rate for spout, rate in rates.items() if rate is not None}
    return NotYet(missing) if missing or not known else known


def arrivals_ahead(world: World, horizon: float) -> float | None:
    """Tuples a second that are forecast for all spouts together, less or more than now; None without a forecast.

    A spout without a trusted forecast counts as it is measured.
    """
    ahead = [world.forecasts.expected("arrival_rate", spout, horizon) for spout in world.setup.spouts]
    now = [world.snapshot.value("arrival_rate", spout, within=FRESH) for spout in world.setup.spouts]
    loads = [then if then is not None else measured for then, measured in zip(ahead, now, strict=True)]
    known = [load for load in loads if load is not None]
    return sum(known) if len(known) == len(loads) and any(then is not None for then in ahead) else None


@dataclass(frozen=True, slots=True)
class Variation:
    """Squared variation coefficients that a person gave, for those that cannot be measured; None for none."""

    service_scv: float | None = None
    arrival_scv: float | None = None


NOT_GIVEN = Variation()


def network(
    world: World,
    rates: Mapping[str, float] | None = None,
    *,
    waiting_at: Collection[str] = (),
    given: Variation = NOT_GIVEN,
) -> Network | NotYet:
    """The network as measured, with the given arrivals at the spouts in place of the measured ones.

    Operators with Spark's own state are left out where their work cannot be measured, as in real time.

    Only operators in `waiting_at` need their variation coefficients: how long tuples wait there is going to be computed
    from them. Stages of a micro-batch, and replicas for a load, are planned without.
    """
    entering = arrivals(world) if rates is None else dict(rates)
    names = [part.name for part in world.setup.operators if not _is_opaque(world, part)]
    operators = [_operator(world, name, given, name in waiting_at) for name in names]
    flows = [_flow(world, *ends) for ends in world.setup.flows if set(ends) <= set(names)]
    missing = [part for part in (*operators, *flows) if isinstance(part, str)]
    if isinstance(entering, NotYet) or missing:
        return NotYet((*(entering.missing if isinstance(entering, NotYet) else ()), *missing))
    known = tuple(part for part in operators if isinstance(part, Operator))
    return Network(known, tuple(flow for flow in flows if isinstance(flow, Flow)), entering)


def _is_opaque(world: World, part: OperatorSetup) -> bool:
    """Whether nobody can say how long an operator works on a tuple: Spark's own state in a query that never pauses."""
    known = world.snapshot.value("service_time_ms", part.name, within=FRESH)
    return world.setup.mode == "pipeline" and part.stateful and not known


def _operator(world: World, name: str, given: Variation, waits: bool) -> Operator | str:  # noqa: FBT001
    service = world.snapshot.value("service_time_ms", name, within=FRESH)
    if not service:
        return f"service_time_ms of '{name}'"
    known = variation(world, name, given)
    if isinstance(known, tuple):
        return Operator(name, 1000.0 / service, *known, own_queues=world.setup.mode == "pipeline")
    return known if waits else Operator(name, 1000.0 / service)


def variation(world: World, name: str, given: Variation = NOT_GIVEN) -> tuple[float, float] | str:
    """The squared variation coefficients of an operator's service and arrivals, or what of them is not known."""
    service, coming = world.snapshot.value("service_scv", name), world.snapshot.value("arrival_scv", name)
    service = given.service_scv if service is None else service
    coming = given.arrival_scv if coming is None else coming
    if service is not None and coming is not None:
        return service, coming
    missing = [metric for metric, value in (("service_scv", service), ("arrival_scv", coming)) if value is None]
    return f"{' and '.join(missing)} of '{name}'"


def _flow(world: World, source: str, target: str) -> Flow | str:
    """Tuples sent for each one processed; an operator with a single reader sends it all that it emits."""
    gain = world.snapshot.value("flow_fraction", f"{source}->{target}", within=FRESH)
    if gain is None and sum(1 for sender, _ in world.setup.flows if sender == source) == 1:
        gain = world.snapshot.value("selectivity", source, within=FRESH)
    return f"flow_fraction of '{source}->{target}'" if gain is None else Flow(source, target, gain)


def cores_in_service(world: World) -> int:
    """Tasks that can run at the same time."""
    return max(1, len(world.observed.in_service)) * world.setup.cores_per_executor


def batch_observation(world: World) -> BatchObservation | None:
    """The last batch, as far as its cost can be learnt from it; None if something of it is not known."""
    snapshot = world.snapshot
    length = snapshot.value("batch_duration_ms", within=FRESH)
    rows, rate = snapshot.value("input_rows", within=FRESH), snapshot.value("input_rows_per_second", within=FRESH)
    if length is None or world.batch is None or not rows or not rate:
        return None
    stages = {part.name: _stage(world, part.name, rows / rate) for part in world.setup.operators}
    known = {name: stage for name, stage in stages.items() if stage is not None}
    if not known:
        return None
    return BatchObservation(world.batch, rows, length / 1000.0, cores_in_service(world), known)


def _stage(world: World, name: str, interval: float) -> StageObservation | None:
    """An operator in the last batch; None if its tasks were not read then, but in an earlier batch only."""
    _, measured = world.snapshot.figures["input_rows", world.setup.query]
    metrics = ("processed", "active_tasks", "utilization", "capacity")
    found = [world.snapshot.figures.get((metric, name)) for metric in metrics]
    values = [figure[0] for figure in found if figure is not None and figure[1] == measured]
    if len(values) < len(metrics) or values[1] < 1:
        return None
    rows, active, utilization, capacity = values
    return StageObservation(rows, int(active), utilization * interval * active, capacity * interval)
