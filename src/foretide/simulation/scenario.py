"""Scenarios: a network, its workers, and all that happens to them while it is simulated. Values only."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import IdleNetworkError, ModelError, Problem
from foretide.formatting import format_number
from foretide.queueing.model import SimulationPlan
from foretide.simulation.routes import RouteChange, Spread, route_problems
from foretide.simulation.variation import Family, RateCurve, Variation
from foretide.simulation.workers import Outage, Slowdown

MAX_EVENTS = 20_000_000
_BATCH_EVENTS = 20

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from foretide.queueing.model import ArrivalCurve, BatchCosts, Model
    from foretide.queueing.network import Network


@dataclass(frozen=True)
class Scenario:
    """What to simulate.

    >>> from foretide.queueing.network import Network, Operator
    >>> network = Network((Operator("parse", service_rate=10.0),), external={"parse": 14.0})
    >>> Scenario(network, workers={"parse": 2}, duration=60.0).curve_of("parse").peak
    14.0

    Attributes:
        network: Operators, flows and the rates that enter.
        workers: The pool N of each operator: servers in a pipeline, tasks of its exchange in micro-batches.
        duration: Seconds during which tuples enter. All that entered is then processed to the end.
        warmup: Seconds at the start that are left out of the estimates.
        curves: Arrivals that change with time, in place of the network's constant rates.
        routes: Split ratios by operator, in order of time. Without them, workers of a pipeline share one queue,
            and tasks of a micro-batch get equal shares.
        slowdowns: Workers (in micro-batches: cores) that are slow for a while.
        outages: Workers (cores) that are gone for a while.
        family: Shape of the service times; "gamma" with scv 1 is exponential, "lognormal" has a heavier tail.
        batching: Costs of a micro-batch; None simulates a pipeline of queues.
        limit: Most rows that one micro-batch takes in from outside; None takes all that has arrived.
        batches: Pieces of simulated time from whose means the confidence intervals are made.
        confidence: Of the intervals.
    """

    network: Network
    workers: Mapping[str, int]
    duration: float
    warmup: float = 0.0
    curves: Mapping[str, RateCurve] = field(default_factory=dict)
    routes: Mapping[str, tuple[RouteChange, ...]] = field(default_factory=dict)
    slowdowns: tuple[Slowdown, ...] = ()
    outages: tuple[Outage, ...] = ()
    family: Family = "gamma"
    batching: BatchCosts | None = None
    limit: int | None = None
    batches: int = 30
    confidence: float = 0.95

    def __post_init__(self) -> None:
        problems = [
            *_time_problems(self),
            *_worker_problems(self),
            *_name_problems(self),
            *_event_problems(self),
        ]
        if problems:
            raise ModelError(problems)

    @property
    def events(self) -> tuple[Slowdown | Outage, ...]:
        """Everything that happens to workers."""
        return (*self.slowdowns, *self.outages)

    def curve_of(self, operator: str) -> RateCurve:
        """What enters at an operator from outside."""
        return self.curves.get(operator) or RateCurve.constant(self.network.external.get(operator, 0.0))

    def arrivals_of(self, operator: str) -> Variation:
        """How the gaps between external arrivals vary; an scv of 1 is a Poisson stream."""
        return Variation(self.network.operator(operator).arrival_scv)

    def service_of(self, operator: str) -> Variation:
        """How the service times vary."""
        return Variation(self.network.operator(operator).service_scv, self.family)


def _time_problems(scenario: Scenario) -> Iterator[Problem]:
    if not (math.isfinite(scenario.duration) and scenario.duration > 0):
        yield Problem("simulation", f"duration is {scenario.duration:g}", "Give finite seconds above 0.")
    elif not 0 <= scenario.warmup < scenario.duration:
        what = f"warm-up is {scenario.warmup:g} of {scenario.duration:g} s"
        yield Problem("simulation", what, "Leave some time to measure.")
    if scenario.batches < 2:  # noqa: PLR2004 one batch has no spread
        yield Problem("simulation", f"batches is {scenario.batches}", "Give 2 or more.")
    if not 0 < scenario.confidence < 1:
        yield Problem("simulation", f"confidence is {scenario.confidence:g}", "Give a number between 0 and 1.")
    if scenario.limit is not None and scenario.limit < 1:
        yield Problem("simulation", f"limit is {scenario.limit} rows", "Admit at least one row a batch.")


def _worker_problems(scenario: Scenario) -> Iterator[Problem]:
    for name in scenario.network.names:
        if scenario.workers.get(name, 0) < 1:
            what = f"has {scenario.workers.get(name, 'no')} workers"
            yield Problem(f"operator '{name}'", what, "Say how many processors it has, 1 or more.")
        else:
            yield from route_problems(name, scenario.routes.get(name, ()), scenario.workers[name])


def _name_problems(scenario: Scenario) -> Iterator[Problem]:
    known = set(scenario.network.names)
    named = {*scenario.workers, *scenario.curves, *scenario.routes}
    named |= {event.operator for event in scenario.events if event.operator is not None}
    remedy = f"Choose from {', '.join(sorted(known))}."
    for name in sorted(named - known):
        yield Problem(f"operator '{name}'", "is not in the network", remedy)


def _event_problems(scenario: Scenario) -> Iterator[Problem]:
    for event in scenario.events:
        where = f"worker {event.worker} of {event.operator or 'the cores'}"
        size = scenario.batching.cores if scenario.batching else scenario.workers.get(event.operator or "", 0)
        if scenario.batching is None and event.operator is None:
            yield Problem(where, "belongs to no operator", "Say whose it is; only micro-batches have cores.")
        elif not 0 <= event.worker < size:
            yield Problem(where, "does not exist", f"There are {size}, counted from 0.")
        if not 0 <= event.start < event.end:
            what = f"is disturbed from {event.start:g} to {event.end:g}"
            yield Problem(where, what, "Let it end after it starts.")
        yield from _lasting_problems(where, event)


def _lasting_problems(where: str, event: Slowdown | Outage) -> Iterator[Problem]:
    speed = event.speed if isinstance(event, Slowdown) else 0.0
    if not (math.isfinite(speed) and speed >= 0):
        yield Problem(where, f"speed is {speed:g}", "Give a finite speed, 0 or more.")
    elif speed == 0 and not math.isfinite(event.end):
        what = "never comes back, so what it has is never processed"
        yield Problem(where, what, "Let that end, or give the operator one worker less.")


def scenario_of(model: Model) -> Scenario:
    """What to simulate for a model.

    >>> from foretide.queueing.model_file import model_from_toml
    >>> model = model_from_toml('''
    ... [[operator]]
    ... name = "parse"
    ... service_rate = 100
    ... arrivals = 150
    ... processors = 2
    ...
    ... [simulation]
    ... duration = 60
    ... curve = [[0, 1.0], [30, 2.0]]
    ... ''')
    >>> scenario = scenario_of(model)
    >>> scenario.workers, scenario.curve_of("parse").rates
    ({'parse': 2}, (150.0, 300.0))

    In a pipeline, the processors of an operator share one queue, unless it has a route, which splits tuples
    at random. In micro-batches its exchange has as many tasks as its pool, and the active ones take turns.

    Raises:
        ModelError: The model cannot be simulated, or only in hours; lists every problem.
        IdleNetworkError: Nothing arrives.
    """
    plan = simulation_plan(model)
    batching = model.micro_batch if plan.mode == "micro-batch" else None
    if plan.mode == "micro-batch" and batching is None:
        problem = Problem("simulation", "mode is micro-batch, but no batch costs are given", "Add [micro_batch].")
        raise ModelError([problem])
    workers = {**model.processors, **model.pools}
    if batching:
        active = {name: (1.0,) * model.processors.get(name, pool) for name, pool in workers.items()}
    else:  # those who share a queue are all active; of a routed pool, the route says who is
        active = {}
        workers |= {name: count for name, count in model.processors.items() if name not in plan.routes}
    scenario = Scenario(
        model.network,
        workers,
        duration=plan.duration,
        warmup=plan.warm_up,
        curves={name: rate_curve(rate, plan.curve) for name, rate in model.network.external.items() if rate > 0},
        routes=_routes({**active, **plan.routes}, workers, "even" if batching else "random"),
        slowdowns=tuple(
            Slowdown(slow.replica, slow.start, slow.end, 1 / slow.factor, slow.operator) for slow in plan.slow_workers
        ),
        outages=tuple(Outage(gone.replica, gone.at, gone.at + gone.lasts, gone.operator) for gone in plan.failures),
        batching=batching,
    )
    _refuse_endless(scenario)
    return scenario


def _refuse_endless(scenario: Scenario) -> None:
    """Work out how much there is to simulate before it is begun."""
    network = scenario.network
    entering = np.array([scenario.curve_of(name).expected(scenario.duration) for name in network.names])
    if not entering.any():
        raise IdleNetworkError
    handled = float(np.linalg.solve(np.eye(len(entering)) - network.gains.T, entering).sum())
    bursts = sum(scenario.arrivals_of(name).scv for name, rows in zip(network.names, entering, strict=True) if rows)
    events = handled + bursts + _batch_events(scenario, float(entering.sum()))
    if not events <= MAX_EVENTS:
        seconds = format_number(scenario.duration)
        what = f"about {format_number(events)} tuples, tasks and batches would be simulated in {seconds} s"
        remedy = f"Lower duration, arrivals, curve, gain or processors: at most {MAX_EVENTS:,} are simulated."
        raise ModelError([Problem("simulation", what, remedy)])


def _batch_events(scenario: Scenario, rows: float) -> float:
    """Tasks and batches: there is at most one batch for each row, and each takes at least what is fixed."""
    if scenario.batching is None:
        return 0.0
    fixed = scenario.batching.fixed_cost + scenario.batching.task_cost * sum(scenario.workers.values())
    shortest = max(fixed, scenario.batching.trigger)
    batches = min(rows, scenario.duration / shortest) if shortest else rows
    return batches * (_BATCH_EVENTS + scenario.batching.cores + sum(scenario.workers.values()))


def simulation_plan(model: Model) -> SimulationPlan:
    """The model's simulation section; without one, a minute in the mode that the model is of."""
    return model.simulation or SimulationPlan(mode="micro-batch" if model.micro_batch else "pipeline")


def rate_curve(rate: float, curve: ArrivalCurve) -> RateCurve:
    """The curve's factors on a rate; a factor of 1 holds until the first point."""
    points = curve.points
    if not points or points[0][0] > 0:
        points = ((0.0, 1.0), *points)
    since, factors = zip(*points, strict=True)
    return RateCurve(since, tuple(rate * factor for factor in factors), curve.shape)


def _routes(
    weights: Mapping[str, tuple[float, ...]], workers: dict[str, int], spread: Spread
) -> dict[str, tuple[RouteChange, ...]]:
    """Tasks of the pool that no weight is given for are inactive."""
    return {
        name: (RouteChange(given + (0.0,) * (workers.get(name, 0) - len(given)), spread=spread),)
        for name, given in weights.items()
    }
