"""The graph of a pipeline: rates, utilization, replicas, the bottleneck, and its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from foretide.control.world.setup import OperatorSetup
from foretide.graphs import in_order
from foretide.metrics.from_batch import SLOWNESS
from foretide.metrics.running_tasks import RUNNING_SLOWNESS
from foretide.queueing.model import Mode
from foretide.status.views.seen import Seen

_SLOW = 1.5
_BUSY = 0.5
"""The busiest operator is a bottleneck from this utilization on."""

WorkerState = Literal["in service", "quarantined", "drained", "gone"]


@dataclass(frozen=True, slots=True)
class OperatorView:
    """A spout or bolt.

    Attributes:
        level: How many operators are before it, on the longest way from a spout.
        edge: The edge in front of it whose route can be changed; None if there is none.
        active: Replicas that get tuples, of the `pool`.
        shares: The part of the stream that each replica gets, as published; empty where that cannot be changed.
        workers: The worker of each replica, where they stay in place; None for those that are not known.
        rate: Tuples a second that arrive.
        utilization: Share of time that its active replicas are busy, on average; `capacity` that of the busiest.
    """

    name: str
    spout: bool
    stateful: bool
    level: int
    edge: str | None
    pool: int
    active: int | None
    shares: tuple[float, ...]
    workers: tuple[str | None, ...]
    rate: float | None
    utilization: float | None
    capacity: float | None
    service_ms: float | None
    lag: float | None
    bottleneck: bool
    held: bool


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream from one operator to another: tuples a second, and how uneven its replicas' parts are (1 is even)."""

    source: str
    target: str
    rate: float | None
    utilization: float | None
    skew: float | None


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker. `slowness` is the time that its tasks take over what the same tuples take on average."""

    id: str
    host: str
    state: WorkerState
    slowness: float | None
    slow: bool


@dataclass(frozen=True, slots=True)
class TopologyView:
    """The graph of a pipeline. `mode` is None if nothing but measurements is known of it."""

    at: float
    updated: float | None
    mode: Mode | None
    operators: tuple[OperatorView, ...]
    streams: tuple[StreamView, ...]
    workers: tuple[WorkerView, ...]
    bottleneck: str | None


def topology(seen: Seen) -> TopologyView:
    """The graph of a pipeline."""
    parts, flows = _shape(seen)
    levels = levels_of([part.name for part in parts], flows)
    busiest = _bottleneck(seen, parts)
    operators = tuple(_operator(seen, part, levels[part.name], busiest) for part in parts)
    streams = tuple(_stream(seen, *ends, flows=flows) for ends in flows)
    mode = None if seen.world is None else seen.world.setup.mode
    return TopologyView(seen.at, seen.updated, mode, operators, streams, _workers(seen), busiest)


def _shape(seen: Seen) -> tuple[Sequence[OperatorSetup], Sequence[tuple[str, str]]]:
    """Operators and streams: as the control loop has recorded them, else as far as they were measured."""
    if seen.world is not None:
        return seen.world.setup.operators, seen.world.setup.flows
    pairs = (tuple(each.split("->", 1)) for each in seen.of("flow_fraction"))
    flows = [(pair[0], pair[1]) for pair in pairs if len(pair) > 1]
    pools = {} if seen.routes is None else {name: route.pool for name, route in seen.routes.edges.items()}
    names = dict.fromkeys((*seen.of("arrival_rate"), *seen.of("processed"), *(end for flow in flows for end in flow)))
    targets = {target for _, target in flows}
    parts = [
        OperatorSetup(name, pools.get(name, 1), name if name in pools else None, spout=name not in targets)
        for name in names
    ]
    return parts, flows


def levels_of(names: Sequence[str], flows: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The level of each operator: one behind the last of those before it; feedback does not count.

    >>> levels_of(["read", "work", "join"], [("read", "work"), ("work", "join"), ("read", "join"), ("join", "work")])
    {'read': 0, 'work': 1, 'join': 2}
    """
    before: dict[str, list[str]] = {name: [] for name in names}
    for source, target in flows:
        if source in before and target in before and source != target:
            before[target].append(source)
    ordered = in_order(before)
    ordered += [name for name in names if name not in ordered]
    levels: dict[str, int] = {}
    for name in ordered:
        known = [levels[source] for source in before[name] if source in levels]
        levels[name] = 1 + max(known) if known else int(bool(before[name]))
    return levels


def _bottleneck(seen: Seen, parts: Sequence[OperatorSetup]) -> str | None:
    busy = seen.of("capacity")
    known = {part.name: busy[part.name] for part in parts if part.name in busy}
    busiest = max(known, key=lambda name: known[name], default=None)
    return busiest if busiest is not None and known[busiest] >= _BUSY else None


def _operator(seen: Seen, part: OperatorSetup, level: int, bottleneck: str | None) -> OperatorView:
    route = None if seen.routes is None or part.edge is None else seen.routes.edges.get(part.edge)
    placed = {} if seen.world is None else seen.world.observed.placements
    shares = () if route is None else route.shares
    taken = seen.value("active_tasks", part.name)
    held = {} if seen.state is None else seen.state.held
    hold = held.get(f"edge {part.edge}")
    return OperatorView(
        part.name,
        part.spout,
        part.stateful,
        level,
        part.edge,
        part.pool if route is None else route.pool,
        sum(share > 0 for share in shares) if shares else None if taken is None else int(taken),
        shares,
        placed.get(part.edge or "", ()),
        seen.value("arrival_rate", part.name),
        seen.value("utilization", part.name),
        seen.value("capacity", part.name),
        seen.value("service_time_ms", part.name),
        seen.value("lag", part.name),
        part.name == bottleneck,
        hold is not None and hold.holds(seen.at),
    )


def _stream(seen: Seen, source: str, target: str, flows: Sequence[tuple[str, str]]) -> StreamView:
    fraction, sent = seen.value("flow_fraction", f"{source}->{target}"), seen.value("arrival_rate", source)
    rate = None if fraction is None or sent is None else fraction * sent
    if rate is None and sum(each == target for _, each in flows) == 1:
        rate = seen.value("arrival_rate", target)
    return StreamView(source, target, rate, seen.value("utilization", target), seen.value("skew", target))


def _workers(seen: Seen) -> tuple[WorkerView, ...]:
    slowness = {**seen.of(SLOWNESS), **seen.of(RUNNING_SLOWNESS)}
    hosts = hosts_of(seen)
    names = sorted({*hosts, *slowness}, key=lambda name: (len(name), name))
    return tuple(
        WorkerView(
            name,
            hosts.get(name, ""),
            _state(seen, name, hosts),
            slowness.get(name),
            slowness.get(name, 0.0) >= _SLOW,
        )
        for name in names
    )


def hosts_of(seen: Seen) -> Mapping[str, str]:
    """The machine of each worker."""
    control = None if seen.state is None else seen.state.control
    if control is not None and control.workers:
        return control.workers
    return {} if seen.world is None else seen.world.observed.executors


def _state(seen: Seen, worker: str, hosts: Mapping[str, str]) -> WorkerState:
    if hosts and worker not in hosts:
        return "gone"
    drained = () if seen.state is None else seen.state.drained
    if worker in drained or hosts.get(worker) in drained:
        return "drained"
    out = frozenset() if seen.world is None else seen.world.observed.quarantined
    return "quarantined" if worker in out else "in service"
