"""The same load twice, at the same time: with forecasts from a history that was handed in, and without any.

The load is a wave that its history knows. The operator waits for each tuple, as one does that asks another service, so
replicas count and not cores.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from foretide.apps.experiment import is_over, origin_of, replay_of, taken_by
from foretide.control.actions.registry import SetReplicas
from foretide.control.guards import GuardSettings
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.runtime.loop.attach import control
from foretide.runtime.monitoring.tuple_latency import latencies
from foretide.runtime.pipeline.submit import submit
from foretide.settings.settings import Settings
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import Dynamic
from foretide.topology.sinks import Parquet
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.keyed import Keyed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from foretide.control.step import Policy
    from foretide.runtime.loop.controller import Controller
    from foretide.runtime.pipeline.submit import Pipeline

SPOUT, EDGE = "requests", "ask"
WITH, WITHOUT = "forecasts on", "forecasts off"
POOL = 8
WAIT_SECONDS = 0.004
BUSY = 0.6
AHEAD_SECONDS = 8.0
_GUARDS = GuardSettings(cooldown=2, cooldown_down=8, down_window=10)
_POLL_SECONDS = 0.1
FORESEEN_SECONDS = 10.0
"""How far ahead the forecast is drawn: the horizon next to `AHEAD_SECONDS`."""


@dataclass(frozen=True)
class Wave:
    """A load that is low and then high, again and again."""

    low: float = 100.0
    high: float = 600.0
    quiet: float = 28.0
    busy: float = 12.0
    waves: int = 3

    @property
    def period(self) -> float:
        """Seconds from one wave to the next."""
        return self.quiet + self.busy

    @property
    def seconds(self) -> float:
        """The length of the whole load."""
        return self.waves * self.period

    @property
    def rises(self) -> tuple[float, ...]:
        """When the load becomes high, in seconds of the load."""
        return tuple(wave * self.period + self.quiet for wave in range(self.waves))

    def curve(self) -> Curve:
        """The load to replay."""
        return Curve.steps([(self.quiet, self.low), (self.busy, self.high)] * self.waves)

    def before(self, origin: float, seconds: float) -> list[tuple[float, float]]:
        """The load of each second before the first one, as if the waves had gone on for ever."""
        moments = np.arange(-seconds, 0.0)
        return [(origin + at, self.rate(at + 0.5)) for at in moments.tolist()]

    def rate(self, at: float) -> float:
        """Rows a second at a time, before the first wave as well."""
        return self.high if at % self.period >= self.quiet else self.low


@dataclass(frozen=True)
class Change:
    """A change of the replicas: when, in seconds of the load, to how many, why, and whether a forecast caused it."""

    at: float
    replicas: int
    foreseen: bool
    reason: str


@dataclass(frozen=True)
class Side:
    """One of the two runs.

    Attributes:
        batches: When each batch ended, its rows, and the p99 latency of its tuples, in seconds.
        foreseen: For times of the load, the 80 % interval that was forecast some seconds before.
        first: The replicas at the start.
    """

    name: str
    batches: tuple[tuple[float, int, float], ...]
    p99: float
    replica_seconds: float
    rows_lost: int
    changes: tuple[Change, ...]
    effects: tuple[str, ...] = ()
    foreseen: tuple[tuple[float, float, float], ...] = ()
    first: int = 1

    def increase_for(self, rise: float, wave: Wave) -> Change | None:
        """The first increase for a wave, from the end of the one before it on."""
        replicas, found = needed(wave.low), None
        for change in self.changes:
            inside = rise - wave.quiet + AHEAD_SECONDS < change.at < rise + wave.busy
            if inside and change.replicas > replicas and found is None:
                found = change
            replicas = change.replicas
        return found


def needed(rate: float) -> int:
    """Replicas that are busy for the allowed part of the time at a rate."""
    return min(POOL, max(1, int(np.ceil(rate * WAIT_SECONDS / BUSY))))


def build(curve: Curve, name: str) -> Topology:
    """A source and an operator that waits."""
    spout = Spout(SPOUT, Replay(Keyed(seed=1), curve, partitions=1))
    return Topology(name, [spout], [Bolt(EDGE, waiting, [From(SPOUT, Dynamic(by=("row",)))], pool=POOL)])


def waiting(frame: DataFrame) -> DataFrame:
    """Wait for each row without a processor."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - Spark's own name for it

    nanos = round(WAIT_SECONDS * 1e9)
    wait = F.expr(f"coalesce(reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', {nanos}L), '')")
    waited = F.concat(F.col("row").cast("string"), wait)  # followed by "null", as the method returns nothing
    return frame.select(F.regexp_extract(waited, "^[0-9]+", 0).cast("long").alias("row"))


def policy(*, ahead: float = AHEAD_SECONDS) -> Policy[Any]:
    """Replicas for the load that is expected within some seconds."""
    return Replicas(ReplicaSettings(period=4.0, horizon=ahead, target_utilization=BUSY, restart_horizon=None))


def settings(*, forecasts: bool) -> Settings:
    """With forecasts of every source, or of none."""
    chosen = Settings(guards=_GUARDS)
    quiet = replace(chosen.forecasts, workers=False, spouts=None if forecasts else ())
    return replace(chosen, forecasts=quiet)


def write_history(samples: Sequence[tuple[float, float]], file: Path) -> Path:
    """A history as Prometheus gives it: what `--history` takes."""
    series = {"metric": {"__name__": "arrival_rate", "subject": SPOUT}, "values": list(samples)}
    file.write_text(json.dumps({"data": {"resultType": "matrix", "result": [series]}}), encoding="utf-8")
    return file


@dataclass
class _Run:
    name: str
    pipeline: Pipeline
    curve: Curve
    first: int
    controller: Controller | None = None
    foreseen: list[tuple[float, float, float]] = field(default_factory=list)

    def look_ahead(self, now: float) -> None:
        """Note, once a second, what is forecast."""
        at = now - origin_of(self.pipeline) + FORESEEN_SECONDS
        if self.foreseen and at < self.foreseen[-1][0] + 1.0:
            return
        found = None if self.controller is None else self.controller.forecast("arrival_rate", SPOUT)
        for point in () if found is None else found.points:
            if point.seconds == FORESEEN_SECONDS:
                self.foreseen.append((at, point.quantiles[0.1], point.quantiles[0.9]))

    @property
    def over(self) -> bool:
        return not self.pipeline.running or is_over(self.pipeline, replay_of(self.pipeline.topology))

    def side(self) -> Side:
        """What came of it."""
        origin, plan = origin_of(self.pipeline), replay_of(self.pipeline.topology)
        reports = [report for report in list(self.pipeline.reports) if report.input_rows]
        found = [latencies(plan, taken_by(report), report.finished) for report in reports]  # type: ignore[arg-type]
        known = [np.zeros(1) if each is None else each for each in found]
        rows = [report.input_rows for report in reports]
        weights = [np.full(len(each), count / len(each)) for each, count in zip(known, rows, strict=True)]
        batches = tuple(
            (report.finished - origin, report.input_rows, float(np.quantile(each, 0.99)))
            for report, each in zip(reports, known, strict=True)
        )
        changes = changes_of(self.controller, origin)
        effects = () if self.controller is None else effects_of(self.controller)
        lost = (plan.total_rows or 0) - self.pipeline.output(EDGE).count()
        paid = replica_seconds(self.first, changes, self.curve.duration)
        return Side(
            self.name, batches, weighted_quantile(np.concatenate(known), np.concatenate(weights), 0.99), paid, lost,
            changes, effects, tuple(self.foreseen), self.first,
        )  # fmt: skip


def run_both(
    spark: SparkSession, folder: Path, wave: Wave, say: Callable[[str], None], waves_before: int = 9
) -> tuple[Side, Side]:
    """Run the load without forecasts and with them, side by side."""
    runs = [start(spark, folder, name, wave.curve(), needed(wave.low)) for name in (WITHOUT, WITH)]
    for run in runs:
        history = None
        if run.name == WITH:
            samples = wave.before(origin_of(run.pipeline), waves_before * wave.period)
            history = [str(write_history(samples, folder / "history.json"))]
            say(f"history handed in: {len(samples):,} s of the load before the start")
        attach(run, policy(), forecasts=run.name == WITH, history=history, say=say)
    while not all(run.over for run in runs):
        for run in runs:
            run.look_ahead(time.time())
        time.sleep(_POLL_SECONDS)
    off, on = (end(run) for run in runs)
    return off, on


def start(spark: SparkSession, folder: Path, name: str, curve: Curve, first: int) -> _Run:
    """Start a pipeline with so many active replicas, and wait until its load has begun."""
    topology = build(curve, name.replace(" ", "-"))
    where = folder / topology.name
    pipeline = submit(spark, topology, Parquet(str(where / "out")), str(where / "checkpoint"))
    pipeline.activate(EDGE, first)
    while pipeline.running and not pipeline.reports:
        time.sleep(_POLL_SECONDS)
    pipeline.raise_failure()
    return _Run(name, pipeline, curve, first)


def attach(
    run: _Run, chosen: Policy[Any], *, forecasts: bool, history: Sequence[str] | None, say: Callable[[str], None]
) -> None:
    """Attach a control loop that tells what it changes."""
    run.controller = control(run.pipeline, [chosen], settings=settings(forecasts=forecasts), history=history)
    origin = origin_of(run.pipeline)

    def tell(decision: Any) -> None:
        for wish in decision.chosen:
            say(f"t={decision.at - origin:5.1f} s  {run.name}: {wish.action.describe()}: {wish.reason}")

    run.controller.on_decision(tell)


def end(run: _Run) -> Side:
    """Stop the pipeline, and tell what came of it."""
    run.pipeline.stop()
    run.pipeline.raise_failure()
    return run.side()


def changes_of(controller: Controller | None, origin: float) -> tuple[Change, ...]:
    """The changes of the replicas in order."""
    return tuple(
        Change(decision.at - origin, wish.action.replicas, wish.foreseen is not None, wish.reason)
        for decision in (() if controller is None else controller.decisions)
        for wish in decision.chosen
        if isinstance(wish.action, SetReplicas)
    )


def effects_of(controller: Controller) -> tuple[str, ...]:
    """What came of decisions that a forecast caused, in words."""
    decisions = [each for each in controller.decisions if any(wish.foreseen is not None for wish in each.chosen)]
    return tuple(f"decision {each.id}: {each.effect.words}" for each in decisions if each.effect is not None)


def replica_seconds(first: int, changes: Sequence[Change], until: float) -> float:
    """Replicas times the seconds for which they were active."""
    inside = [(change.at, change.replicas) for change in changes if 0 <= change.at < until]
    points = [(0.0, first), *inside, (until, 0)]
    return sum((later[0] - sooner[0]) * sooner[1] for sooner, later in pairwise(points))


def weighted_quantile(values: Any, weights: Any, level: float) -> float:
    """The smallest value that a share of the weight does not exceed."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, level * below[-1])])


def to_data(side: Side, wave: Wave) -> dict[str, Any]:
    """A side as plain values, with the first increase for each wave."""
    increases = [side.increase_for(rise, wave) for rise in wave.rises]
    return {
        "run": side.name, "p99_seconds": side.p99, "replica_seconds": side.replica_seconds, "rows_lost": side.rows_lost,
        "increases": [
            {"rise": rise, **({} if each is None else asdict(each))}
            for rise, each in zip(wave.rises, increases, strict=True)
        ],
        "effects": list(side.effects),
    }  # fmt: skip
