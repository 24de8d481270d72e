"""Replicas under real load, live: a step of the rate, an hour of tweets in some minutes, and two days in ten.

    python -m benchmarks live_load

The two days are those of the taxi counts, after the two days before them were handed in as history. The same load runs
with forecasts, without (reactive), and with the load known in advance, side by side.

The bolt waits 4 ms for each tuple, as one that asks another service does, so replicas count and not cores. Static has
as many replicas as the peak needs, from beginning to end.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import foretide as ft
from foretide.apps import foresight
from foretide.apps.experiment import is_over, origin_of, replay_of, taken_by
from foretide.control.actions.registry import SetReplicas
from foretide.control.guards import GuardSettings
from foretide.control.policies.baselines import Reactive, ReactiveSettings
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.runtime.monitoring.tuple_latency import latencies
from foretide.workloads.keyed import Keyed
from foretide.workloads.traces import load_trace

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


def run(*, quick: bool, folder: Path) -> dict[str, Any]:
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
    found["two days in ten minutes, after two days of history"] = two_days(folder, quick=quick)
    return found


DAY_SAMPLES, FIRST, MEAN_RATE = 48, 480, 400.0


@dataclass(frozen=True)
class Known:
    """Replicas for the load that is going to come: what no forecast can beat."""

    curve: ft.Curve
    origin: float
    name: str = "known"

    def start(self) -> float:
        return 0.0

    def wish(self, state: float, world: ft.World) -> tuple[float, list[ft.Wish]]:
        if world.at < state + 4.0:
            return state, []
        now = world.at - self.origin
        ahead = np.arange(now, now + foresight.AHEAD_SECONDS)
        most = max(rate_at(self.curve, at) for at in ahead.tolist())
        return world.at, [ft.Wish(self.name, SetReplicas(foresight.EDGE, foresight.needed(most)), "it is known")]


def rate_at(curve: ft.Curve, at: float) -> float:
    place = int(np.searchsorted(np.cumsum(curve.seconds), at, side="right"))
    return curve.rates[min(place, len(curve.rates) - 1)]


def two_days(folder: Path, *, quick: bool) -> list[dict[str, Any]]:
    seconds = 120.0 if quick else 600.0
    values = load_trace("taxi").values[FIRST : FIRST + 4 * DAY_SAMPLES]
    rates = (values / values.mean() * MEAN_RATE).tolist()
    each = seconds / (2 * DAY_SAMPLES)
    before, curve = (
        ft.Curve.steps([(each, rate) for rate in part]) for part in (rates[: 2 * DAY_SAMPLES], rates[2 * DAY_SAMPLES :])
    )
    spark = ft.session(f"local[{3 * foresight.POOL + 4}]", "foretide-days", {"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    first = foresight.needed(curve.rates[0])
    runs = [foresight.start(spark, folder, name, curve, first) for name in (foresight.WITHOUT, foresight.WITH, "known")]
    for run in runs:
        origin = origin_of(run.pipeline)
        samples = [(origin + at, rate_at(before, at + seconds + 0.5)) for at in np.arange(-seconds, 0.0).tolist()]
        history = [str(foresight.write_history(samples, folder / "history.json"))]
        policy = Known(curve, origin) if run.name == "known" else foresight.policy()
        foresees = run.name == foresight.WITH
        foresight.attach(run, policy, forecasts=foresees, history=history if foresees else None, say=lambda _: None)
    while not all(run.over for run in runs):
        time.sleep(0.1)
    sides = [foresight.end(run) for run in runs]
    spark.stop()
    return [
        {
            "strategy": side.name, "latency_p99_s": side.p99, "replica_seconds": side.replica_seconds,
            "changes": len(side.changes), "caused by forecasts": sum(change.foreseen for change in side.changes),
            "rows_lost": side.rows_lost,
        }
        for side in sides
    ]  # fmt: skip


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
