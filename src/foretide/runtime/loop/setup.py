"""What can be done to a query, for the control loop: from its topology, or from what its first batches showed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from foretide.control.world.setup import OperatorSetup, Setup
from foretide.durations import parse_duration
from foretide.topology.graph import Bolt, Spout, Topology

if TYPE_CHECKING:
    from foretide.metrics.batch import BatchReport
    from foretide.routing.table import RouteTable
    from foretide.spark.executors.executors import Executors
    from foretide.topology.shape import PlanShape


T = TypeVar("T")


def kept_while(same: Callable[[], Hashable], make: Callable[[], T]) -> Callable[[], T]:
    """What `make` makes, made again only once `same` says something else.

    >>> start, makes = [1], iter("ab")
    >>> setup = kept_while(lambda: start[0], lambda: next(makes))
    >>> setup() + setup()
    'aa'
    >>> start[0] = 2
    >>> setup() + setup()
    'bb'
    """
    kept = lru_cache(maxsize=1)(lambda _: make())
    return lambda: kept(same())


def setup_of(
    topology: Topology,
    shape: PlanShape,
    routes: RouteTable,
    levers: Executors,
    trigger: str | None,
    state_partitions: int,
) -> Setup:
    """The setup of a topology. Bolts without an exchange of their own are part of the one before them."""
    chained = {bolt.id for bolt in topology.bolts if any(not source.grouping.exchanges for source in bolt.inputs)}
    stateful = set(shape.behind.values())
    parts = [_spout(spout, levers) for spout in topology.spouts]
    parts += [_bolt(bolt, stateful, routes, state_partitions) for bolt in topology.bolts if bolt.id not in chained]
    flows = {
        (_head(topology, source.component, chained), _head(topology, bolt.id, chained))
        for bolt in topology.bolts
        for source in bolt.inputs
    }
    admitting = frozenset(spout.id for spout in topology.spouts if spout.source.live_admission)
    between = [flow for flow in sorted(flows) if flow[0] != flow[1]]
    return _setup(topology.name, parts, between, levers, trigger, admitting)


def inferred_setup(
    name: str, routes: RouteTable, reports: Iterable[BatchReport], levers: Executors, trigger: str | None
) -> Setup:
    """The setup of a query that was not made from a topology: operators, tasks and flows as Spark showed them."""
    runs = [run for report in reports for run in report.tasks or () if run.operator is not None]
    tasks: dict[str, int] = {}
    for run in runs:
        tasks[str(run.operator)] = max(tasks.get(str(run.operator), 1), (run.task or 0) + 1)
    stateful = {str(run.operator) for run in runs if run.later}
    flows = {(str(run.operator), run.feeds) for run in runs if run.feeds is not None and run.feeds != run.operator}
    names = list(dict.fromkeys([*tasks, *routes.edges]))
    fed = {target for _, target in flows}
    parts = [
        OperatorSetup(
            each,
            routes.edges[each].pool if each in routes.edges else tasks.get(each, 1),
            each if each in routes.edges else None,
            spout=each not in fed and each not in routes.edges,
            stateful=each in stateful,
        )
        for each in names
    ]
    return _setup(name, parts, sorted((a, b) for a, b in flows if b in names), levers, trigger, frozenset())


def _setup(
    name: str,
    parts: list[OperatorSetup],
    flows: Iterable[tuple[str, str]],
    levers: Executors,
    trigger: str | None,
    admitting: frozenset[str],
) -> Setup:
    most = max(levers.most, 1)
    return Setup(
        query=name,
        operators=tuple(parts),
        flows=tuple(flows),
        cores_per_executor=levers.cores,
        executors=(1, most) if levers.can_resize and most > 1 else None,
        trigger=0.0 if trigger is None else parse_duration(trigger),
        can_quarantine=levers.can_quarantine,
        can_admit=admitting,
    )


def _spout(spout: Spout, levers: Executors) -> OperatorSetup:
    return OperatorSetup(spout.id, max(spout.source.partitions or levers.cores, 1), spout=True)


def _bolt(bolt: Bolt, stateful: set[str], routes: RouteTable, state_partitions: int) -> OperatorSetup:
    if bolt.id in stateful:
        return OperatorSetup(bolt.id, state_partitions, stateful=True)
    return OperatorSetup(bolt.id, bolt.pool_size, bolt.id if bolt.id in routes.edges else None)


def _head(topology: Topology, name: str, chained: set[str]) -> str:
    """The operator that a component's tasks are counted under."""
    part = topology.component(name)
    if isinstance(part, Bolt) and name in chained and part.inputs:
        return _head(topology, part.inputs[0].component, chained)
    return name
