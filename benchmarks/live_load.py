"""Replicas under real load, live: a step of the rate, and an hour of tweets in some minutes. Rivals in the same run.

    python -m benchmarks live_load

The bolt waits 4 ms for each tuple, as one that asks another service does, so replicas count and not cores. Static has
as many replicas as the peak needs, from beginning to end.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import foretide as ft
from foretide.apps.experiment import is_over, origin_of, replay_of, taken_by
from foretide.control.actions.registry import SetReplicas
from foretide.control.guards import GuardSettings
from foretide.control.policies.baselines import Reactive, ReactiveSettings
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.runtime.monitoring.tuple_latency import latencies
from foretide.workloads.keyed import Keyed

POOL, EDGE = 12, "ask"
WAIT = 0.004
BUSY = 0.6
GUARDS = GuardSettings(cooldown=5, cooldown_down=10, down_window=20)


def topology(curve: ft.Curve) -> ft.Topology:
    def ask(row: dict[str, Any]) -> Any:
        time.sleep(WAIT)
        yield {"value": row["value"]}

    spout = ft.Spout("lines", ft.Replay(Keyed(seed=1), curve, partitions=1))
    bolt = ft.Bolt(EDGE, ft.PerTuple(ask, "value long"), [ft.From("lines", ft.Dynamic(by=("row",)))], pool=POOL)
    return ft.Topology("load", [spout], [bolt])


def policies(variant: str) -> list[Any]:
    if variant == "replicas, forecast":
        return [Replicas(ReplicaSettings(period=10.0, horizon=10.0, target_utilization=BUSY))]
    if variant == "reactive":
        return [Reactive(ReactiveSettings(target_utilization=BUSY))]
    return ["static"]


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    spark = ft.session(f"local[{POOL + 2}]", "foretide-load", {"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    seconds = 60.0 if quick else 240.0
    step = ft.Curve.steps([(40.0, 200.0), (50.0, 800.0)])
    hour = ft.Curve.from_trace("tweets-goog", seconds=seconds, mean_rate=350.0, first=1500, samples=12)
    with contextlib.suppress(Exception):
        live(spark, ft.Curve.constant(100, 5), "static", 2)  # warms up
    found = {
        f"a step from 200 to 800 rows/s ({needed(200)} replicas, then {needed(800)})": [
            live(spark, step, variant, needed(200), since=40.0, best=needed(800))
            for variant in ("reactive", "replicas, forecast")
        ],
        f"an hour of tweets in {seconds / 60:g} minutes": [
            live(spark, hour, variant, needed(max(hour.rates)))
            for variant in ("static", "reactive", "replicas, forecast")
        ],
    }
    spark.stop()
    return found


def needed(rate: float) -> int:
    """Replicas that are busy for the allowed part of the time at a rate."""
    return min(POOL, int(np.ceil(rate * WAIT / BUSY)))


def live(
    spark: Any, curve: ft.Curve, variant: str, first: int, since: float = 0.0, best: int | None = None
) -> dict[str, Any]:
    """One run: replica-seconds, latency, and the changes that were made."""
    plan_of = topology(curve)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = ft.submit(spark, plan_of, ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint")
        pipeline.activate(EDGE, first)
        controller = ft.control(pipeline, policies(variant), ft.Latency(p99="5s"), settings=ft.Settings(guards=GUARDS))
        plan = replay_of(plan_of)
        while pipeline.running and not is_over(pipeline, plan):
            time.sleep(0.1)
        pipeline.stop()
        pipeline.raise_failure()
        reports = [report for report in list(pipeline.reports) if report.input_rows]
        begun = origin_of(pipeline)
        changes = [
            (decision.at - begun, wish.action.replicas)
            for decision in controller.decisions
            for wish in decision.chosen
            if isinstance(wish.action, SetReplicas)
        ]
        found = np.concatenate([latencies(plan, taken_by(report), report.finished) for report in reports])
        weights = np.concatenate(
            [[report.input_rows / min(report.input_rows, 200)] * min(report.input_rows, 200) for report in reports]
        )
        late = [(at, replicas) for at, replicas in changes if at >= since]
        return {
            "strategy": variant,
            "replica_hours": replica_seconds(first, changes, curve.duration) / 3600,
            "latency_mean_s": float(np.average(found, weights=weights)),
            "latency_p99_s": quantile(found, weights, 0.99),
            "decisions": len(changes),
            "after the step": " ".join(f"{at - since:.1f} s: {replicas}" for at, replicas in late) if best else "-",
            "most replicas over need": max((replicas - best for _, replicas in late), default=0) if best else "-",
            "rows_lost": (plan.total_rows or 0) - pipeline.output(EDGE).count(),
        }


def replica_seconds(first: int, changes: list[tuple[float, int]], end: float) -> float:
    points = [(0.0, first), *changes, (end, 0)]
    return sum((b[0] - a[0]) * a[1] for a, b in pairwise(points))


def quantile(values: Any, weights: Any, level: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, level * below[-1])])
