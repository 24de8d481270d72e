"""A slow worker in real time: busy loops on the core of one executor, without control and with it.

Tuples are told apart by the executor whose source task reads them: the routed edge moves tuples away from the slow
executor, source tasks stay there until the batch ends.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import foretide as ft
from benchmarks.real_time_pipeline import BATCH, PARTITIONS, running, session
from benchmarks.report import markdown
from foretide.apps.experiment import cpu_hog, pin_executors
from foretide.control.decisions.explain import summary
from foretide.kafka.latency import Account, Latency, Received

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local-cluster[2,12,1024]"
MAX_RATIO = 3.0
TIMEOUT_MS = 30_000.0
_RATE, _POOL, _LOOPS = 300.0, 4, 32
_SLOW = "0"
_ROUNDS = 3
_TARGET = ft.Latency(p99="100ms")
_SETTLE_SECONDS = 15.0
Row = dict[str, Any]


def work(lines: DataFrame) -> DataFrame:
    """One to two milliseconds for each tuple: three times what a task gets of a core that it shares with the loops."""
    hashed = "line"
    for _ in range(_ROUNDS):
        hashed = f"sha2(repeat({hashed}, 8000), 256)"
    return lines.selectExpr("row", "due", f"{hashed} AS hash")


def bolts() -> list[ft.Bolt]:
    return [ft.Bolt("out", work, [ft.From("requests", ft.Dynamic(by=("row",)))], pool=_POOL)]


def run(*, quick: bool, folder: Path) -> dict[str, Any]:
    before, slow = (8.0, 12.0) if quick else (10.0, 30.0)  # all of it within one batch
    with session(MASTER) as (spark, broker):
        _one(spark, broker.address, None, 5.0, 10.0, controlled=False)  # Java compiles what runs often
        cores = pin_executors(spark.sparkContext.applicationId)
        found = {
            name: _one(spark, broker.address, cores, before, slow, controlled=name == "control on")
            for name in ("control off", "control on")
        }
    figures: dict[str, Any] = {
        f"busy loops on executor {_SLOW} from 0 s on, ms, p50 / p99 of tuples due then": _parts(found, before, slow),
        "goal": _goal(found, before, slow),
        "decisions": [row for each in found.values() for row in each["decisions"]] or "none",
        "batches": f"{BATCH:g} s, {_RATE:g} tuples/s, {_POOL} tasks behind the edge, {_LOOPS} busy loops",
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "real_time_slow_worker.md").write_text(markdown(figures), encoding="utf-8")
    return figures


def _one(
    spark: SparkSession, servers: str, cores: dict[str, int] | None, before: float, slow: float, *, controlled: bool
) -> dict[str, Any]:
    curve = ft.Curve.constant(_RATE, _SETTLE_SECONDS + before + slow)
    decisions: list[tuple[float, str]] = []
    with running(spark, servers, bolts, curve) as one, contextlib.ExitStack() as stack:
        if controlled:
            loop = ft.control(one.pipeline, target=_TARGET)
            loop.on_decision(lambda decision: decisions.append((decision.at, summary(decision))))
        one.pipeline.await_tasks(60.0)
        one.feed.start()
        begin = one.feed.start_time / 1e6 + _SETTLE_SECONDS
        time.sleep(max(0.0, begin + before - time.time()))
        placed = _source_tasks(one.pipeline)
        hogged = time.time()
        if cores is not None:
            stack.enter_context(cpu_hog(cores, _SLOW, _LOOPS))
        one.feed.wait()
        stack.close()
        sent = one.feed.stop()
        one.drain()
        received = one.collector.stop()
        restarts = one.pipeline.restarts
    return {
        "received": received,
        "hogged": hogged,
        "account": Account.of(sent, received),
        "slow_source": {task for task, worker in placed.items() if worker == _SLOW},
        "restarts": restarts,
        "decisions": [
            {"s": round(at - hogged, 1), "decision": text} for at, text in decisions if not text.startswith("nothing")
        ],
    }


def _source_tasks(pipeline: ft.Pipeline) -> dict[int, str]:
    """The executor of each task that reads a partition."""
    runs = [run for report in list(pipeline.reports) for run in report.tasks or () if run.operator == "requests"]
    return {run.task: run.worker for run in runs if run.task is not None}


def _chosen(found: dict[str, Any], start: float, end: float, *, slow_source: bool) -> Latency:
    received: Received = found["received"]
    due = received.due / 1e6 - found["hogged"]
    is_slow = np.isin(received.row % PARTITIONS, list(found["slow_source"]))
    return Latency.of(received.milliseconds[(due >= start) & (due < end) & (is_slow == slow_source)])


def _parts(found: dict[str, dict[str, Any]], before: float, slow: float) -> list[Row]:
    spans = [("before", -before, 0.0), ("0 to 2 s", 0.0, 2.0)]
    spans += [(f"{at:g} to {min(at + 5, slow):g} s", at, min(at + 5, slow)) for at in np.arange(2.0, slow - 1, 5.0)]
    spans += [("from 2 s on", 2.0, slow)]
    rows = []
    for title, start, end in spans:
        row: Row = {"tuples due": title}
        for name, each in found.items():
            for slow_source, where in ((False, "read elsewhere"), (True, f"read by executor {_SLOW}")):
                latency = _chosen(each, start, end, slow_source=slow_source)
                row[f"{name}, {where}"] = f"{latency.p50:,.1f} / {latency.p99:,.1f}"
        rows.append(row)
    lost: Row = {"tuples due": "lost, doubled, failed (over 30 s)"}
    for name, each in found.items():
        account: Account = each["account"]
        failed = int((each["received"].milliseconds > TIMEOUT_MS).sum())
        lost[f"{name}, read elsewhere"] = f"{account.lost}, {account.doubled}, {failed}"
        lost[f"{name}, read by executor {_SLOW}"] = "of all tuples"
    return [*rows, lost]


def _goal(found: dict[str, dict[str, Any]], before: float, slow: float) -> list[Row]:
    rows = []
    for name, each in found.items():
        usual = _chosen(each, -before, 0.0, slow_source=False).p99
        later = _chosen(each, 2.0, slow, slow_source=False).p99
        ratio = later / usual
        rows.append({
            "goal": f"p99 through the edge from 2 s on at most {MAX_RATIO:g}x undisturbed", "run": name,
            "undisturbed, ms": usual, "from 2 s on, ms": later, "ratio": ratio, "met": bool(ratio <= MAX_RATIO),
        })  # fmt: skip
    return rows
