"""Storm @Twitter, section 4: what reliability costs: a plain reader, at-most-once, at-least-once, exactly-once."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.sessions import session

PLAIN, AUDITED = "plain reader", "exactly-once, ids audited"
GUARANTEES = ("at-most-once", "at-least-once", "exactly-once")
ROWS, BATCHES, WARM = 200_000, 8, 3
CPU, BATCH = "CPU s for a million tuples", "batch"


def run_with(run: Run, side: str) -> Samples:
    """CPU seconds of all processes, and the length of batches, some batches after the start."""
    from benchmarks.control_cost import cpu_seconds

    batches = 3 if run.quick else BATCHES
    query, stop = _plain(run) if side == PLAIN else _topology(run, side)
    _until(query, WARM)
    before = cpu_seconds()
    _until(query, WARM + batches)
    used = cpu_seconds().total() - before.total()
    progress = [each for each in query.recentProgress if WARM < each.batchId <= WARM + batches]
    stop()
    rows = sum(each.numInputRows for each in progress)
    return {CPU: [used / rows * 1e6], BATCH: [each.durationMs["triggerExecution"] for each in progress]}


def _until(query: Any, batch: int) -> None:
    while query.lastProgress is None or query.lastProgress.batchId < batch:
        if not query.isActive:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.2)


def _source() -> Any:
    import foretide as ft
    from foretide.workloads.keyed import Keyed

    curve = ft.Curve.constant(float(ROWS * 1000), 1.0)
    return ft.Replay(Keyed(seed=3), curve, paced=False, max_rows=ROWS)


def _plain(run: Run) -> tuple[Any, Any]:
    """Reads the same source into files as any Spark query does."""
    from foretide.control_folder.folder import ControlFolder
    from foretide.spark.sources.port import LoadContext
    from foretide.spark.sources.registry import source_port

    context = LoadContext(run.resource, "events", ControlFolder(str(run.folder / "control")))
    lines = source_port(_source()).load(context)
    writer = lines.select("row", "key").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(run.folder / "checkpoint"))
    query = writer.trigger(processingTime="0 seconds").start(str(run.folder / "out"))
    return query, query.stop


def _topology(run: Run, side: str) -> tuple[Any, Any]:
    import foretide as ft

    def same(rows: Any) -> Any:
        return rows.select("row", "key")

    bolt = ft.Bolt("pass", same, [ft.From("events")])
    topology = ft.Topology("reader", [ft.Spout("events", _source())], [bolt])
    audited = side == AUDITED
    guarantee = "exactly-once" if audited else side
    settings = ft.RunSettings(guarantee=guarantee, trigger="0 seconds", audit_ids=audited, monitoring=None)
    sink, checkpoint = ft.Parquet(str(run.folder / "out")), str(run.folder / "checkpoint")
    pipeline = ft.submit(run.resource, topology, sink, checkpoint, settings)
    return pipeline.query, pipeline.stop


def _cost(found: Outcome) -> Verdict:
    times = {side: 1 + found.change(side, CPU) for side in (*GUARANTEES, AUDITED)}
    said = ", ".join(f"{side} {each:.2f}" for side, each in times.items())
    return Verdict(f"times the CPU of the plain reader: {said}", times["at-least-once"] <= 3.0)


EXPERIMENT = Experiment(
    paper="storm-at-twitter",
    title="What reliability costs: a plain reader, at-most-once, at-least-once, exactly-once (section 4)",
    kind="live",
    sides=tuple(Side(side, partial(run_with, side=side)) for side in (PLAIN, *GUARANTEES, AUDITED)),
    measures=(Measure(CPU, "s"), Measure(BATCH, "ms")),
    claims=(
        Claim("at-least-once takes about 3 times the CPU of a plain reader (77 % of the machines against 26 %)", _cost),
    ),
    scale="one local session on two cores; the reader is a query of Spark over the same source, with offsets too",
    repeat=4,
    quick_repeat=1,
    minutes=8.0,
    quick_minutes=1.0,
    warm_ups=1,
    resource=lambda _: session(),
)
