"""From the books of a run to its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from foretide.simulation.results import (
    QUANTILES,
    BatchSummary,
    OperatorResult,
    ResultSeries,
    SimulationResult,
    quantile,
    ratio,
)
from foretide.simulation.tally import Ledger, Meter, TimeBins

if TYPE_CHECKING:
    from foretide.simulation.scenario import Scenario
    from foretide.simulation.variation import Floats, Integers


@dataclass
class Books:
    """Everything a run writes down.

    Attributes:
        grid: The measured stretch of time.
        ledger: The tuple trees.
        tuples: An operator's tuples, by position.
        work: Who held its workers: the tuples themselves, or in micro-batches the tasks.
        batches: (start, commit, rows) of each micro-batch.
    """

    grid: TimeBins
    ledger: Ledger
    tuples: list[Meter]
    work: list[Meter]
    batches: list[tuple[float, float, int]] = field(default_factory=list)

    @classmethod
    def of_pipeline(cls, scenario: Scenario) -> Books:
        """Books in which tuples hold the workers."""
        grid = TimeBins(scenario.warmup, scenario.duration, scenario.batches)
        meters = [Meter(grid) for _ in scenario.network.operators]
        return cls(grid, Ledger(), meters, meters)

    @classmethod
    def of_batches(cls, scenario: Scenario) -> Books:
        """Books in which tasks hold the cores."""
        grid = TimeBins(scenario.warmup, scenario.duration, scenario.batches)
        tuples, work = ([Meter(grid) for _ in scenario.network.operators] for _ in range(2))
        return cls(grid, Ledger(), tuples, work)


def report(scenario: Scenario, books: Books) -> SimulationResult:
    """The result of a run."""
    grid, ledger = books.grid, books.ledger
    bins = grid.bins(ledger.arrivals)
    measured = (bins > 0) & (bins <= grid.batches)
    completions, bins = ledger.completion_times[measured], bins[measured]
    levels = _quantiles_by_batch(completions, bins, grid.batches)
    counts = grid.sums(bins)[1:-1]
    return SimulationResult(
        trees=len(ledger.arrivals),
        completed=ledger.completed,
        latency={level: quantile(completions, levels[level], level, scenario.confidence) for level in QUANTILES},
        completion_time=ratio(grid.sums(bins, completions)[1:-1], counts, scenario.confidence),
        total_sojourn=ratio(grid.sums(bins, ledger.total_sojourns[measured])[1:-1], counts, scenario.confidence),
        operators=tuple(_operator(scenario, books, index) for index in range(len(books.tuples))),
        timeline=_timeline(scenario, books, levels),
        batches=_batches(scenario, books) if scenario.batching else None,
    )


def _operator(scenario: Scenario, books: Books, index: int) -> OperatorResult:
    tuples, work, width = (
        books.tuples[index],
        books.work[index],
        np.full(books.grid.batches, books.grid.width),
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


def _timeline(scenario: Scenario, books: Books, levels: dict[float, Floats]) -> ResultSeries:
    return ResultSeries(
        times=tuple(books.grid.middles.tolist()),
        latency={level: tuple(values.tolist()) for level, values in levels.items()},
        queue_length={
            name: tuple((meter.waiting() / books.grid.width).tolist())
            for name, meter in zip(scenario.network.names, books.tuples, strict=True)
        },
    )


def _batches(scenario: Scenario, books: Books) -> BatchSummary:
    starts, commits, rows = np.array(books.batches or np.empty((0, 3)), dtype=np.float64).T
    bins = books.grid.bins(starts)
    counts = books.grid.sums(bins)[1:-1]
    return BatchSummary(
        count=len(starts),
        length=ratio(books.grid.sums(bins, commits - starts)[1:-1], counts, scenario.confidence),
        rows=ratio(books.grid.sums(bins, rows)[1:-1], counts, scenario.confidence),
    )
