"""DRS on running topologies in real time: the allocation that it recommends beside others, predicted and measured.

Bolts wait for an exponential time, as for a service on the network, so two cores do not limit them. All allocations of
a topology have the same number of processors and run in turn, to and fro, in one query. The model is made of what is
measured with the first of them; time that it does not know (Kafka, transport) is one constant for all allocations,
fitted to the measured times. The errors of the model are given without and with it.
Tuples that were due while nothing came out between two batches, or in the second after that, are left out: the model
knows no boundaries. A stall of the machine adds to the mean of the span that it falls into, so what counts is the
median of the spans. The recommended allocation runs twice in each round; the difference between the two is the noise.

`python -m benchmarks real_time_processors` runs all topologies; for one, `python -m benchmarks.real_time_processors
--case 1`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import foretide as ft
from benchmarks.real_time_pipeline import BATCH, Running, running, session
from benchmarks.real_time_run import batch_ends, boundaries
from benchmarks.report import markdown
from foretide.control.policies.allocation import part_of
from foretide.control.world.measured import NotYet, network
from foretide.planning.processors import assign_processors
from foretide.queueing.sojourn import expected_tuple_latency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from foretide.kafka.latency import Received
    from foretide.queueing.network import Network

MASTER = "local[48]"
_RATE = 100.0
_WARM_SECONDS, _SETTLE_SECONDS = 25.0, 2.0
_BACKLOG_MICROSECONDS = 1_000_000
_PARK = "'java.util.concurrent.locks.LockSupport', 'parkNanos'"
Row = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """When an allocation was in force, in seconds since 1970; `twin` marks the second run of the recommended one."""

    allocation: tuple[int, ...]
    begin: float
    end: float
    twin: bool = False


@dataclass(frozen=True)
class Stage:
    """A bolt: its name, the mean milliseconds that it waits for each tuple, and the tuples that it makes of one."""

    name: str
    mean: float
    gain: int = 1


@dataclass(frozen=True)
class Case:
    """A topology, and the allocations that are compared; all of them have as many processors."""

    title: str
    stages: tuple[Stage, ...]
    allocations: tuple[tuple[int, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self.stages)


CASES = (
    Case(
        "two bolts in a row",
        (Stage("parse", 5.0), Stage("out", 10.0)),
        ((4, 4), (1, 7), (2, 6), (3, 5), (5, 3), (6, 2)),
    ),
    Case(
        "three bolts in a row",
        (Stage("parse", 4.0), Stage("match", 9.0), Stage("out", 3.0)),
        ((3, 3, 3), (1, 7, 1), (2, 5, 2), (3, 4, 2), (2, 4, 3), (4, 2, 3), (1, 6, 2)),
    ),
    Case(
        "a bolt that makes two tuples of one",
        (Stage("extract", 6.0, gain=2), Stage("out", 5.0)),
        ((4, 4), (1, 7), (2, 6), (3, 5), (5, 3), (6, 2)),
    ),
)


def wait(rows: DataFrame, stage: Stage) -> DataFrame:
    """Wait for each tuple, for a time that its row decides."""
    chance = f"(pmod(xxhash64(row, part, '{stage.name}'), 1000000) + 0.5) / 1000000"
    nanoseconds = f"bigint(-ln({chance}) * {stage.mean * 1e6})"
    waited = rows.where(f"coalesce(length(java_method({_PARK}, {nanoseconds})), 0) >= 0")
    return waited if stage.gain == 1 else waited.selectExpr("row", "due", f"explode(sequence(1, {stage.gain})) AS part")


def bolts(case: Case) -> list[ft.Bolt]:
    made, before, pools = [], "requests", np.max(case.allocations, axis=0)
    for place, (stage, pool) in enumerate(zip(case.stages, pools, strict=True)):
        work = partial(_first if place == 0 else wait, stage=stage)
        by = ("row",) if place == 0 else ("row", "part")
        made.append(ft.Bolt(stage.name, work, [ft.From(before, ft.Dynamic(by=by))], pool=int(pool)))
        before = stage.name
    return made


def _first(rows: DataFrame, stage: Stage) -> DataFrame:
    return wait(rows.selectExpr("row", "due", "0 AS part"), stage)


def run(*, quick: bool, folder: Path, cases: Sequence[Case] = CASES) -> dict[str, Any]:
    span, rounds = (3.0, 1) if quick else (4.0, 6)
    figures: dict[str, Any] = {}
    goals: list[Row] = []
    with session(MASTER) as (spark, broker):
        for case in cases[:1] if quick else cases:
            rows, goal = _measured(spark, broker.address, case, span, rounds)
            figures[f"{case.title}, {sum(case.allocations[0])} processors, {_RATE:g} tuples/s, ms"] = rows
            goals.append(goal)
    figures["goals"] = goals
    figures["batches"] = f"{BATCH:g} s; tuples about a boundary are left out"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "real_time_processors.md").write_text(markdown(figures), encoding="utf-8")
    return figures


def _measured(spark: SparkSession, servers: str, case: Case, span: float, rounds: int) -> tuple[list[Row], Row]:
    length = _WARM_SECONDS + rounds * (len(case.allocations) + 2) * (span + _SETTLE_SECONDS)
    curve = ft.Curve.constant(_RATE, length).with_poisson_arrivals(seed=11)
    with running(spark, servers, partial(bolts, case), curve) as one:
        loop = ft.control(one.pipeline, ["processors"], ft.Latency(p99="10s"), mode="advise")
        _allocate(one, case, case.allocations[0])
        one.feed.start()
        time.sleep(_WARM_SECONDS)
        world = loop.reader.read()
        assert world is not None
        found = network(world, waiting_at=case.names)
        if isinstance(found, NotYet):
            raise RuntimeError(str(found))  # noqa: TRY004 - it is a state, not a wrong type
        model = part_of(found, case.names)
        assert model is not None
        recommended = _recommended(case, model)
        spans = _in_turns(one, case, recommended, span, rounds)
        one.feed.stop()
        one.drain()
        received = one.collector.stop()
        gaps = boundaries(received, batch_ends(one.pipeline.query), one.feed.start_time)
    return compared(case, model, recommended, _without(received, gaps), spans)


def _in_turns(one: Running, case: Case, recommended: tuple[int, ...], span: float, rounds: int) -> list[Span]:
    """Run all allocations, to and fro, and the recommended one a second time in each round."""
    compared = [(each, False) for each in dict.fromkeys((*case.allocations, recommended))]
    compared.insert(len(compared) // 2, (recommended, True))
    spans = []
    for place in range(rounds):
        for allocation, twin in compared[:: 1 if place % 2 == 0 else -1]:
            _allocate(one, case, allocation)
            begin = time.time() + _SETTLE_SECONDS
            time.sleep(_SETTLE_SECONDS + span)
            spans.append(Span(allocation, begin, time.time(), twin))
    return spans


def _without(received: Received, gaps: list[tuple[int, int]]) -> Received:
    """What was received but for tuples that a boundary has held up."""
    kept = np.ones(received.due.size, dtype=bool)
    for begin, end in gaps:
        kept &= (received.due < begin) | (received.due >= end + _BACKLOG_MICROSECONDS)
    return received.where(kept)


def _recommended(case: Case, model: Network) -> tuple[int, ...]:
    """What DRS recommends for as many processors as all allocations have."""
    pools = dict(zip(case.names, (int(pool) for pool in np.max(case.allocations, axis=0)), strict=True))
    best = assign_processors(model, sum(case.allocations[0]), pools).processors
    return tuple(best[name] for name in case.names)


def _allocate(one: Running, case: Case, allocation: Sequence[int]) -> None:
    version = 0
    for name, replicas in zip(case.names, allocation, strict=True):
        version = one.pipeline.activate(name, replicas).version
    if not one.pipeline.await_routes(version, 10.0):
        raise RuntimeError(f"the allocation {allocation} is not in force")


def compared(
    case: Case, model: Network, recommended: tuple[int, ...], received: Received, spans: list[Span]
) -> tuple[list[Row], Row]:
    allocations = list(dict.fromkeys(each.allocation for each in spans))
    measured = {
        each: _median(received, [s for s in spans if s.allocation == each and not s.twin]) for each in allocations
    }
    again = _median(received, [each for each in spans if each.twin])
    predicted = {
        each: 1000 * expected_tuple_latency(model, dict(zip(case.names, each, strict=True))) for each in allocations
    }
    outside = float(np.median([measured[each] - predicted[each] for each in allocations]))
    rows: list[Row] = [
        {
            "allocation": ":".join(map(str, each)) + (" (recommended)" if each == recommended else ""),
            "model": predicted[each],
            f"model + {outside:.1f} for transport": predicted[each] + outside,
            "measured": measured[each],
            "error of the model, %": 100 * (predicted[each] - measured[each]) / measured[each],
            "error with transport, %": 100 * (predicted[each] + outside - measured[each]) / measured[each],
        }
        for each in sorted(allocations, key=lambda each: measured[each])
    ]
    fastest = min(measured.values())
    mine = measured[recommended]
    return rows, {
        "topology": case.title,
        "recommended": ":".join(map(str, recommended)),
        "measured, ms": mine,
        "once more, ms": again,
        "best measured, ms": fastest,
        "above the best, %": 100 * (mine / fastest - 1),
        "noise, %": 100 * abs(mine - again) / again,
        "best or within 5 %": mine <= 1.05 * fastest,
        "mean error of the model, %": _mean_size(rows, "error of the model, %"),
        "mean error with transport, %": _mean_size(rows, "error with transport, %"),
    }


def _mean_size(rows: list[Row], name: str) -> float:
    return float(np.mean([abs(row[name]) for row in rows]))


def _median(received: Received, spans: Sequence[Span]) -> float:
    """The median of the mean sojourn times of the spans, in milliseconds."""
    due = received.due / 1e6
    means = [received.milliseconds[(due >= each.begin) & (due < each.end)] for each in spans]
    return float(np.median([each.mean() for each in means if each.size]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_time_processors", description=__doc__)
    parser.add_argument("--case", type=int, choices=range(1, len(CASES) + 1), help="one topology only")
    parser.add_argument("--quick", action="store_true", help="one short round of the first topology")
    parser.add_argument("--folder", type=Path, default=Path("artifacts"), help="where the figures go")
    options = parser.parse_args()
    cases = CASES if options.case is None else CASES[options.case - 1 : options.case]
    print(markdown(run(quick=options.quick, folder=options.folder, cases=cases)))


if __name__ == "__main__":
    main()
