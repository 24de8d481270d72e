"""Starting and stopping a pipeline under control, again and again, leaves nothing behind.

`FORETIDE_SOAK_CYCLES` says how often.
"""

import os
import statistics
from dataclasses import dataclass
from pathlib import Path

import pytest

import foretide as ft
from foretide.probes.process import count_open_files, thread_ids
from helpers import rows_taken, wait_for

CYCLES = int(os.environ.get("FORETIDE_SOAK_CYCLES", "60"))
SPARE = 3
"""Threads and files by which two ends of a cycle may differ: pools of Spark and of libraries grow and shrink."""

MAX_GROWTH = 1.15


@dataclass(frozen=True)
class Held:
    """What a process holds at the end of a cycle."""

    threads: int
    files: float
    memory: float

    @classmethod
    def by(cls, pid):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return cls(len(thread_ids(pid)), count_open_files(pid), pages * os.sysconf("SC_PAGE_SIZE"))


def numbers(spark):
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().select("value")


def cycle(spark, folder):
    """A pipeline with a control loop and a store from its start to its end."""
    bolt = ft.Bolt("work", lambda df: df, [ft.From("numbers", ft.Dynamic(by=("value",)))], pool=2)
    topology = ft.Topology("cycle", [ft.Spout("numbers", ft.Stream(numbers))], [bolt])
    monitoring = ft.MonitorSettings(workers_every=0.5, machines_every=0.5, prometheus_port=0)
    settings = ft.RunSettings(trigger="0 seconds", monitoring=monitoring)
    pipeline = ft.submit(spark, topology, ft.Parquet(str(folder / "out")), str(folder / "checkpoint"), settings)
    try:
        ft.control(pipeline)
        wait_for(lambda: rows_taken(pipeline) > 0, pipeline)
    finally:
        pipeline.stop()


def medians(held, name):
    """The median of the second quarter, when all pools are warm, and of the last one."""
    values = [getattr(each, name) for each in held]
    quarter = len(values) // 4
    return statistics.median(values[quarter : 2 * quarter]), statistics.median(values[-quarter:])


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_threads_files_and_memory_stay_flat_over_many_starts_and_stops(spark, tmp_path):
    processes = {"python": os.getpid(), "jvm": spark.sparkContext._gateway.proc.pid}
    held = {name: [] for name in processes}
    for number in range(CYCLES):
        cycle(spark, tmp_path / str(number))
        for name, pid in processes.items():
            held[name].append(Held.by(pid))
    for name, ends in held.items():
        for what in ("threads", "files"):
            before, after = medians(ends, what)
            print(f"{name} {what}: {before:g} -> {after:g} over {CYCLES} cycles")
            assert after <= before + SPARE, (name, what, ends)
    before, after = medians(held["python"], "memory")
    print(f"python memory: {before / 1e6:.0f} MB -> {after / 1e6:.0f} MB")
    assert after <= MAX_GROWTH * before
