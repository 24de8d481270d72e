"""Real-time mode, from a Kafka topic to another: latency of a routed edge beside its rivals, and its growth with load.

`python -m benchmarks real-time` runs all of it; `python -m benchmarks.real_time --help` shows how to run a part of it,
or to use another master, such as a local cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.real_time_run import (
    NO_EDGE,
    REPARTITION,
    ROUTED,
    ROUTED_TOPOLOGY,
    TOPOLOGY,
    URL_COUNT,
    Measured,
    Variant,
    measure,
    pooled,
    start_session,
)
from benchmarks.report import markdown
from foretide.kafka.latency import Latency
from foretide.spark.kafka_broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[8]"
BATCH = 60.0
KINDS = [REPARTITION, ROUTED, ROUTED_TOPOLOGY, URL_COUNT, TOPOLOGY]
MAX_P50, MAX_P99, MAX_RATIO = 4.0, 40.0, 1.2
Row = dict[str, Any]


def run(*, quick: bool, folder: Path, master: str = MASTER, part: str = "all") -> dict[str, Any]:
    """All figures but those that compare settings, or those of a part; also as Markdown in the folder."""
    with tempfile.TemporaryDirectory(prefix="foretide-bench-") as data, Broker(Path(data)) as broker:
        spark = start_session(master)
        spark.sparkContext.setLogLevel("OFF")  # a query that is stopped in the middle of a batch logs errors
        try:
            for kind in WARMED.get(part, KINDS):  # Java compiles what runs often, for each kind of its own
                measure(spark, broker.address, Variant(kind, 2000.0, 10.0 if quick else 20.0, 20.0))
            figures = PARTS[part](spark, broker.address, quick=quick)
        finally:
            spark.stop()
    figures["machine"] = f"{master}, {os.cpu_count()} processors, load {os.getloadavg()[2]:.1f} in the last 15 minutes"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("real_time.md" if part == "all" else f"real_time_{part}.md")
    path.write_text(markdown(figures), encoding="utf-8")
    figures["the same as Markdown"] = str(path)
    return figures


def latency_tables(spark: SparkSession, servers: str, *, quick: bool) -> dict[str, Any]:
    """The routed edge beside its rivals, at one rate, each of them twice, to and fro."""
    batch = BATCH / 6 if quick else BATCH
    turns = KINDS if quick else [*KINDS, *KINDS[::-1]]
    runs = [measure(spark, servers, Variant(kind, seconds=batch, batch=batch)) for kind in turns]
    real_time = [pooled([each for each in runs if each.variant.edge == kind]) for kind in KINDS]
    micro = [measure(spark, servers, Variant(seconds=batch / 3, batch=None))]
    return {
        "from topic to topic, 1,000 tuples/s, ms from due time to receipt": [latency_row(m) for m in real_time + micro],
        "the same, ms from record to record": [record_row(m) for m in real_time + micro],
        "boundaries between batches": [boundary_row(m) for m in real_time],
        "goals": goals(real_time),
    }


def growth_table(spark: SparkSession, servers: str, *, quick: bool) -> dict[str, Any]:
    """The routed edge at several rates in both modes, and a query without an edge."""
    batch = BATCH / 6 if quick else BATCH
    rates = [5000.0, 20_000.0] if quick else [100.0, 1000.0, 5000.0, 20_000.0]
    variants = [Variant(NO_EDGE, seconds=batch, batch=batch)]
    variants += [Variant(rate=rate, seconds=batch, batch=batch) for rate in rates]
    variants += [Variant(rate=rate, seconds=batch / 3, batch=None) for rate in rates]
    found = [measure(spark, servers, each) for each in variants]
    return {"growth with load, ms from due time to receipt": [rate_row(m) for m in found]}


def all_tables(spark: SparkSession, servers: str, *, quick: bool) -> dict[str, Any]:
    """Both."""
    return latency_tables(spark, servers, quick=quick) | growth_table(spark, servers, quick=quick)


# ---- settings

_SHUFFLE = "spark.shuffle.streaming.networkBuffer"
_FLUSH = {f"{_SHUFFLE}MaxWaitTimeMs": "1", f"{_SHUFFLE}Size": "32768"}
CHOICES: Mapping[str, Variant] = {
    "flush after 1 ms": Variant(),
    "flush after 2 ms": Variant(conf={f"{_SHUFFLE}MaxWaitTimeMs": "2"}),
    "flush after 5 ms": Variant(conf={f"{_SHUFFLE}MaxWaitTimeMs": "5"}),
    "flush after 2 rows or 1 ms": Variant(conf={f"{_SHUFFLE}Size": "256"}),
    "flush every row": Variant(conf={f"{_SHUFFLE}MaxWaitTimeMs": "50", f"{_SHUFFLE}Size": "1"}),
    "progress written before the next batch": Variant(sink={"asyncProgressTrackingEnabled": "false"}),
    "sink: linger.ms 5": Variant(sink={"kafka.linger.ms": "5"}),
    "sink: acks 1": Variant(sink={"kafka.acks": "1"}),
    "source: fetch.max.wait.ms 10": Variant(source={"kafka.fetch.max.wait.ms": "10"}),
}
"""Settings of Spark's and of Kafka's clients, each changed alone."""


def settings_table(spark: SparkSession, servers: str, *, quick: bool) -> dict[str, Any]:
    """The routed edge under each choice of settings, in turn, to and fro. Local masters only."""
    seconds = 5.0 if quick else 15.0
    runs: dict[str, list[Measured]] = {name: [] for name in CHOICES}
    for names in (list(CHOICES), list(CHOICES)[::-1]):
        for name in names:
            given = CHOICES[name]
            variant = replace(given, seconds=seconds, batch=seconds, conf={**_FLUSH, **given.conf})
            runs[name].append(measure(spark, servers, variant))
    return {"settings, 1,000 tuples/s, routed edge, ms": [_setting_row(name, found) for name, found in runs.items()]}


WARMED = {"growth": [NO_EDGE, ROUTED], "settings": [ROUTED]}
"""What runs before a part is measured, if that is less than all kinds."""

PARTS = {"all": all_tables, "latency": latency_tables, "growth": growth_table, "settings": settings_table}


def _setting_row(name: str, runs: list[Measured]) -> Row:
    others = np.concatenate([each.milliseconds[~each.inside] for each in runs])
    gaps = [gap for each in runs for gap in each.boundaries]
    return {
        "settings": name,
        **_percentiles(others, "without boundaries"),
        "shortest boundary": min(gaps, default=0.0),
        "longest boundary": max(gaps, default=0.0),
        "cores": float(np.mean([each.cores for each in runs])),
    }


# ---- rows of tables


def latency_row(measured: Measured) -> Row:
    return {**_kind(measured), **_percentiles(measured.milliseconds), **_losses(measured), **_machine(measured)}


def record_row(measured: Measured) -> Row:
    return {**_kind(measured), **_percentiles(measured.records)}


def boundary_row(measured: Measured) -> Row:
    lengths = measured.boundaries
    return {
        "between source and sink": measured.variant.edge,
        "batch, s": measured.variant.batch,
        "boundaries": len(lengths),
        "longest, ms": max(lengths, default=0.0),
        "tuples due in them, %": 100 * float(measured.inside.mean()),
        "p99 of all, ms": Latency.of(measured.milliseconds).p99,
        "p99 of the others, ms": Latency.of(measured.milliseconds[~measured.inside]).p99,
    }


def rate_row(measured: Measured) -> Row:
    others, records = measured.milliseconds[~measured.inside], Latency.of(measured.records)
    return {
        **_kind(measured),
        "tuples/s": round(measured.variant.rate),
        **_percentiles(measured.milliseconds),
        "p50 from record to record": records.p50,
        "p99 from record to record": records.p99,
        "p99 without the boundary": Latency.of(others).p99,
        "boundary": max(measured.boundaries, default="none"),
        **_losses(measured),
        **_machine(measured),
        "feed late, p99": measured.feed.p99,
    }


def goals(real_time: list[Measured]) -> list[Row]:
    """The goals of the routed edge, over all runs of it and of the plain repartition."""
    routed, plain = ([each for each in real_time if each.variant.edge == kind] for kind in (ROUTED, REPARTITION))
    due = Latency.of(np.concatenate([each.milliseconds for each in routed]))
    record = Latency.of(np.concatenate([each.records for each in routed]))
    ratio = due.p50 / Latency.of(np.concatenate([each.milliseconds for each in plain])).p50
    rows = []
    for name, found in (("record to record", record), ("due time to receipt", due)):
        rows += [
            {"goal": f"p50 below {MAX_P50:g} ms, {name}", "measured": found.p50, "met": found.p50 < MAX_P50},
            {"goal": f"p99 below {MAX_P99:g} ms, {name}", "measured": found.p99, "met": found.p99 < MAX_P99},
        ]
    goal = f"p50 / that of repartition(n) at most {MAX_RATIO:g}, due time to receipt"
    return [*rows, {"goal": goal, "measured": ratio, "met": ratio <= MAX_RATIO}]


def _kind(measured: Measured) -> Row:
    variant = measured.variant
    mode = "real time" if variant.batch is not None else f"micro-batch, {variant.trigger}"
    return {"mode": mode, "between source and sink": variant.edge}


def _percentiles(milliseconds: Any, tuples: str = "tuples") -> Row:
    found = Latency.of(milliseconds)
    return {
        tuples: found.tuples, "p50": found.p50, "p90": found.p90, "p99": found.p99, "p99.9": found.p999,
        "max": found.max,
    }  # fmt: skip


def _machine(measured: Measured) -> Row:
    return {"cores": measured.cores, "load of the machine": measured.load}


def _losses(measured: Measured) -> Row:
    return {"lost": measured.account.lost, "doubled": measured.account.doubled}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_time", description=__doc__)
    parser.add_argument("--master", default=MASTER, help="where Spark runs")
    parser.add_argument("--quick", action="store_true", help="short batches and few rates: about three minutes")
    parser.add_argument("--part", choices=PARTS, default="all", help="which tables; settings are not among all")
    parser.add_argument("--json", type=Path, default=Path("artifacts/real_time.json"), help="where the figures go")
    options = parser.parse_args()
    figures = run(quick=options.quick, folder=options.json.parent, master=options.master, part=options.part)
    options.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    print(markdown(figures))


if __name__ == "__main__":
    main()
