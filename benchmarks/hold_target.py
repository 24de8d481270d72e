"""Holding a latency target with executors that come and go, live, with rivals and static choices in the same run.

    python -m benchmarks hold_target
    HOLD_TARGET_FORM=short python -m benchmarks hold_target
    HOLD_TARGET_SECONDS=60 HOLD_TARGET_STRATEGIES=foretide,reactive python -m benchmarks hold_target

The first takes more than an hour, ten minutes for each strategy; the short form about ten minutes, 50 s for each.
`HOLD_TARGET_STRATEGIES` names some, separated by commas: `2 executors`, ..., `dynamic allocation`, `reactive`,
`foretide`. Six executors always run.

The bolt waits for each row, as one that asks another service does, so that six executors are real on two cores. The
load doubles, halves and wanders. The target is 1.5 times the least 99th percentile of all numbers of executors that
stay, at the same load. Each second is held if 99 % of the tuples that were due in it were committed within the target.

What a batch costs is learnt with one, two and three executors first, and compared with every batch after that, those of
six executors with more load than they can carry among them.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import foretide as ft
from benchmarks.hold_target_model import Observing, learnt_from, model_errors
from benchmarks.slow_worker import chosen
from foretide.apps.experiment import is_over, origin_of, replay_of, taken_by
from foretide.control.actions.registry import SetExecutors, SetReplicas
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.world import World
from foretide.queueing.learned_batches import BatchObservation, learn
from foretide.runtime.monitoring.tuple_latency import latencies
from foretide.workloads.keyed import Keyed

EXECUTORS, EDGE, WAIT_MS = 6, "ask", 12
BASE_RATE = 60.0
TRIGGER = 0.2
MASTER = f"local-cluster[{EXECUTORS},1,640]"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.locality.wait": "0",
}
DYNAMIC = "dynamic allocation"
DYNAMIC_ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "10s",
    "spark.dynamicAllocation.executorIdleTimeout": "10s",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": str(EXECUTORS),
}
FORETIDE = "foretide"
STATICS = tuple(f"{count} executors" for count in range(2, EXECUTORS + 1))
STRATEGIES = (*STATICS, DYNAMIC, "reactive", FORETIDE)
STATIC: list[Any] = ["static", Observing()]
LEARNT = {1: 25.0, 2: 60.0, 3: 90.0}
"""Rows a second that so many executors learn with, at most."""

_WARM_SECONDS = 25.0
_OVERLOAD = 1.3
_HELD = 0.95
_SECONDS = {"full": (600.0, 60.0), "short": (50.0, 15.0)}
_QUICK = (STATICS[-2], FORETIDE)


def load(seconds: float, seed: int = 5) -> ft.Curve:
    """A quarter of the time each: the base rate, twice as much, the base rate again, and a slow wander."""
    rng = np.random.default_rng(seed)
    noise, rates = 0.0, []
    for second in range(int(seconds)):
        part = int(4 * second / seconds)
        level = (1.0, 2.0, 1.0, 1.4 + 0.6 * math.sin(8 * math.pi * second / seconds))[part]
        noise = 0.9 * noise + rng.normal(0, 0.02)
        rates.append(BASE_RATE * level * (1 + noise))
    return ft.Curve.steps([(1.0, rate) for rate in rates])


def topology(curve: ft.Curve) -> ft.Topology:
    wait = f"java_method('java.lang.Thread', 'sleep', {WAIT_MS}L)"

    def ask(rows: Any) -> Any:
        return rows.selectExpr("row", "value", f"coalesce({wait}, 'none') AS answer")

    spout = ft.Spout("lines", ft.Replay(Keyed(seed=1), curve, partitions=1))
    bolt = ft.Bolt(EDGE, ask, [ft.From("lines", ft.Dynamic(by=("row",)))], pool=EXECUTORS)
    return ft.Topology("hold", [spout], [bolt])


@dataclass(frozen=True)
class ReactiveExecutors:
    """The rule of the Horizontal Pod Autoscaler on executors: as many as bring their utilization to its target."""

    utilization: float = 0.7
    period: float = 15.0
    down_window: float = 60.0
    name: str = "reactive executors"

    def start(self) -> tuple[float, tuple[tuple[float, int], ...]]:
        return -math.inf, ()

    def wish(self, state: Any, world: World) -> tuple[Any, list[Wish]]:
        decided, recommended = state
        present = len(world.observed.executors)
        shares = [world.snapshot.value("utilization", part.name) for part in world.setup.operators]
        active = [world.snapshot.value("active_tasks", part.name) for part in world.setup.operators]
        expected = Expectation("", "utilization")
        replicas = [Wish(self.name, SetReplicas(EDGE, present), "one for each executor", expected)]
        if world.at - decided < self.period or None in shares or None in active:
            return state, replicas
        busy = sum((a or 0) * (b or 0) for a, b in zip(shares, active, strict=True)) / present
        wanted = present if abs(busy / self.utilization - 1) <= 0.1 else math.ceil(present * busy / self.utilization)
        kept = (*(each for each in recommended if each[0] > world.at - self.down_window), (world.at, max(wanted, 1)))
        count = wanted if wanted >= present else min(present, max(each for _, each in kept))
        wish = Wish(self.name, SetExecutors(max(count, 1)), f"busy {busy:.0%}", expected)
        return (world.at, kept), [wish, *replicas]


def varied(rate: float, seconds: float) -> ft.Curve:
    """Half a rate and all of it in turns, so that what a row costs can be told from what a batch costs."""
    return ft.Curve.steps([(1.0, rate if int(second / 3) % 2 else rate / 2) for second in range(int(seconds))])


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    form = chosen("HOLD_TARGET_FORM", ("short" if quick else "full",), tuple(_SECONDS))[0]
    seconds, learning = _SECONDS[form]
    seconds = float(os.environ.get("HOLD_TARGET_SECONDS") or seconds)
    names = {STATICS[-1], *chosen("HOLD_TARGET_STRATEGIES", _QUICK if quick else STRATEGIES, STRATEGIES)}
    wanted = [name for name in STRATEGIES if name in names]
    curve, runs = load(seconds), dict[str, Outcome]()
    with spark_session() as spark:
        live(spark, ft.Curve.constant(BASE_RATE, _WARM_SECONDS), STATIC, EXECUTORS, EXECUTORS)
        learned = learnt_from(
            [live(spark, varied(rate, learning), STATIC, count, count).batches for count, rate in LEARNT.items()]
        )
        if learned is None:
            raise SystemExit("too few batches to learn from: set HOLD_TARGET_FORM=full")
        for name in (each for each in wanted if each in STATICS):
            runs[name] = live(spark, curve, STATIC, int(name[0]), int(name[0]))
        target = 1.5 * min(outcome.p99 for outcome in runs.values())
        for name in (each for each in wanted if each not in {*STATICS, DYNAMIC}):
            runs[name] = live(spark, curve, policies_of(name, target), 1, EXECUTORS, target)
        rate = _OVERLOAD * learned.model(EXECUTORS, {EDGE: EXECUTORS}).highest_rate
        crowded = live(spark, ft.Curve.constant(rate, learning), STATIC, EXECUTORS, EXECUTORS)
    if DYNAMIC in wanted:
        with spark_session(DYNAMIC_ALLOCATION) as spark:
            live(spark, ft.Curve.constant(BASE_RATE, _WARM_SECONDS), STATIC, 1, EXECUTORS)
            runs[DYNAMIC] = live(spark, curve, STATIC, 1, EXECUTORS, target)
    measured = {name: outcome.batches for name, outcome in runs.items()}
    measured[f"{EXECUTORS} executors, {rate:.0f} rows/s"] = crowded.batches
    return {
        f"p99 below {target:.2f} s over {seconds:.0f} s": [runs[name].row(name, target) for name in wanted],
        "batches by what one to three executors showed": model_errors(learned, measured),
        **(compared(runs, curve, target) if FORETIDE in runs else {}),
    }


def compared(runs: Mapping[str, Outcome], curve: ft.Curve, target: float) -> dict[str, Any]:
    """What Foretide used beside the cheapest number of executors that holds, and beside a clairvoyant."""
    ours = runs[FORETIDE]
    holding = [runs[name] for name in STATICS if name in runs and runs[name].held(target) >= _HELD]
    others = {
        f"the cheapest number that holds in {_HELD:.0%} of the seconds": min(
            (each.executor_seconds for each in holding), default=math.nan
        ),
        "a clairvoyant, by the model that was learnt": clairvoyant(ours.batches, curve, target),
    }
    return {
        "executor-seconds of foretide": [
            {"beside": name, "executor_seconds": used, "foretide": ours.executor_seconds / used}
            for name, used in others.items()
        ],
        "decisions of foretide": "; ".join(ours.said),
    }


def policies_of(name: str, target: float) -> list[Any]:
    """The policies of a strategy that changes the number of executors."""
    if name == "reactive":
        return [ReactiveExecutors(), Observing()]
    return [*ft.Settings().for_query(ft.Latency(p99=target)).control.policies, Observing()]


def clairvoyant(batches: Sequence[BatchObservation], curve: ft.Curve, target: float) -> float:
    """Executor-seconds of the fewest executors that hold the target in each second, known beforehand."""
    learned = learn(batches)
    if learned is None:
        return math.nan

    def holds(count: int, rate: float) -> bool:
        model = learned.model(count, {EDGE: count}, trigger=TRIGGER)
        return rate < model.highest_rate and model.steady(rate).latency(0.99) <= target

    return float(sum(next((n for n in range(1, EXECUTORS) if holds(n, rate)), EXECUTORS) for rate in curve.rates))


@contextlib.contextmanager
def spark_session(more: Mapping[str, str] | None = None) -> Iterator[Any]:
    spark = ft.session(MASTER, "foretide-hold", SETTINGS | dict(more or {}))
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


@dataclass
class Outcome:
    """What one run showed: latency of each tuple by the second it was due in, executors over time, decisions."""

    due: np.ndarray
    latency: np.ndarray
    executors: list[tuple[float, int]]
    changes: int
    said: list[str]
    lost: int
    batches: Sequence[BatchObservation] = ()

    @property
    def p99(self) -> float:
        return float(np.quantile(self.latency, 0.99))

    @property
    def executor_seconds(self) -> float:
        return sum((later[0] - earlier[0]) * earlier[1] for earlier, later in pairwise(self.executors))

    def held(self, target: float) -> float:
        """Share of the seconds in which 99 % of the tuples that were due kept to the target."""
        seconds = self.due.astype(int)
        found = [np.quantile(self.latency[seconds == second], 0.99) for second in np.unique(seconds)]
        return float(np.mean(np.array(found) <= target))

    def row(self, name: str, target: float) -> dict[str, Any]:
        return {
            "strategy": name,
            "seconds_held": f"{self.held(target):.1%}",
            "executor_seconds": self.executor_seconds,
            "p50_s": float(np.quantile(self.latency, 0.5)),
            "p99_s": self.p99,
            "changes of executors": self.changes,
            "rows_lost": self.lost,
        }


def live(spark: Any, curve: ft.Curve, policies: Any, least: int, most: int, target: float | None = None) -> Outcome:
    """One run under a loop with a range of executors."""
    plan = topology(curve)
    with tempfile.TemporaryDirectory() as folder:
        settings = ft.RunSettings(trigger=f"{TRIGGER} seconds")
        pipeline = ft.submit(spark, plan, ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint", settings)
        held = None if target is None else ft.Latency(p99=target)
        controller = ft.control(pipeline, policies, held, min_executors=least, max_executors=most)
        if policies is STATIC:
            pipeline.activate(EDGE, most)
        source, seen = replay_of(plan), _Count(spark)
        while pipeline.running and not is_over(pipeline, source):
            time.sleep(0.2)
        pipeline.stop()
        pipeline.raise_failure()
        counted = seen.stop()
        return outcome(pipeline, controller, source, counted)


def outcome(pipeline: Any, controller: Any, source: Any, counted: list[tuple[float, int]]) -> Outcome:
    reports = [report for report in list(pipeline.reports) if report.input_rows]
    begun = origin_of(pipeline)
    parts = [(report, latencies(source, taken_by(report), report.finished)) for report in reports]
    values = np.concatenate([np.repeat(found, max(1, round(r.input_rows / len(found)))) for r, found in parts])
    due = np.concatenate(
        [np.repeat(r.finished - begun - found, max(1, round(r.input_rows / len(found)))) for r, found in parts]
    )
    made = [
        (decision.at - begun, wish)
        for decision in controller.decisions
        for wish in decision.chosen
        if isinstance(wish.action, SetExecutors)
    ]
    said = [f"{at:.0f} s: {wish.action.describe()} ({wish.reason})" for at, wish in made]
    lost = (source.total_rows or 0) - pipeline.output(EDGE).count()
    executors = [(at - begun, count) for at, count in counted if at >= begun]
    return Outcome(due, values, executors, len(made), said, lost, controller.state.policies["observing"])


class _Count(threading.Thread):
    """Counts the executors of the application twice a second."""

    def __init__(self, spark: Any) -> None:
        super().__init__(daemon=True)
        self._jvm, self._done, self._found = spark.sparkContext._jsc.sc(), threading.Event(), []
        self.start()

    def run(self) -> None:
        while not self._done.wait(0.5):
            with contextlib.suppress(Exception):
                self._found.append((time.time(), self._jvm.getExecutorMemoryStatus().size() - 1))

    def stop(self) -> list[tuple[float, int]]:
        self._done.set()
        self.join()
        return self._found
