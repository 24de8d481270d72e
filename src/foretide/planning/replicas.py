"""How many active replicas for the next interval: pa-sps eqs 2-7, on any DAG.

Everything is counted in events of one interval of td seconds, as in the paper. Where we depart from it:

- Eq 7 prints theta_p, the share of all input that reaches p. The prose means the fraction that flows from
  p to i, and only that conserves events: what waits at p arrives at i as often as p sends to i.
- A backlog is counted once, at the operator that holds it. What it will send on is traffic of the
  operators after it, so forecasts must not contain it again.
- A predecessor that processed nothing says nothing about where it sends: `ReplicaFlow.idle_fraction` is taken.
- Eq 2 gives a fraction of replicas; it is rounded up, then clamped to 1..pool.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretide.errors import ModelError, Problem
from foretide.graphs import in_order, loops

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ReplicaInput:
    """What was measured of an operator in the interval that has just ended.

    Attributes:
        execution_time: Seconds one event takes (et in pa-sps).
        processed: Events it processed (mu).
        queued: Events it received and has not processed yet (|q|).
        pool: Replicas there are in all.
    """

    name: str
    execution_time: float
    processed: float = 0.0
    queued: float = 0.0
    pool: int = 1
    active: int = 1


@dataclass(frozen=True, slots=True)
class ReplicaFlow:
    """Events sent from one bolt to another in the interval (lambda_i^p).

    `idle_fraction` is the fraction taken for granted when the source processed nothing: by default it is
    expected to pass everything on, which errs on the side of enough replicas.
    """

    source: str
    target: str
    sent: float = 0.0
    idle_fraction: float = 1.0


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """How many replicas a bolt should have, and from what that follows.

    Attributes:
        received: Events expected to arrive in the next interval (eq 4).
        backlog: Events from queues, its own and those of the bolts before it (eq 7).
        exact: Replicas by eq 2, as a fraction.
        replicas: Rounded up and clamped to 1..pool.
        change: Replicas to add (above 0) or remove (below 0), as in pa-sps Algorithm 2.
        short: Whether the pool is too small for what is coming.
    """

    received: float
    backlog: float
    exact: float
    replicas: int
    change: int
    short: bool


def plan_replicas(
    bolts: Sequence[ReplicaInput], edges: Sequence[ReplicaFlow], forecast: Mapping[str, float], interval: float
) -> dict[str, ReplicaPlan]:
    """Replicas of every bolt for the next interval.

    The paper's Figure 6: O1 sends 70 % to O2 and 30 % to O3; O2 sends 40 % on to O4, O3 everything.

    >>> bolts = [ReplicaInput("o1", 0.01, 100, pool=4), ReplicaInput("o2", 0.02, 70, pool=4),
    ...          ReplicaInput("o3", 0.02, 30, pool=4), ReplicaInput("o4", 0.05, 58, pool=4)]
    >>> edges = [ReplicaFlow("o1", "o2", 70), ReplicaFlow("o1", "o3", 30),
    ...          ReplicaFlow("o2", "o4", 28), ReplicaFlow("o3", "o4", 30)]
    >>> plans = plan_replicas(bolts, edges, {"o1": 100.0}, interval=1.0)
    >>> {name: (round(plan.received), plan.replicas) for name, plan in plans.items()}
    {'o1': (100, 1), 'o2': (70, 2), 'o3': (30, 1), 'o4': (58, 3)}

    Args:
        bolts: What was measured of each operator.
        edges: What was sent between them; a DAG.
        forecast: Events expected to enter from outside in the next interval, by bolt (lambda_G); a
            bolt that is not named gets none. New events only, no backlog.
        interval: Seconds of one interval (td).

    Raises:
        ModelError: A figure or name is invalid, or the edges form a loop; lists every problem.
    """
    order = _checked_order(bolts, edges, forecast, interval)
    measured = {bolt.name: bolt for bolt in bolts}
    received = {name: forecast.get(name, 0.0) for name in measured}
    backlog = {name: bolt.queued for name, bolt in measured.items()}
    for name in order:
        for edge in edges:
            if edge.source == name:
                fraction = _fraction(edge, measured[name])
                received[edge.target] += received[name] * fraction
                backlog[edge.target] += backlog[name] * fraction
    return {name: _plan(bolt, received[name], backlog[name], interval) for name, bolt in measured.items()}


def _fraction(edge: ReplicaFlow, source: ReplicaInput) -> float:
    """Eq 6: events sent along the edge for each one the source processed; above 1 if it multiplies them."""
    return edge.sent / source.processed if source.processed > 0 else edge.idle_fraction


def _plan(bolt: ReplicaInput, received: float, backlog: float, interval: float) -> ReplicaPlan:
    exact = (received + backlog) * bolt.execution_time / interval
    wanted = math.ceil(exact * (1 - _ROUNDING))
    replicas = min(max(wanted, 1), bolt.pool)
    return ReplicaPlan(received, backlog, exact, replicas, replicas - bolt.active, wanted > bolt.pool)


def _checked_order(
    bolts: Sequence[ReplicaInput], edges: Sequence[ReplicaFlow], forecast: Mapping[str, float], interval: float
) -> list[str]:
    """The bolts from the sources on, or everything that is wrong."""
    problems = [*_bolt_problems(bolts, interval), *_flow_problems(bolts, edges, forecast)]
    inputs = {bolt.name: [edge.source for edge in edges if edge.target == bolt.name] for bolt in bolts}
    remedy = "Use planning.processors for loops."
    problems += [Problem("edges", f"form a loop through {', '.join(loop)}", remedy) for loop in loops(inputs)]
    if problems:
        raise ModelError(problems)
    return in_order(inputs)


def _bolt_problems(bolts: Sequence[ReplicaInput], interval: float) -> Iterator[Problem]:
    if not interval > 0:
        yield Problem("interval", f"is {interval:g}", "Give seconds above 0.")
    if len({bolt.name for bolt in bolts}) < len(bolts):
        yield Problem("bolts", "share a name", "Give each its own.")
    for bolt in bolts:
        for figure in ("execution_time", "processed", "queued"):
            value = getattr(bolt, figure)
            if not (math.isfinite(value) and value >= 0):
                yield Problem(f"bolt '{bolt.name}'", f"{figure} is {value:g}", "Give a finite number, 0 or more.")
        if min(bolt.pool, bolt.active) < 1:
            counts = f"has {bolt.active} active of {bolt.pool} replicas"
            yield Problem(f"bolt '{bolt.name}'", counts, "Give 1 or more of each.")


def _flow_problems(
    bolts: Sequence[ReplicaInput], edges: Sequence[ReplicaFlow], forecast: Mapping[str, float]
) -> Iterator[Problem]:
    names = {bolt.name for bolt in bolts}
    for edge in edges:
        if not {edge.source, edge.target} <= names:
            yield Problem(f"edge {edge.source} -> {edge.target}", "names no bolt", "Name two bolts.")
        if not (math.isfinite(edge.sent) and edge.sent >= 0 and edge.idle_fraction >= 0):
            yield Problem(f"edge {edge.source} -> {edge.target}", f"sent is {edge.sent:g}", "Give 0 or more.")
    for name, events in forecast.items():
        if name not in names:
            yield Problem(f"forecast of '{name}'", "is not a bolt", f"Choose from {', '.join(sorted(names))}.")
        if not (math.isfinite(events) and events >= 0):
            yield Problem(f"forecast of '{name}'", f"is {events:g}", "Give 0 or more.")
