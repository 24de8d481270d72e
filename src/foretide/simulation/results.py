"""What a simulation found: estimates with confidence intervals by batch means, and the same over time."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from foretide.formatting import finite, format_number
from foretide.simulation.tally import Meter, TimeBins, TupleTrees

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.simulation.scenario import Scenario
    from foretide.simulation.variation import Floats, Integers


QUANTILES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and half the width of its confidence interval; not a number if nothing was measured.

    >>> Estimate(2.0, 0.25).covers(2.2)
    True
    >>> print(Estimate(14150.3, 880.0), "/", Estimate(0.7787, 0.0213))
    14,150 ± 880 / 0.779 ± 0.021
    """

    value: float
    half_width: float

    def covers(self, value: float) -> bool:
        """Whether the interval holds that value."""
        return abs(value - self.value) <= self.half_width

    def __str__(self) -> str:
        value = format_number(self.value, 3)
        return value if math.isnan(self.half_width) else f"{value} ± {format_number(self.half_width, 2)}"


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """What one operator did.

    Attributes:
        arrived: Tuples that reached it over the whole run.
        served: Tuples it processed; equal to `arrived`, as nothing is lost.
        replayed: Times that work was lost with its worker and done again (tuples; in micro-batches, tasks).
        utilization: Share of its workers' time (in micro-batches: of all cores' time) spent working.
        queue_length: Tuples waiting, not counting those being worked on.
        sojourn: Seconds from reaching the operator to being processed.
    """

    name: str
    workers: int
    arrived: int
    served: int
    replayed: int
    utilization: Estimate
    queue_length: Estimate
    throughput: Estimate
    sojourn: Estimate


@dataclass(frozen=True, slots=True)
class ResultSeries:
    """The same over time, one value a batch of simulated time.

    Attributes:
        times: Middles of the batches, in seconds.
        latency: Quantiles of the completion time of the trees whose root arrived in the batch.
        queue_length: Mean number of waiting tuples, by operator.
    """

    times: tuple[float, ...]
    latency: Mapping[float, tuple[float, ...]]
    queue_length: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """How the micro-batches went: how many, how long from start to commit, and rows taken in by each."""

    count: int
    length: Estimate
    rows: Estimate


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a simulation found. Estimates leave out the warm-up; counts are of the whole run.

    Attributes:
        trees: Tuples that entered from outside; each is the root of a tuple tree.
        completed: Trees of which every tuple was processed; equal to `trees`, as nothing is lost.
        latency: Quantiles of the time from a tuple's arrival until its tree was fully processed; in
            micro-batches, until the last commit that holds a part of it.
        completion_time: Mean of the same.
        total_sojourn: Mean over trees of the SUM of the sojourn times of all its tuples (drs eq 4). With forks it is
            more than the completion time, as branches are worked on at the same time.
        batches: Only for micro-batches.
    """

    trees: int
    completed: int
    latency: Mapping[float, Estimate]
    completion_time: Estimate
    total_sojourn: Estimate
    operators: tuple[OperatorResult, ...]
    timeline: ResultSeries
    batches: BatchSummary | None = None

    def operator(self, name: str) -> OperatorResult:
        """The result of one operator; KeyError if there is none."""
        return {each.name: each for each in self.operators}[name]

    def as_dict(self) -> dict[str, Any]:
        """Plain mappings and lists, ready for JSON; what was not measured is None."""
        plain: dict[str, Any] = finite(asdict(self))
        return plain


def student(confidence: float, freedom: int) -> float:
    """Two-sided Student quantile, by the expansion around the normal one; good from 5 degrees of freedom on.

    >>> round(student(0.95, 29), 3)
    2.045
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / freedom + second / freedom**2 + third / freedom**3 + fourth / freedom**4


def ratio(sums: Floats, weights: Floats, confidence: float) -> Estimate:
    """Sum over weight, with the spread of its batches as the error.

    >>> ratio(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]), 0.95)
    Estimate(value=2.0, half_width=0.0)
    """
    total = float(weights.sum())
    if total == 0:
        return Estimate(math.nan, math.nan)
    value = float(sums.sum()) / total
    count = len(sums)
    error = math.sqrt(float(((sums - value * weights) ** 2).sum()) / (count - 1) / count) / (total / count)
    return Estimate(value, student(confidence, count - 1) * error)


def quantile(values: Floats, bins: Floats, level: float, confidence: float) -> Estimate:
    """A quantile of all values, with the spread of the batches' own (not a number if empty) as the error."""
    if not len(values):
        return Estimate(math.nan, math.nan)
    seen = bins[~np.isnan(bins)]
    if len(seen) < 2:  # noqa: PLR2004 one batch has no spread
        return Estimate(float(np.quantile(values, level)), math.nan)
    error = float(seen.std(ddof=1)) / math.sqrt(len(seen))
    return Estimate(float(np.quantile(values, level)), student(confidence, len(seen) - 1) * error)


@dataclass
class Records:
    """Everything a run writes down.

    Attributes:
        tuples: An operator's tuples, by position.
        work: Who held its workers: the tuples themselves, or in micro-batches the tasks.
        batches: (start, commit, rows) of each micro-batch.
    """

    time_bins: TimeBins
    trees: TupleTrees
    tuples: list[Meter]
    work: list[Meter]
    batches: list[tuple[float, float, int]] = field(default_factory=list)

    @classmethod
    def of(cls, scenario: Scenario) -> Records:
        """Empty records."""
        time_bins = TimeBins(scenario.warmup, scenario.duration, scenario.batches)
        tuples, tasks = ([Meter(time_bins) for _ in scenario.network.operators] for _ in range(2))
        return cls(time_bins, TupleTrees(), tuples, tasks if scenario.batching else tuples)


def report(scenario: Scenario, records: Records) -> SimulationResult:
    """The result of a run."""
    time_bins, trees = records.time_bins, records.trees
    bins = time_bins.bins(trees.arrivals)
    measured = (bins > 0) & (bins <= time_bins.batches)
    completions, bins = trees.completion_times[measured], bins[measured]
    levels = _quantiles_by_batch(completions, bins, time_bins.batches)
    counts = time_bins.sums(bins)[1:-1]
    return SimulationResult(
        trees=len(trees.arrivals),
        completed=trees.completed,
        latency={level: quantile(completions, levels[level], level, scenario.confidence) for level in QUANTILES},
        completion_time=ratio(time_bins.sums(bins, completions)[1:-1], counts, scenario.confidence),
        total_sojourn=ratio(time_bins.sums(bins, trees.total_sojourns[measured])[1:-1], counts, scenario.confidence),
        operators=tuple(_operator(scenario, records, index) for index in range(len(records.tuples))),
        timeline=_timeline(scenario, records, levels),
        batches=_batch_summary(scenario, records) if scenario.batching else None,
    )


def _operator(scenario: Scenario, records: Records, index: int) -> OperatorResult:
    tuples, work, width = (
        records.tuples[index],
        records.work[index],
        np.full(records.time_bins.batches, records.time_bins.width),
    )
    name = scenario.network.names[index]
    servers = scenario.batching.cores if scenario.batching else scenario.workers[name]
    return OperatorResult(
        name=name,
        workers=scenario.workers[name],
        arrived=tuples.arrived,
        served=tuples.served,
        replayed=work.replayed,
        utilization=ratio(work.busy(), width * servers, scenario.confidence),
        queue_length=ratio(tuples.waiting(), width, scenario.confidence),
        throughput=ratio(tuples.finished(), width, scenario.confidence),
        sojourn=ratio(*tuples.sojourns(), scenario.confidence),
    )


def _quantiles_by_batch(values: Floats, bins: Integers, batches: int) -> dict[float, Floats]:
    order = np.argsort(bins, kind="stable")
    edges = np.searchsorted(bins[order], np.arange(1, batches + 2))
    pieces = [values[order[low:high]] for low, high in pairwise(edges)]
    table = np.array(
        [np.quantile(piece, QUANTILES) if len(piece) else np.full(len(QUANTILES), np.nan) for piece in pieces]
    )
    return {level: table[:, column] for column, level in enumerate(QUANTILES)}


def _timeline(scenario: Scenario, records: Records, levels: dict[float, Floats]) -> ResultSeries:
    return ResultSeries(
        times=tuple(records.time_bins.middles.tolist()),
        latency={level: tuple(values.tolist()) for level, values in levels.items()},
        queue_length={
            name: tuple((meter.waiting() / records.time_bins.width).tolist())
            for name, meter in zip(scenario.network.names, records.tuples, strict=True)
        },
    )


def _batch_summary(scenario: Scenario, records: Records) -> BatchSummary:
    starts, commits, rows = np.array(records.batches or np.empty((0, 3)), dtype=np.float64).T
    bins = records.time_bins.bins(starts)
    counts = records.time_bins.sums(bins)[1:-1]
    return BatchSummary(
        count=len(starts),
        length=ratio(records.time_bins.sums(bins, commits - starts)[1:-1], counts, scenario.confidence),
        rows=ratio(records.time_bins.sums(bins, rows)[1:-1], counts, scenario.confidence),
    )
