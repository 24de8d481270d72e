"""Changes of a running topology in real time: splits and replicas in turn, then failures. Nothing may be lost.

`python -m benchmarks real_time_changes` runs both; for one of them, `python -m benchmarks.real_time_changes --part
failures`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import Producer

import foretide as ft
from benchmarks.real_time_pipeline import BATCH, Running, running, session
from benchmarks.real_time_run import extracted
from benchmarks.report import markdown
from foretide.kafka.latency import Account
from foretide.probes.workers import find_executors
from foretide.spark.kafka_broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local-cluster[2,12,1024]"
MAX_MS = 100.0
_RATE, _POOL = 500.0, 4
_RATIOS = ("1:1:1:1", "7:3:2:0", "0:1:1:0", "0:0:0:1", "5:0:1:2")
_ACK_SECONDS = 30.0
_SETTLE_SECONDS = 10.0
Row = dict[str, Any]


def bolts() -> list[ft.Bolt]:
    return [ft.Bolt("out", extracted, [ft.From("requests", ft.Dynamic(by=("row",)))], pool=_POOL)]


def run(*, quick: bool, folder: Path, part: str = "all") -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with session(MASTER) as (spark, broker):
        for name in PARTS if part == "all" else [part]:
            figures |= PARTS[name](spark, broker, 20 if quick else 200)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"real_time_changes_{part}.md").write_text(markdown(figures), encoding="utf-8")
    return figures


def changes_table(spark: SparkSession, broker: Broker, changes: int) -> dict[str, Any]:
    title = f"{changes} changes of a running topology, {_RATE:g} tuples/s, batches of {BATCH:g} s"
    return {title: [_changed(spark, broker, changes, replicas=replicas) for replicas in (False, True)]}


def failures_table(spark: SparkSession, broker: Broker, _changes: int) -> dict[str, Any]:
    return {
        "failures, at-least-once": [
            _failed(spark, broker, "executor killed", _kill_executor),
            _failed(spark, broker, "broker killed, started again after 5 s", _kill_broker),
            _failed(spark, broker, "100 malformed records", _send_malformed),
        ]
    }


PARTS = {"changes": changes_table, "failures": failures_table}


def _changed(spark: SparkSession, broker: Broker, changes: int, *, replicas: bool) -> Row:
    """Change the edge again and again, and wait each time until every executor has acknowledged it."""
    curve = ft.Curve.constant(_RATE, _SETTLE_SECONDS + changes * _ACK_SECONDS)  # stopped after the last change
    times: list[float] = []
    with running(spark, broker.address, bolts, curve) as one:
        one.feed.start()
        time.sleep(_SETTLE_SECONDS)
        while len(times) < changes:
            began = time.monotonic()
            version = _change(one.pipeline, len(times), replicas=replicas)
            if not one.pipeline.await_routes(version, _ACK_SECONDS):
                raise RuntimeError(f"version {version} of the routes was not acknowledged")
            times.append((time.monotonic() - began) * 1000)
            time.sleep(0.1)
        row: Row = {"change": "replicas" if replicas else "split", "acknowledged by every executor": len(times)}
        p50, p99 = np.quantile(times, (0.5, 0.99), method="inverted_cdf")
        within = sum(each <= MAX_MS for each in times)
        row |= {"p50, ms": float(p50), "p99, ms": float(p99), "max, ms": max(times)}
        return row | {f"within {MAX_MS:g} ms": within} | _account(one)


def _change(pipeline: ft.Pipeline, number: int, *, replicas: bool) -> int:
    if replicas:
        return pipeline.activate("out", 1 + number % _POOL).version
    return pipeline.split("out", _RATIOS[number % len(_RATIOS)]).version


def _account(one: Running) -> Row:
    sent = one.feed.stop()
    one.drain()
    received = one.collector.stop()
    account = Account.of(sent, received)
    return {"sent": account.sent, "lost": account.lost, "doubled": account.doubled}


def _failed(spark: SparkSession, broker: Broker, what: str, fail: Any) -> Row:
    """What a failure in the middle of a batch costs: how long nothing came out, and what came twice."""
    curve = ft.Curve.constant(_RATE, _SETTLE_SECONDS + 40.0)
    with running(spark, broker.address, bolts, curve) as one:
        one.feed.start()
        time.sleep(_SETTLE_SECONDS + 5)
        began = time.time()
        dead = fail(spark, broker, one)
        one.feed.wait()
        sent = one.feed.stop()
        one.drain()
        received = one.collector.stop()
        arrived = np.sort(received.received[received.received > (began - 1) * 1e6])
        account = Account.of(sent, received)
        row: Row = {
            "failure": what, "longest silence, s": float(np.diff(arrived).max()) / 1e6,
            "restarts": one.pipeline.restarts, "sent": account.sent, "lost": account.lost, "doubled": account.doubled,
            "rows after dropDuplicates": int(one.pipeline.output("out").select("row").dropDuplicates().count()),
        }  # fmt: skip
        said = [alarm.message for alarm in one.pipeline.alarms if alarm.kind == "query-restarted"]
        return row | {"dead letters": _dead_letters(one) if dead else 0, "alarm": "; ".join(said) or "none"}


def _kill_executor(spark: SparkSession, _broker: Broker, _one: Running) -> bool:
    os.kill(find_executors(spark.sparkContext.applicationId)[0].pid, signal.SIGKILL)
    return False


def _kill_broker(_spark: SparkSession, broker: Broker, _one: Running) -> bool:
    assert broker.process is not None
    os.kill(broker.process.pid, signal.SIGKILL)
    broker.process.wait()
    with contextlib.suppress(Exception):
        broker.stop()
    time.sleep(5)
    broker.start()
    return False


def _send_malformed(_spark: SparkSession, broker: Broker, one: Running) -> bool:
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(100):
        producer.produce(one.topic, f"not json {number}".encode())
    producer.flush(30)
    return True


def _dead_letters(one: Running) -> int:
    return int(one.pipeline.output("dead_letters").count())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_time_changes", description=__doc__)
    parser.add_argument("--part", choices=("all", *PARTS), default="all", help="which table")
    parser.add_argument("--quick", action="store_true", help="20 changes instead of 200")
    parser.add_argument("--folder", type=Path, default=Path("artifacts"), help="where the figures go")
    options = parser.parse_args()
    print(markdown(run(quick=options.quick, folder=options.folder, part=options.part)))


if __name__ == "__main__":
    main()
