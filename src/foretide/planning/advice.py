"""Advice: what a person could change in a query, and what that would save.

It is about what the control loop cannot change while the query runs: edges in its plan, settings from before the
session's start, options of its sources. Every figure follows from what was measured (`stage_costs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foretide.formatting import format_duration, format_number

if TYPE_CHECKING:
    from foretide.planning.stage_costs import MeasuredQuery

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
LOCALITY_WAIT = "spark.locality.wait"
STATELESS_AQE = "spark.sql.adaptive.streaming.stateless.enabled"
STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_TASKS_PER_CORE = 2
_PARTITION_BYTES = 128 * 2**20
_MIN_SECONDS = 0.02
_MIN_SHARE = 0.05
"""Advice that saves less than this, or this share of a batch, is not given."""

_SKEWED = 2.0
_MIN_GROWTH = 2.0
_STATE_OF_HEAP = 0.25
_ROOM = 1.25
_THIRDS = 3
_HUNDRED = 100


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change.

    Attributes:
        subject: What it is about, such as `shuffle partitions`.
        sentence: What was measured, and what a change would save.
        seconds: Seconds by which a batch, or the latency of its rows, would be shorter; None if that is not the gain.
        share: The gain as a share of what there is now.
        how: How to change it.
    """

    subject: str
    sentence: str
    seconds: float | None
    share: float | None
    how: str


@dataclass(frozen=True, slots=True)
class QueryEnvironment:
    """What is set, as far as it is known.

    Attributes:
        executors: Executors that work; 1 in local mode.
        trigger: Seconds between two batches; None if batches have no interval.
        settings: Values of Spark's settings.
        unlimited: Sources that take all there is in one batch, with the option that would limit them.
        python: Whether the first stage runs Python.
        heap_bytes: Memory of all executors.
        latency_target: The target of the control loop, in seconds.
    """

    executors: int = 1
    trigger: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    unlimited: tuple[str, ...] = ()
    python: bool = False
    heap_bytes: float | None = None
    latency_target: float | None = None


Rule = Callable[["MeasuredQuery", QueryEnvironment], Iterator[Advice]]


def advise(measured: MeasuredQuery, environment: QueryEnvironment) -> list[Advice]:
    """All advice that pays, that which saves most first."""
    found = [each for rule in RULES for each in rule(measured, environment) if _pays(each)]
    return sorted(found, key=lambda each: -(each.seconds or 0.0))


def _pays(advice: Advice) -> bool:
    if advice.seconds is None:
        return True
    return advice.seconds >= _MIN_SECONDS and (advice.share or 0.0) >= _MIN_SHARE


def shuffle_partitions(measured: MeasuredQuery, environment: QueryEnvironment) -> Iterator[Advice]:
    """More partitions than cores need cost a fixed time each; fewer leave cores idle."""
    stages = [stage for stage in measured.stages if stage.shuffled and not stage.routed]
    for tasks in sorted({stage.tasks for stage in stages}):
        alike = [stage for stage in stages if stage.tasks == tasks]
        cores = max(1, alike[0].cores)
        volume = math.ceil(max(stage.bytes for stage in alike) / _PARTITION_BYTES)
        better = max(_TASKS_PER_CORE * cores, volume)
        saved = math.fsum(stage.seconds(tasks) - stage.seconds(better) for stage in alike)
        cost = math.fsum(stage.task_cost * tasks / min(cores, tasks) for stage in alike)
        if tasks > better:
            what = f"cost {format_duration(cost)} a batch: {better} would save {format_duration(saved)}"
        elif tasks < cores:
            what = f"leave cores idle: {better} would save {format_duration(saved)} a batch"
        else:
            continue
        yield Advice(
            "shuffle partitions",
            f"{tasks} shuffle partitions on {cores} cores {what}",
            saved,
            saved / measured.duration,
            _how_partitions(better, measured, environment),
        )


def _how_partitions(better: int, measured: MeasuredQuery, environment: QueryEnvironment) -> str:
    how = f"set {SHUFFLE_PARTITIONS}={better} before the query is started"
    if measured.state_bytes is not None:
        return (
            f"{how} for the first time: a checkpoint keeps its number of state partitions (`foretide restart "
            f"--state-partitions {better}` changes it for a topology with state in RocksDB)"
        )
    if environment.settings.get(STATELESS_AQE) == "false":
        return f"{how}, or let Spark choose by {STATELESS_AQE}=true"
    return how


def edge(measured: MeasuredQuery, environment: QueryEnvironment) -> Iterator[Advice]:
    """A stage that reads its source with fewer tasks than cores, or unevenly, could share its work over all cores."""
    for stage in measured.stages:
        if stage.shuffled or stage.routed or not stage.work:
            continue
        ideal = stage.task_cost + stage.busy / stage.cores
        saved = stage.span - ideal
        few = stage.tasks < stage.cores
        if not few and stage.longest < _SKEWED * stage.busy / stage.tasks:
            continue
        work = "a Python operator" if environment.python else "its work"
        tasks = "task" if stage.tasks == 1 else "tasks"
        why = f"on {stage.cores} cores" if few else f"of which one takes {format_duration(stage.longest)}"
        yield Advice(
            "edge",
            f"'{stage.operator}' does {work} in {stage.tasks} {tasks} {why}, {format_duration(stage.span)} of a batch: "
            f"an edge before it would let {stage.cores} tasks share it and save up to {format_duration(saved)}, less "
            "what the exchange costs",
            saved,
            saved / measured.duration,
            f'read.transform(ft.edge("work", ft.Dynamic(), pool={_TASKS_PER_CORE * stage.cores})) before the operator',
        )


def skew(measured: MeasuredQuery, environment: QueryEnvironment) -> Iterator[Advice]:
    """One task of a join or an aggregation that has most of the rows."""
    del environment
    for stage in measured.stages:
        if not stage.shuffled or stage.tasks < 2:  # noqa: PLR2004 - one task has all rows
            continue
        saved = stage.span - stage.balanced
        if stage.longest < _SKEWED * stage.busy / stage.tasks or stage.largest_share < _SKEWED / stage.tasks:
            continue
        named, remedy, how = _unskewed(stage.operator, measured)
        yield Advice(
            "skewed keys",
            f"'{stage.operator}': one of {stage.tasks} tasks has {_percent(stage.largest_share)} of the rows and takes "
            f"{format_duration(stage.longest)}{named}: {remedy} would save up to {format_duration(saved)} a batch",
            saved,
            saved / measured.duration,
            how,
        )


def _unskewed(operator: str, measured: MeasuredQuery) -> tuple[str, str, str]:
    """The hot key of an operator in words, if it is known; what would help, and how.

    Spark counts no keys. Its joins and those of `ft.join` look alike, so they are told apart only if all are of a kind.
    """
    if not operator.startswith("join"):
        how = "group by the key and a salt first, then by the key alone"
        return "", "a second grouping column, summed up afterwards,", how
    joins = {stage.operator for stage in measured.stages if stage.operator.startswith("join")}
    if not measured.hot_keys:
        how = "ft.join(left, right, ...) with the policy `hot_keys`; Spark does not count the keys of its joins"
        return "", "ft.join, which names the hot keys and splits them,", how
    if len(measured.hot_keys) < len(joins):
        how = "the policy `hot_keys`; where the join is Spark's own, ft.join(left, right, ...) in its place"
        return "", "splitting its hot keys", how
    known = [key for key in measured.hot_keys.values() if key is not None]
    hottest = max(known, key=lambda key: key[1], default=None)
    named = "" if hottest is None else f"; key '{hottest[0]}' has {_percent(hottest[1])} of the rows of its side"
    return named, "splitting its hot keys", "let the policy `hot_keys` act; it splits them where that pays"


def locality(measured: MeasuredQuery, environment: QueryEnvironment) -> Iterator[Advice]:
    """Tasks that wait for the executor that had their state, while other cores are idle."""
    wait = seconds_of(environment.settings.get(LOCALITY_WAIT, "3s"))
    for stage in measured.stages:
        saved = stage.span - max(stage.longest, stage.balanced)
        if environment.executors < 2 or not wait or stage.last_start < 0.8 * wait:  # noqa: PLR2004
            continue
        yield Advice(
            "locality wait",
            f"tasks of '{stage.operator}' were started up to {format_duration(stage.last_start)} after they were "
            f"ready, while cores were idle: a shorter {LOCALITY_WAIT} would save up to "
            f"{format_duration(saved)} a batch",
            saved,
            saved / measured.duration,
            f"start the session with {LOCALITY_WAIT}=100ms",
        )


def admission(measured: MeasuredQuery, environment: QueryEnvironment) -> Iterator[Advice]:
    """Batches that grow because nothing limits what they take."""
    part = len(measured.rows) // _THIRDS
    if not environment.unlimited or part < 2:  # noqa: PLR2004 - too few to see growth
        return
    first, last = slice(0, part), slice(-part, None)
    rows = [sum(measured.rows[each]) / part for each in (first, last)]
    took = [sum(measured.durations[each]) / part for each in (first, last)]
    if rows[1] < _MIN_GROWTH * rows[0] or took[1] < _MIN_GROWTH * took[0]:
        return
    saved = took[1] - took[0]
    for option in environment.unlimited:
        yield Advice(
            "admission",
            f"batches have grown from {format_number(rows[0], 3)} to {format_number(rows[1], 3)} rows and from "
            f"{format_duration(took[0])} to {format_duration(took[1])}, and nothing limits them: {option} would keep "
            f"results {format_duration(saved)} fresher while the backlog is worked off",
            saved,
            saved / took[1],
            f"give the source the option {option}; about {format_number(rows[0], 2)} rows took "
            f"{format_duration(took[0])}",
        )


def trigger(measured: MeasuredQuery, environment: QueryEnvironment) -> Iterator[Advice]:
    """Rows that wait for the next batch although the last one ended long ago."""
    interval, busy = environment.trigger, measured.duration
    if not interval or interval < _ROOM * _ROOM * busy:
        return
    shorter = _ROOM * busy
    target = environment.latency_target
    if target is not None:
        shorter = max(shorter, target - busy)
        if interval + busy <= target:
            return
    saved = interval - shorter
    yield Advice(
        "trigger",
        f"batches take {format_duration(busy)} and start every {format_duration(interval)}: with an interval of "
        f"{format_duration(shorter)} the latency of the slowest rows would be {format_duration(saved)} lower, with "
        f"cores busy {_percent(busy / shorter)} of the time instead of {_percent(busy / interval)}",
        saved,
        saved / (interval + busy),
        f'.trigger(processingTime="{max(1, round(shorter * 1000))} milliseconds")',
    )


def state_store(measured: MeasuredQuery, environment: QueryEnvironment) -> Iterator[Advice]:
    """State on the heap that leaves the executors little memory."""
    heap, held = environment.heap_bytes, measured.state_bytes
    provider = environment.settings.get(STATE_PROVIDER, "")
    if not heap or not held or "HDFSBacked" not in provider or held < _STATE_OF_HEAP * heap:
        return
    cores = max(stage.cores for stage in measured.stages)
    saved = measured.gc / cores
    yield Advice(
        "state store",
        f"state takes {_percent(held / heap)} of the executors' heap, and garbage collection "
        f"{format_duration(saved)} of a batch: RocksDB keeps state outside the heap and would save up to that",
        None if saved < _MIN_SECONDS else saved,
        held / heap if saved < _MIN_SECONDS else saved / measured.duration,
        f"start with a new checkpoint in a session with {STATE_PROVIDER}={ROCKSDB}",
    )


RULES: tuple[Rule, ...] = (shuffle_partitions, edge, skew, locality, admission, trigger, state_store)


def _percent(share: float) -> str:
    return f"{round(_HUNDRED * share)} %"


def seconds_of(text: str) -> float:
    """A duration as Spark's settings have it; milliseconds without a unit, 0 if it is none.

    >>> seconds_of("3s"), seconds_of("100ms"), seconds_of("0"), seconds_of("1500"), seconds_of("soon")
    (3.0, 0.1, 0.0, 1.5, 0.0)
    """
    for unit, factor in (("ms", 0.001), ("min", 60.0), ("s", 1.0), ("m", 60.0), ("", 0.001)):
        number = text.strip().removesuffix(unit)
        if text.strip().endswith(unit) and number.isdecimal():
            return int(number) * factor
    return 0.0
