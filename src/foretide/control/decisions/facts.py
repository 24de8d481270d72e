"""The figures that a decision shows: the query's own, the spouts', and those that the wishes speak of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretide.control.actions.registry import Action, Quarantine, Release, SetReplicas, SetSplit
from foretide.control.decisions.decision import Fact, Wish
from foretide.control.world.world import World
from foretide.metrics.from_tasks import SLOWNESS
from foretide.metrics.snapshot import Key, Known

_QUERY = ("batch", "input_rows_per_second", "processed_rows_per_second", "batch_duration_ms", "latency_mean_ms",
          "latency_p99_ms", "total_lag")  # fmt: skip
_SPOUT = ("arrival_rate", "lag")
_OPERATOR = ("arrival_rate", "service_time_ms", "utilization")
_WORKER = (SLOWNESS, "worker_tuple_execution_time_ms", "worker_inbound_queuing_time_ms", "worker_cpu_wait_percent")


def seen(world: World, wishes: Sequence[Wish]) -> tuple[Fact, ...]:
    """What was looked at, where it is known."""
    known = ((key, world.snapshot.figure(*key)) for key in _keys(world, wishes))
    return tuple(Fact(*key, figure.value, figure.age) for key, figure in known if isinstance(figure, Known))


def foreseen(world: World, wishes: Sequence[Wish]) -> tuple[Fact, ...]:
    """Forecasts of the same figures that had a vote, at their farthest horizon."""
    outlooks = ((key, world.foresight.vote(*key)) for key in _keys(world, wishes))
    return tuple(
        Fact(*key, outlook.points[-1].mean, by=outlook.by, ahead=outlook.points[-1].seconds)
        for key, outlook in outlooks
        if outlook is not None
    )


def _keys(world: World, wishes: Sequence[Wish]) -> list[Key]:
    keys: list[Key] = [(metric, world.snapshot.query) for metric in _QUERY]
    keys += [(metric, spout) for spout in world.setup.spouts for metric in _SPOUT]
    keys += [key for wish in wishes for key in _about(wish.action, world)]
    return list(dict.fromkeys(keys))


def _about(action: Action, world: World) -> Iterator[Key]:
    match action:
        case SetReplicas(edge) | SetSplit(edge) if edge in world.setup.by_edge:
            name = world.setup.by_edge[edge].name
            yield from ((metric, name) for metric in _OPERATOR)
        case Quarantine(worker) | Release(worker):
            yield from ((metric, worker) for metric in _WORKER)
