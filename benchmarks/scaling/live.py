"""What Foretide costs beside real queries of nearly empty tasks: tasks a batch, executors, pipelines of one session.

CPU time is read from `/proc`: that of Foretide's threads, and in the driver's JVM that of the threads that answer its
questions, so that other work on the machine does not count. A size that is not done within its time is left out.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import foretide as ft
from benchmarks.control_cost import _of as ticks
from benchmarks.scaling.growth import rows
from foretide.control_folder.filesystem import LocalFilesystem
from foretide.runtime.shutdown import descendants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS, EXECUTORS, PIPELINES = (10, 100, 1_000, 10_000), (2, 4, 8), (1, 5, 20, 50)
POOL, WARM_UP = 4, 2
BATCHES = {10_000: 3}
MAX_SECONDS = 600.0
_ANSWERS = re.compile(r"SparkUI|qtp")
_NAME = "scaling"
_OWN = "Foretide's threads"
_FOLLOWER, _LOOP, _REST = "follower", "control loop", "answers of Spark's REST interface"


def by_tasks(*, quick: bool) -> dict[str, Any]:
    """One query whose first stage has so many nearly empty tasks."""
    sizes = TASKS[:3] if quick else TASKS
    with _session("local[2]", "3g") as spark:
        found = _within_time(sizes, lambda size: one_query(spark, size, BATCHES.get(size, 6)))
    return {"a batch of a real query by tasks, local[2]": rows(found)}


def by_executors(*, quick: bool) -> dict[str, Any]:
    """One query on so many executors of one core, two tasks for each of them."""
    found: dict[str, dict[int, float]] = {}
    for size in EXECUTORS[:2] if quick else EXECUTORS:
        with _session(f"local-cluster[{size},1,512]", "1g") as spark:
            _merge(found, _within_time([size], lambda given, on=spark: one_query(on, 2 * given, 6)))
    return {"a batch of a real query by executors, local-cluster": rows(found)}


def by_pipelines(*, quick: bool) -> dict[str, Any]:
    """So many tiny queries in one session, each with a pipeline, a control loop and a batch every ten seconds."""
    sizes = PIPELINES[:2] if quick else PIPELINES
    with _session("local[2]", "3g") as spark:
        found = _within_time(sizes, partial(many_queries, spark))
    return {"a second of tiny queries by their number, local[2]": rows(found)}


@contextmanager
def _session(master: str, memory: str) -> Iterator[SparkSession]:
    options = {"spark.driver.memory": memory, "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    spark = ft.session(master, "foretide-bench", options)
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def _within_time(sizes: Sequence[int], measure: Callable[[int], Mapping[str, float]]) -> dict[str, dict[int, float]]:
    """The costs at each size, up to the first one that takes too long."""
    found: dict[str, dict[int, float]] = {}
    for size in sizes:
        try:
            costs = measure(size)
        except TimeoutError:
            break
        for name, cost in costs.items():
            found.setdefault(name, {})[size] = cost
    return found


def _merge(into: dict[str, dict[int, float]], more: Mapping[str, Mapping[int, float]]) -> None:
    for name, costs in more.items():
        into.setdefault(name, {}).update(costs)


# ---- one query, many queries


def topology(tasks: int, name: str = _NAME) -> ft.Topology:
    """A spout of so many tasks, a row for each, and a bolt of few."""

    def numbers(spark: SparkSession) -> DataFrame:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", tasks)
        return source.option("numPartitions", tasks).load()

    return ft.Topology(
        name,
        [ft.Spout("numbers", ft.Stream(numbers))],
        [ft.Bolt("keep", lambda frame: frame.select("value"), [ft.From("numbers", ft.Dynamic())], pool=POOL)],
    )


def one_query(spark: SparkSession, tasks: int, batches: int) -> dict[str, float]:
    """CPU milliseconds a batch, bytes written to the control folder, and what the store grew by."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, counted_writes() as written:
        pipeline, loop = _start(spark, topology(tasks), folder, "0 seconds")
        try:
            _until([pipeline], WARM_UP)
            before, marks = cpu_seconds(), (written.copy(), loop.cycles, _store_bytes(folder))
            begun = _last_batch(pipeline)
            _until([pipeline], begun + batches)
            done = _last_batch(pipeline) - begun
            used = _spent(before)
            seen = {"bytes": written["bytes"] - marks[0]["bytes"], "files": written["files"] - marks[0]["files"]}
            cycles, stored = loop.cycles - marks[1], _store_bytes(folder) - marks[2]
        finally:
            pipeline.stop()
    return {
        **{f"{part}, CPU ms a batch": 1000 * seconds / done for part, seconds in used.items()},
        "control loop, CPU ms a cycle": 1000 * used[_LOOP] / max(cycles, 1),
        "control folder, bytes a batch": seen["bytes"] / done,
        "control folder, files a batch": seen["files"] / done,
        "store, bytes a batch": stored / done,
    }


def many_queries(spark: SparkSession, count: int) -> dict[str, float]:
    """CPU milliseconds a second of all pipelines together, their threads, and files written to control folders."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, counted_writes() as written:
        idle = threading.active_count()
        started = [
            _start(spark, topology(2, f"{_NAME}-{number}"), f"{folder}/{number}", "10 seconds")
            for number in range(count)
        ]
        pipelines = [pipeline for pipeline, _ in started]
        try:
            _until(pipelines, WARM_UP)
            before, files, began = cpu_seconds(), written["files"], time.monotonic()
            _until(pipelines, max(map(_last_batch, pipelines)) + 2)
            seconds, used = time.monotonic() - began, _spent(before)
            threads, files = threading.active_count() - idle, written["files"] - files
        finally:
            for pipeline in pipelines:
                pipeline.stop()
    return {
        **{f"{part}, CPU ms a second": 1000 * spent / seconds for part, spent in used.items()},
        "threads": float(threads),
        "control folders, files a second": files / seconds,
    }


def _start(spark: SparkSession, graph: ft.Topology, folder: str, trigger: str) -> tuple[Any, Any]:
    settings = ft.RunSettings(trigger=trigger, monitoring=ft.MonitorSettings())
    pipeline = ft.submit(spark, graph, ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint", settings)
    return pipeline, ft.control(pipeline, target=ft.Latency(p99="60s"), settings=ft.Settings())


def _last_batch(pipeline: Any) -> int:
    progress = pipeline.query._jsq.lastProgress()
    return -1 if progress is None else int(progress.batchId())


def _until(pipelines: Sequence[Any], batch: int) -> None:
    deadline = time.monotonic() + MAX_SECONDS
    while min(map(_last_batch, pipelines)) < batch:
        if time.monotonic() > deadline:
            raise TimeoutError(f"batch {batch} did not end within {MAX_SECONDS:g} s")
        time.sleep(0.2)


def _store_bytes(folder: str) -> int:
    return sum(file.stat().st_size for file in Path(folder).rglob("metrics.db*"))


@contextmanager
def counted_writes() -> Iterator[Counter[str]]:
    """Files and bytes that are written to control folders on local disks meanwhile, by any thread."""
    written: Counter[str] = Counter()
    write = LocalFilesystem.write

    def counting(self: LocalFilesystem, name: str, text: str, *, durable: bool = True) -> None:
        written.update({"files": 1, "bytes": len(text.encode())})
        write(self, name, text, durable=durable)

    LocalFilesystem.write = counting
    try:
        yield written
    finally:
        LocalFilesystem.write = write


# ---- CPU time


Threads = dict[tuple[str, str], float]


def cpu_seconds() -> Threads:
    """CPU seconds so far by part and thread: Foretide's own, and those of Spark's JVM that answer questions."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    used: Threads = {}
    for task in Path("/proc/self/task").iterdir():
        name = names.get(int(task.name), "")
        for part in _parts(name):
            used[part, task.name] = ticks(task / "stat")
    for pid in descendants(os.getpid()):
        with suppress(OSError):  # it may end meanwhile
            for task in Path(f"/proc/{pid}/task").iterdir():
                if _ANSWERS.match((task / "comm").read_text(encoding="utf-8")):
                    used[_REST, task.name] = ticks(task / "stat")
    return used


def _parts(thread: str) -> Iterator[str]:
    """What a thread of this process is a part of."""
    if thread.startswith("foretide"):
        yield _OWN
    if thread.startswith(f"foretide-{_NAME}"):
        yield _FOLLOWER
    if thread == "foretide-control":
        yield _LOOP


def _spent(before: Threads) -> dict[str, float]:
    """CPU seconds since then by part, without those of threads that have ended."""
    spent = dict.fromkeys((_OWN, _FOLLOWER, _LOOP, _REST), 0.0)
    for key, seconds in cpu_seconds().items():
        spent[key[0]] += seconds - before.get(key, 0.0)
    return spent
