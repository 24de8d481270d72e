"""Run by test_guarantees.py in a process of its own, killed in the middle of batches, and run again.

One pipeline for each guarantee and one with a feedback loop. Each notes every tuple it works on in a file. Unless the
file `go` exists, the pipelines with a guarantee wait for ever in the middle of their third batch.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.spark.sources.port import LoadContext
from foretide.spark.sources.registry import source_port
from foretide.workloads.keyed import Keyed

sys.path.insert(0, str(Path(__file__).parents[2]))
from helpers import QUICK

ROWS, A_BATCH, HOPS = 600, 100, 3
STOPPED_AT = range(250, 300)
REPLAY = ft.Replay(Keyed(seed=1), ft.Curve.constant(ROWS, 1), paced=False, max_rows=A_BATCH)


def noting(folder, name):
    """Work that leaves a trace of each tuple outside of Spark."""
    log, go, waiting = (str(folder / file) for file in (f"{name}.log", "go", f"{name}.waiting"))

    def work(row):
        if row["value"] in STOPPED_AT:
            parent = os.getppid()
            while not Path(go).exists():
                Path(waiting).touch()
                if os.getppid() != parent:  # the JVM was killed, and Python's daemon with it
                    os._exit(1)
                time.sleep(0.05)
        with Path(log).open("a") as file:
            file.write(f"{row['value']}\n")
        yield {"value": row["value"]}

    return work


def plain(folder, name):

    work = ft.PerTuple(noting(folder, name), "value long")
    bolt = ft.Bolt("work", work, [ft.From("numbers", ft.Shuffle(by=("row",)))], pool=2, retries=0)
    return ft.Topology(name, [ft.Spout("numbers", REPLAY)], [bolt])


def looping(folder):
    """Each tuple goes round until it has hopped HOPS times."""
    log = str(folder / "loop.log")

    def hop(row):
        with Path(log).open("a") as file:
            file.write(f"{row['value']}\n")
        time.sleep(0.005)
        hops = (row.get("hops") or 0) + 1
        yield {"value": row["value"], "hops": hops, "stream": "done" if hops == HOPS else "again"}

    source = ft.Stream(numbers)
    loop = ft.Bolt(
        "hop",
        ft.PerTuple(hop, "value long, hops int, stream string"),
        [ft.From("numbers"), ft.From("hop", stream="again", feedback=True)],
        pool=2,
        streams=("done", "again"),
    )
    return ft.Topology("loop", [ft.Spout("numbers", source)], [loop])


def numbers(spark):
    context = LoadContext(spark, "numbers", ControlFolder("/nonexistent"))
    return source_port(REPLAY).load(context).selectExpr("value", "0 AS hops")


def done(pipeline):
    """Whether the last row was taken, and a loop has come to rest."""
    reports = list(pipeline.reports)
    taken = any(source_port(REPLAY).is_over(source) for report in reports for source in report.sources)
    return taken and (pipeline.topology.name != "loop" or time.time() - reports[-1].finished > 5)


def main(folder):
    spark = ft.session("local[8]", settings=QUICK)
    spark.sparkContext.setLogLevel("OFF")
    pipelines = [
        ft.submit(
            spark,
            plain(folder, name),
            ft.Parquet(str(folder / name / "out")) if name != "at-least-once" else ft.Console(A_BATCH * 10),
            str(folder / name / "checkpoint"),
            ft.RunSettings(guarantee=name, trigger="0 seconds", monitoring=None),
        )
        for name in ("exactly-once", "at-least-once", "at-most-once")
    ]
    loop = looping(folder)
    pipelines.append(
        ft.submit(spark, loop, ft.Parquet(str(folder / "loop" / "out")), str(folder / "loop" / "checkpoint"),
                  ft.RunSettings(trigger="0 seconds", monitoring=None))
    )  # fmt: skip
    while not all(done(pipeline) for pipeline in pipelines):
        time.sleep(0.2)
    for pipeline in pipelines:
        pipeline.stop()
        pipeline.raise_failure()
        pipeline.output("hop.done" if pipeline.topology.name == "loop" else "work").select("value").toPandas().to_csv(
            folder / f"{pipeline.topology.name}.csv", index=False
        ) if pipeline.topology.name != "at-least-once" else None
    (folder / "finished").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
