"""Records co-located workers under interference, for the forecasts of worker performance.

Real executors (local-cluster) run one pipeline under a real load curve, while stress processes come and go: busy loops
that take cores, and writers that take the disk. Foretide's own monitoring measures it. The result is one row for each
worker and step, with its own features and those of its machine.

    python -m benchmarks.record_workers --minutes 30
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import functions as F

import foretide as ft
from foretide.metrics.metric import Level
from foretide.store.export import export_steps
from foretide.store.metric_store import MetricStore
from foretide.workloads.keyed import Keyed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

FILE = Path(__file__).parent / "data" / "workers.parquet"
WORKERS, STEP = 3, 5.0
_BUSY = "while True: pass"
_WRITER = """
import os, tempfile
with tempfile.TemporaryFile() as file:
    while True:
        file.seek(0)
        for _ in range(32):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record_workers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=FILE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = record(Path(folder), options.minutes * 60, options.seed)
        frame = recording(store, Path(folder))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(options.output, index=False, compression="zstd")
    print(f"{len(frame):,} rows, {frame.worker.nunique()} workers, {len(frame.columns)} columns in {options.output}")


def record(folder: Path, seconds: float, seed: int) -> Path:
    """Run the pipeline and the stress beside it; the metrics are in the store that is given back."""
    options = {"spark.sql.shuffle.partitions": "3", "spark.task.maxFailures": "16"}
    spark = ft.session(f"local-cluster[{WORKERS},1,1024]", "foretide-recording", options)
    spark.sparkContext.setLogLevel("OFF")
    store = folder / "metrics.db"
    settings = ft.RunSettings(
        trigger="0 seconds",
        monitoring=ft.MonitorSettings(store=str(store), workers_every=1.0, machines_every=1.0, smoothing={}, rules=()),
    )
    pipeline = ft.submit(spark, topology(seconds), ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint", settings)
    with interference(random.Random(seed)) as turn:
        end = time.monotonic() + seconds
        while pipeline.query.isActive and time.monotonic() < end:
            turn()
            left = end - time.monotonic()
            print(f"\r{left:6.0f} s to go, {len(pipeline.reports)} batches", end="", flush=True)
            time.sleep(1)
    print()
    pipeline.raise_failure()
    pipeline.stop()
    spark.stop()
    return store


def topology(seconds: float) -> ft.Topology:
    """Hashing that takes a while, then a second edge: work, queues and shuffles to measure."""

    def digest(frame: DataFrame) -> DataFrame:
        text = F.concat_ws("-", "key", "value", "row")
        for _ in range(12):
            text = F.sha2(text, 512)
        return frame.select("key", text.alias("digest"))

    curve = ft.Curve.from_trace("tweets-goog", seconds=seconds + 60, mean_rate=12_000, first=0, samples=900)
    spout = ft.Spout("lines", ft.Replay(Keyed(seed=1), curve, partitions=WORKERS, max_rows=60_000))
    digests = ft.Bolt("digest", digest, [ft.From("lines")], pool=6)
    letters = ft.Bolt("letters", lambda df: df.where("digest like 'a%'"), [ft.From("digest", ft.Fields("key"))], pool=3)
    return ft.Topology("recording", [spout], [digests, letters])


@contextlib.contextmanager
def interference(chance: random.Random) -> Iterator[Any]:
    """Stress processes that come and go, none to four at a time, each for 10 to 90 seconds."""
    running: list[tuple[float, subprocess.Popen[bytes]]] = []

    def turn() -> None:
        now = time.monotonic()
        for until, process in list(running):
            if now >= until:
                process.kill()
                process.wait()
                running.remove((until, process))
        if len(running) < 4 and chance.random() < 1 / 50:
            program = _WRITER if chance.random() < 0.3 else _BUSY
            for _ in range(chance.choice((1, 1, 2))):
                process = subprocess.Popen([sys.executable, "-c", program])
                running.append((now + chance.uniform(10, 90), process))

    try:
        yield turn
    finally:
        for _, process in running:
            process.kill()
            process.wait()


def recording(store: Path, folder: Path) -> pd.DataFrame:
    """A row for each worker and one for the machine in each step, as `benchmarks.forecasting_nets` reads it."""
    frames = {}
    with MetricStore.open(store, create=False) as opened:
        for level in (Level.WORKER, Level.MACHINE):
            export_steps(opened, "recording", folder / f"{level}.parquet", level=level, step=STEP)
            frames[level] = pd.read_parquet(folder / f"{level}.parquet")
    machines = frames[Level.MACHINE]
    hosts = machines[~machines.subject.str.contains("/")].drop(columns="subject").dropna(axis=1, how="all")
    workers = frames[Level.WORKER].rename(columns={"subject": "worker"}).dropna(axis=1, how="all")
    return told_apart(workers, hosts)


def told_apart(workers: pd.DataFrame, hosts: pd.DataFrame) -> pd.DataFrame:
    """Targets under their names; a figure holds until the next is measured."""
    figures = workers.columns.difference(["at", "worker"])
    workers = workers.sort_values("at", ignore_index=True)
    workers[figures] = workers.groupby("worker")[list(figures)].ffill()
    workers = workers.dropna(ignore_index=True)
    workers["cpu"] = workers.worker_cpu_user_percent + workers.worker_cpu_system_percent
    workers["sending_time"] = workers.worker_outbound_batch_sending_time_ms
    workers["queuing_time"] = workers.worker_inbound_queuing_time_ms
    hosts = hosts[hosts["at"].isin(workers["at"])].drop_duplicates("at")
    whole = pd.concat([workers, hosts], ignore_index=True).sort_values(["at", "worker"], ignore_index=True)
    whole.insert(1, "machine", "machine-1")
    numbers = whole.columns.difference(["at", "machine", "worker"])
    whole[numbers] = whole[numbers].astype("float32")
    return whole


if __name__ == "__main__":
    main()
