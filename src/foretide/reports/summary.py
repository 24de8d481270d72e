"""What a recorded run comes to: how its target was kept, what forecasts were worth, what it cost and what was saved."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from foretide.control.decisions.decision import Decision
from foretide.control.target_record import TargetRecord
from foretide.control.world.setup import Target
from foretide.status.run_record import Forecast, Interval, Points, RunRecord, sum_of

_MAX_GAP_SECONDS = 60.0
_LOAD_GAP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class TargetSummary:
    """How a target was kept.

    Attributes:
        record: What was measured against it.
        since: From when it was in force.
        borrowed: Whether it is the target of another run, by which this one is judged.
    """

    record: TargetRecord
    since: float
    borrowed: bool = False

    @property
    def share_missed(self) -> float | None:
        """The share of the time in which latency was above it."""
        return self.record.missed_seconds / self.record.seconds if self.record.seconds else None


@dataclass(frozen=True, slots=True)
class ForecastSummary:
    """What the forecasts of the load were worth: mean absolute errors, in per cent of the load that came.

    Attributes:
        last_value: The error of expecting the load that was measured when the forecast was made.
        ahead: Seconds from the forecasts to what they are about, as a median.
        below_high: The share of the load that stayed below the upper bound of the forecast.
    """

    count: int
    error: float
    last_value: float
    ahead: float
    models: tuple[str, ...]
    below_high: float | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run took.

    Attributes:
        executor_seconds: Time that executors were there, summed over them.
        out_seconds: The part of it in which they got no tasks.
        most: The largest number of executors at one time.
        saved_seconds: By how much that is less than the largest number of executors for the whole run.
        cpu_seconds: Processor time of the workers; None where it was not measured.
    """

    executor_seconds: float
    out_seconds: float
    most: int
    saved_seconds: float
    cpu_seconds: float | None
    rows: int

    @property
    def per_million_rows(self) -> float | None:
        """Executor-seconds for a million rows."""
        return 1e6 * self.executor_seconds / self.rows if self.rows else None


@dataclass(frozen=True, slots=True)
class DecisionCounts:
    """Decisions that changed something, those that only advised, and what became of the former by outcome."""

    changes: int
    advised: int
    stopped: int
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in figures; `quantile` is the one of the latencies, which are in seconds."""

    quantile: str
    median_latency: float | None
    worst_latency: float | None
    targets: tuple[TargetSummary, ...]
    forecasts: ForecastSummary | None
    cost: Cost
    decisions: DecisionCounts

    @property
    def missed(self) -> tuple[float, float] | None:
        """Seconds above the target, and seconds that were judged; None without a target."""
        judged = [each.record for each in self.targets if each.record.seconds]
        return (sum(each.missed_seconds for each in judged), sum(each.seconds for each in judged)) if judged else None


def summarize(run: RunRecord, judged_by: Target | None = None) -> Summary:
    """The figures of a run; `judged_by` is the target that it is judged by if it had none."""
    targets = tuple(_targets(run, judged_by))
    quantile = targets[-1].record.target.quantile if targets else "p99"
    latency = latency_of(run, quantile)
    values = [value for _, value in latency]
    return Summary(
        quantile,
        median(values) if values else None,
        max(values, default=None),
        targets,
        _forecasts(run.forecasts, run.load),
        cost_of(run),
        _counts(run.decisions),
    )


def shared_target(runs: Sequence[RunRecord]) -> Target | None:
    """The latency target that runs without one are judged by: that which all others ended with."""
    last = {run.target_at(run.ended) for run in runs}
    wanted = [target for target in last if target.latency is not None]
    return wanted[0] if len(wanted) == 1 else None


def latency_of(run: RunRecord, quantile: str) -> Points:
    """Latency in seconds."""
    return tuple((at, value / 1000.0) for at, value in run.query.get(f"latency_{quantile}_ms", ()))


def _targets(run: RunRecord, judged_by: Target | None) -> Iterator[TargetSummary]:
    """How each target was kept in the time in which it was in force."""
    changes = [(run.began, run.target_at(run.began))]
    for setup in run.setups:
        if setup.target != changes[-1][1]:
            changes.append((setup.at, setup.target))
    borrowed = judged_by is not None and all(target.latency is None for _, target in changes)
    if borrowed and judged_by is not None:
        changes = [(run.began, judged_by)]
    for (since, target), (until, _) in pairwise([*changes, (run.ended, Target())]):
        if target.latency is not None:
            yield TargetSummary(_judged(run, target, since, until), since, borrowed)


def _judged(run: RunRecord, target: Target, since: float, until: float) -> TargetRecord:
    record = TargetRecord(target)
    for at, seconds in latency_of(run, target.quantile):
        if since <= at <= until:
            setup = run.setup_at(at)
            workers = frozenset(setup.observed.executors) if setup is not None else frozenset()
            young = setup is not None and bool(workers) and setup.observed.young >= workers
            record = record.with_measured(seconds, at, warming_up=young)
    return record


def _forecasts(forecasts: Sequence[Forecast], load: Points) -> ForecastSummary | None:
    pairs = [
        (each, came, known)
        for each in forecasts
        if (came := value_at(load, each.at)) and (known := value_at(load, each.made, after=False))
    ]
    if not pairs:
        return None
    bounds = [came <= each.high for each, came, _ in pairs if each.high is not None]
    return ForecastSummary(
        len(pairs),
        _mean([abs(each.mean - came) / came for each, came, _ in pairs]),
        _mean([abs(known - came) / came for _, came, known in pairs]),
        median(each.at - each.made for each, _, _ in pairs),
        tuple(dict.fromkeys(each.by for each, _, _ in pairs)),
        _mean([float(each) for each in bounds]) if bounds else None,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def value_at(points: Points, at: float, *, after: bool = True) -> float | None:
    """The value of a series at a time: on a line between its neighbours, or, not `after`, the last one until then.

    None outside the series, and in a pause of it.
    """
    place = bisect_right(points, at, key=lambda point: point[0])
    if place == 0:
        return None
    (left, low), (right, high) = points[place - 1], points[min(place, len(points) - 1)]
    if not after:
        return low if at - left <= _LOAD_GAP_SECONDS else None
    if right <= left:
        return low if at == left else None
    return low + (high - low) * (at - left) / (right - left) if right - left <= _LOAD_GAP_SECONDS else None


def cost_of(run: RunRecord) -> Cost:
    """What a run took."""
    present = run.in_service()
    seconds = _total(present)
    most = int(max((count for _, count in executors_over_time(run)), default=0.0))
    return Cost(
        seconds, _total(run.taken_out()), most, max(0.0, most * run.seconds - seconds), _cpu_seconds(run), run.rows
    )


def executors_over_time(run: RunRecord) -> Points:
    """The number of executors from each time on at which it changed."""
    changes: dict[float, int] = {}
    for intervals in run.in_service().values():
        for start, end in intervals:
            changes[start] = changes.get(start, 0) + 1
            changes[end] = changes.get(end, 0) - 1
    count, found = 0, []
    for at in sorted(changes):
        count += changes[at]
        found.append((at, float(count)))
    return tuple(found)


def _total(intervals: Mapping[str, Sequence[Interval]]) -> float:
    return sum(end - start for each in intervals.values() for start, end in each)


def _cpu_seconds(run: RunRecord) -> float | None:
    """A sample of processor time stands for the time since the one before it."""
    series = [cpu_of(each) for each in run.workers.values()]
    if not any(series):
        return None
    return sum(
        value / 100.0 * (at - before) for points in series for (before, _), (at, value) in pairwise(points)
        if at - before <= _MAX_GAP_SECONDS
    )  # fmt: skip


def cpu_of(worker: Mapping[str, Points]) -> Points:
    """Processor time of a worker in percent of one core."""
    return sum_of([worker.get(f"worker_cpu_{part}_percent", ()) for part in ("user", "system")])


def _counts(decisions: Sequence[Decision]) -> DecisionCounts:
    outcomes: dict[str, int] = {}
    for each in decisions:
        if each.acted and each.effect is not None:
            outcomes[each.effect.outcome] = outcomes.get(each.effect.outcome, 0) + 1
    return DecisionCounts(
        sum(each.acted for each in decisions),
        sum(bool(each.chosen) and not each.acted for each in decisions),
        sum(not each.chosen and any(done.after is None for done in each.guards) for each in decisions),
        outcomes,
    )
