"""From a model, as `model_file` reads it, to the scenario that its simulation section describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide.errors import ModelError, Problem
from foretide.queueing.model import SimulationPlan
from foretide.simulation.routes import RouteChange
from foretide.simulation.scenario import Scenario
from foretide.simulation.variation import RateCurve
from foretide.simulation.workers import Outage, Slowdown

if TYPE_CHECKING:
    from foretide.queueing.model import ArrivalCurve, Model


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
        ModelError: The model cannot be simulated; lists every problem.
    """
    plan = plan_of(model)
    batching = model.micro_batch if plan.mode == "micro-batch" else None
    if plan.mode == "micro-batch" and batching is None:
        problem = Problem("simulation", "mode is micro-batch, but no batch costs are given", "Add [micro_batch].")
        raise ModelError([problem])
    workers = _pools(model) if batching else _servers(model, plan)
    return Scenario(
        model.network,
        workers,
        duration=plan.duration,
        warmup=plan.warm_up,
        curves={name: _curve(rate, plan.curve) for name, rate in model.network.external.items() if rate > 0},
        routes=_even_routes(model, plan, workers) if batching else _random_routes(plan, workers),
        slowdowns=tuple(
            Slowdown(slow.replica, slow.start, slow.end, 1 / slow.factor, slow.operator) for slow in plan.slow_workers
        ),
        outages=tuple(Outage(gone.replica, gone.at, gone.at + gone.lasts, gone.operator) for gone in plan.failures),
        batching=batching,
    )


def plan_of(model: Model) -> SimulationPlan:
    """The model's simulation section; without one, a minute in the mode that the model is of."""
    return model.simulation or SimulationPlan(mode="micro-batch" if model.micro_batch else "pipeline")


def _pools(model: Model) -> dict[str, int]:
    return {**model.processors, **model.pools}


def _servers(model: Model, plan: SimulationPlan) -> dict[str, int]:
    """Those who share a queue are all active; of a routed pool, the route says who is."""
    pools = _pools(model)
    return {**pools, **{name: count for name, count in model.processors.items() if name not in plan.routes}}


def _curve(rate: float, curve: ArrivalCurve) -> RateCurve:
    """A factor of 1 holds until the first point."""
    points = curve.points
    if not points or points[0][0] > 0:
        points = ((0.0, 1.0), *points)
    since, factors = zip(*points, strict=True)
    return RateCurve(since, tuple(rate * factor for factor in factors), curve.shape)


def _random_routes(plan: SimulationPlan, workers: dict[str, int]) -> dict[str, tuple[RouteChange, ...]]:
    return {name: (RouteChange(_padded(weights, workers.get(name, 0))),) for name, weights in plan.routes.items()}


def _even_routes(model: Model, plan: SimulationPlan, workers: dict[str, int]) -> dict[str, tuple[RouteChange, ...]]:
    active = {name: (1.0,) * model.processors.get(name, pool) for name, pool in workers.items()}
    return {
        name: (RouteChange(_padded(weights, workers.get(name, 0)), spread="even"),)
        for name, weights in {**active, **plan.routes}.items()
    }


def _padded(weights: tuple[float, ...], pool: int) -> tuple[float, ...]:
    """Tasks of the pool that no weight is given for are inactive."""
    return weights + (0.0,) * (pool - len(weights))
