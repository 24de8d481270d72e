"""Routes that change while a query runs: in force by the next batch, confirmed, and without a changed result."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import foretide as ft
from foretide.control_folder.folder import ROUTES, STATUS, ControlFolder
from foretide.control_folder.orders import ADMISSION, STOP
from foretide.workloads.keyed import Keyed
from helpers import multiset, rows_taken, take_the_rest, wait_for

ROWS = 40_000


def topology(rows=ROWS, a_batch=2000):
    source = ft.Replay(Keyed(seed=3, keys=50), ft.Curve.constant(rows, 1), paced=False, max_rows=a_batch)
    work = lambda df: df.select("key", "value", F.sha2(F.col("value").cast("string"), 256).alias("digest"))
    return ft.Topology(
        "routes",
        [ft.Spout("numbers", source)],
        [
            ft.Bolt("work", work, [ft.From("numbers", ft.Dynamic(by=("row",)))], pool=3),
            ft.Bolt("next", lambda df: df.where("value % 2 = 0"), [ft.From("work", ft.Fields("key"))], pool=2),
        ],
    )


def finished(pipeline):
    return [report for report in list(pipeline.reports) if report.input_rows]


def assert_no_row_is_missing_or_twice(pipeline, bolt, step=1):
    """The output may be ahead of what was reported: by the batch that is under way, or that a stop met."""
    taken = rows_taken(pipeline)
    values = sorted(row.value for row in pipeline.output(bolt).select("value").collect())
    assert values == list(range(0, len(values) * step, step))
    assert len(values) * step >= taken


@pytest.fixture(scope="module")
def running(start_shared):
    """A pipeline with small batches that is far from its end; tests change it, and leave its admission as it was."""
    return start_shared(topology(10_000_000, 500))


def test_re_splits_are_in_force_by_the_next_batch_and_change_no_result(spark, start, tmp_path):
    """Every batch that began after a publication reads that version, and splits by it."""
    pipeline = start(topology(), audit_ids=True)
    published = []
    ratios = ["7:3:2", "1:0:0", "1:1:1", "0:5:1", "2:1:0"]
    wait_for(lambda: finished(pipeline), pipeline)
    for ratio in ratios:
        table = pipeline.split("work", ratio)
        published.append((time.time(), table))
        wait_for(lambda table=table: finished(pipeline)[-1].route_version == table.version, pipeline)
    take_the_rest(pipeline, "numbers", ROWS)
    assert not pipeline.alarms
    tables = {table.version: table for _, table in published}
    for report in finished(pipeline):
        begun = report.finished - report.duration
        newest = max((table.version for at, table in published if at < begun), default=0)
        assert report.route_version >= newest
        route = tables.get(report.route_version)
        if route is not None:
            flow = report.edges["work"]
            for rows, share in zip(flow.per_task, route.edges["work"].shares, strict=True):
                assert abs(rows - flow.read * share) <= 5 * (flow.read * share * (1 - share)) ** 0.5 + 1e-9
    assert tables.keys() <= {report.route_version for report in finished(pipeline)}
    assert pipeline.restarts == 0
    plain = spark.range(ROWS).where("id % 2 = 0").select(F.col("id"), F.sha2(F.col("id").cast("string"), 256))
    assert multiset(pipeline.output("next").select("value", "digest")) == multiset(plain)


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_damaged_table_raises_an_alarm_loses_nothing_and_is_mended(running, damage):
    version = running.split("work", "1:0:0").version
    wait_for(lambda: finished(running) and finished(running)[-1].route_version == version, running)
    known = len(running.alarms)
    file = Path(running.control_folder.location) / ROUTES
    if damage == "missing":
        file.unlink()
    else:
        file.write_text(file.read_text()[:100])
    wait_for(lambda: len(running.alarms) > known, running)
    wait_for(lambda: (finished(running)[-1].route_version or 0) > version, running)
    assert running.control_folder.routes().edges["work"].active == 1
    assert {alarm.kind for alarm in running.alarms} == {"routes-unreadable"}
    assert_no_row_is_missing_or_twice(running, "next", step=2)


def test_the_admission_limit_changes_while_the_query_runs(running):
    wait_for(lambda: len(finished(running)) > 1, running)
    assert {report.input_rows for report in finished(running)} == {500}
    assert finished(running)[-1].sources[0].backlog > 9_000_000
    running.limit_admission("numbers", 7000)
    wait_for(lambda: finished(running)[-1].input_rows == 7000, running)
    running.limit_admission("numbers", None)
    wait_for(lambda: finished(running)[-1].input_rows == 500, running)
    assert_no_row_is_missing_or_twice(running, "next", step=2)


NESTED = "[" * 100_000


def is_folder(path):
    path.unlink(missing_ok=True)
    path.mkdir()


def is_nested(path):
    path.write_text('{"numbers": ' + NESTED)


def has_huge_version(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2**70}))


def test_no_damaged_file_stops_the_query_or_its_listeners(running):
    """Damages in turn: the admission file that the source reads, the route table, the status, the order to stop."""
    folder, heard = Path(running.control_folder.location), []
    running.on_report(lambda report, failures: heard.append(report))
    running.limit_admission("numbers", 300)
    wait_for(lambda: finished(running)[-1].input_rows == 300, running)
    damages = [
        (ADMISSION, is_folder), (ADMISSION, is_nested), (STATUS, is_folder), (STOP, is_folder),
        (ROUTES, has_huge_version), (ROUTES, is_nested), (ROUTES, is_folder),
    ]  # fmt: skip
    for name, damage in damages:
        path = folder / name
        if path.is_dir():
            path.rmdir()
        version, known = running.control_folder.routes().version, len(heard)
        damage(path)
        wait_for(lambda known=known: len(heard) >= known + 2, running)
        if name == ROUTES:
            wait_for(lambda version=version: (heard[-1].route_version or 0) > version, running)
        assert heard[-1].input_rows == 300, "the limit that was read last stays in force"
    assert list(folder.glob("routes.json.damaged-*"))
    (folder / ADMISSION).unlink()
    wait_for(lambda: finished(running)[-1].input_rows == 500, running)
    assert_no_row_is_missing_or_twice(running, "next", step=2)


def test_an_existing_query_gets_an_edge_without_a_topology(spark, tmp_path):
    control = str(tmp_path / "control")
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
    routed = stream.transform(ft.edge("parse", ft.Dynamic(), replicas=4, control_folder=control))
    counted = routed.groupBy(F.spark_partition_id().alias("task")).count()
    query = (
        counted.writeStream.format("memory").queryName("plain").outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "ck")).start()
    )  # fmt: skip
    try:
        wait_for(lambda: query.lastProgress is not None)
        ControlFolder(control).change_routes(lambda table: table.split("parse", [1, 0, 0, 0]))
        wait_for(lambda: query.lastProgress.observedMetrics["foretide_routes"]["version"] == 2)
    finally:
        query.stop()


def slowest_has_least(folder):
    first, slow, last = folder.routes().edges["slow"].counts
    return slow < min(first, last) - 50


def test_load_aware_gives_less_to_a_slow_replica(start):
    def slow_on_task_one(batches):
        from pyspark import TaskContext

        for batch in batches:
            time.sleep(batch.num_rows * (2e-4 if TaskContext.get().partitionId() == 1 else 2e-5))
            yield batch.select(["value"])

    source = ft.Replay(Keyed(seed=3), ft.Curve.constant(1_000_000, 1), paced=False, max_rows=3000)
    work = ft.Arrow(slow_on_task_one, "value long")
    slow = ft.Bolt("slow", work, [ft.From("numbers", ft.LoadAware(by=("row",), interval=2.0))], pool=3)
    pipeline = start(ft.Topology("aware", [ft.Spout("numbers", source)], [slow]))
    wait_for(lambda: slowest_has_least(pipeline.control_folder), pipeline)  # the first tasks also start Python
    pipeline.stop()
    assert_no_row_is_missing_or_twice(pipeline, "slow")


def test_a_load_aware_edge_of_any_query_is_split_by_decisions(spark, tmp_path):
    def slow_on_task_one(batches):
        from pyspark import TaskContext

        for batch in batches:
            time.sleep(batch.num_rows * (1e-3 if TaskContext.get().partitionId() == 1 else 2e-5))
            yield batch.select(["value"])

    control = str(tmp_path / "control")
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3000).load()
    routed = stream.transform(ft.edge("slow", ft.LoadAware(interval=1.0), replicas=3, control_folder=control))
    worked = routed.mapInArrow(slow_on_task_one, "value long")
    query = worked.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")).start()
    controller = ft.control(query, [], control_folder=control)
    try:
        folder = ControlFolder(control)
        wait_for(lambda: slowest_has_least(folder))
        made = lambda: [action for decision in controller.decisions for action in decision.actions]
        wait_for(lambda: len(made()) == folder.routes().version - 1)  # a decision is noted after it is carried out
        assert {wish.policy for decision in controller.decisions for wish in decision.chosen} == {"load_aware"}
        observer, version = controller.reader.observer, folder.routes().version
        wait_for(lambda: (observer.observed().route_version or 0) >= version)
    finally:
        controller.stop()
        query.stop()
