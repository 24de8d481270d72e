"""Worlds made by hand: a spout, two bolts, four workers on two hosts."""

from typing import Any

from foretide.control.world.setup import Observed, OperatorSetup, Setup
from foretide.control.world.world import World
from foretide.metrics.snapshot import Snapshot

SETUP = Setup(
    "q",
    (
        OperatorSetup("read", pool=4, spout=True),
        OperatorSetup("parse", pool=16, edge="parse"),
        OperatorSetup("count", pool=16, edge="count"),
    ),
    flows=(("read", "parse"), ("parse", "count")),
    cores_per_executor=4,
    executors=(1, 8),
    can_admit=frozenset({"read"}),
)
WORKERS = {"0": "h0", "1": "h0", "2": "h1", "3": "h1"}


def even(replicas: int, pool: int = 16) -> tuple[float, ...]:
    return (1.0,) * replicas + (0.0,) * (pool - replicas)


def observed(parse: int = 4, count: int = 4, **more: Any) -> Observed:
    options = {"routes": {"parse": even(parse), "count": even(count)}, "executors": WORKERS, **more}
    return Observed(**options)


def figures(at: float, **values: float | dict[str, float]) -> dict[tuple[str, str], tuple[float, float]]:
    """`latency_p99_ms=5` speaks of the query, `arrival_rate={"read": 5}` of its subjects."""
    made = {}
    for metric, value in values.items():
        for subject, number in (value if isinstance(value, dict) else {"q": value}).items():
            made[metric, subject] = (float(number), at)
    return made


def world(at: float = 1000.0, *, seen: Observed | None = None, setup: Setup = SETUP, **values: Any) -> World:
    options = {
        name: values.pop(name) for name in ("forecasts", "target", "orders", "requested", "held") if name in values
    }
    values.setdefault("batch", int(at))
    snapshot = Snapshot(at, "q", figures(at, **values))
    return World(setup, snapshot, seen or observed(), **options)


def loaded(rate: float = 1000.0, *, service_ms: float = 2.0, at: float = 1000.0, **values: Any) -> World:
    """A world in which every figure that planning reads is known."""
    known: dict[str, Any] = {
        "arrival_rate": {"read": rate, "parse": rate, "count": rate},
        "service_time_ms": {"read": 0.01, "parse": service_ms, "count": service_ms},
        "service_scv": dict.fromkeys(("read", "parse", "count"), 1.0),
        "arrival_scv": dict.fromkeys(("read", "parse", "count"), 1.0),
        "flow_fraction": {"read->parse": 1.0, "parse->count": 1.0},
        "processed": {"read": rate, "parse": rate, "count": rate},
        "latency_mean_ms": 1500.0,
        "latency_p99_ms": 2500.0,
        "batch_duration_ms": 1000.0,
        "input_rows": rate,
        "input_rows_per_second": rate,
        "processed_rows_per_second": rate,
        "capacity": {"read": 0.01, "parse": 0.3, "count": 0.3},
        "utilization": {"read": 0.01, "parse": 0.3, "count": 0.3},
        "lag": {"read": 0.0},
    }
    return world(at, **{**known, **values})
