"""Hung batches, growing loops, the audit's alarms, and a follower that must never hurt the query."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

import foretide as ft
from foretide.cli.main import app
from foretide.control.actions.registry import SetReplicas
from foretide.control.decisions.decision import Wish
from foretide.control_folder.folder import ControlFolder, PipelineStatus
from foretide.metrics.audit import audit
from foretide.metrics.batch import EdgeFlow
from foretide.runtime.pipeline.query import Query
from foretide.spark import edges
from foretide.spark.edges import RECEIVED, SENT, exchange, observe_ids, placed
from foretide.spark.progress.reader import QueryReader
from foretide.spark.rest import SparkRest
from foretide.workloads.keyed import Keyed
from helpers import rows_taken, take_the_rest, wait_for, work_off


@dataclass(frozen=True)
class Once:
    """Wishes one action until it is in force."""

    action: object
    name: str = "once"

    def start(self):
        return None

    def wish(self, state, world):
        return state, [Wish(self.name, self.action, "the test says so")]


def source(rows=300, a_batch=100):
    return ft.Replay(Keyed(seed=1), ft.Curve.constant(rows, 1), paced=False, max_rows=a_batch)


def hanging(flag, rows=300):
    def work(row):
        while row["value"] == 150 and Path(flag).exists():
            time.sleep(0.1)
        yield {"value": row["value"]}

    bolt = ft.Bolt("work", ft.PerTuple(work, "value long"), [ft.From("numbers")], pool=2)
    return ft.Topology("hang", [ft.Spout("numbers", source(rows))], [bolt])


def test_a_batch_that_hangs_is_cancelled_and_replayed(start, tmp_path):
    flag = tmp_path / "hang"
    flag.touch()
    pipeline = start(hanging(str(flag)), batch_timeout=6, tries=1000)
    wait_for(lambda: pipeline.restarts >= 1)
    flag.unlink()
    wait_for(lambda: rows_taken(pipeline) >= 300)
    pipeline.stop()
    pipeline.raise_failure()
    assert sorted(row.value for row in pipeline.output("work").collect()) == list(range(300))


def test_a_batch_that_hangs_for_ever_is_given_up_after_its_tries(start, tmp_path):
    flag = tmp_path / "hang"
    flag.touch()
    pipeline = start(hanging(str(flag)), batch_timeout=5, tries=2)
    with pytest.raises(ft.errors.BatchTimeoutError) as caught:
        pipeline.wait(600)
    flag.unlink()
    assert (caught.value.tries, caught.value.timeout) == (2, 5)
    assert pipeline.output("work").count() == 100 * caught.value.batch


def test_a_loop_that_keeps_growing_is_stopped_with_an_error_that_says_so(start):
    def double(df):
        return df.selectExpr("value", "explode(array('again', 'again')) AS stream")

    spout = ft.Spout("numbers", ft.Stream(lambda spark: spark.readStream.format("rate").load().select("value")))
    loop = ft.Bolt("twice", double, [ft.From("numbers"), ft.From("twice", stream="again", feedback=True)],
                   pool=2, streams=("again",))  # fmt: skip
    pipeline = start(ft.Topology("growing", [spout], [loop]), loop_patience=5)
    with pytest.raises(ft.errors.FeedbackGrowthError, match="keeps growing") as caught:
        pipeline.wait(600)
    assert caught.value.gain > 1
    assert not pipeline.query.isActive


def test_feedback_that_does_not_fit_the_loops_entry_is_refused(spark, start):
    bad = ft.Bolt("loop", lambda df: df.selectExpr("'x' AS value", "'again' AS stream"),
                  [ft.From("numbers"), ft.From("loop", stream="again", feedback=True)], streams=("again",))  # fmt: skip
    with pytest.raises(ft.errors.TopologyError, match="value: string"):
        start(ft.Topology("misfit", [ft.Spout("numbers", source())], [bad]))


def test_the_xor_of_ids_finds_a_tuple_that_was_lost_or_changed_on_the_way(spark, tmp_path):
    """An edge with a fault built in: between its two sides a row is replaced by another, so that counts agree."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load().select("value")
    folder = ControlFolder(str(tmp_path / "control"))
    sent = observe_ids(placed(stream, "faulty", ft.Shuffle(), 2, folder), f"{SENT}faulty")
    changed = sent.selectExpr("if(value % 50 = 7, value + 1, value) AS value", "_ft_faulty")
    arrived = observe_ids(exchange(changed, "faulty", 2).selectExpr("value", "0 AS _ft_faulty"), f"{RECEIVED}faulty")
    query = arrived.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")).start()
    reader = QueryReader(query)
    reports = []
    try:
        wait_for(lambda: reports.extend(reader.reports()) or reports)
    finally:
        query.stop()
        reader.close()
    alarms = [alarm for alarm in audit(reports[0], {}) if alarm.kind == "ids-differ"]
    assert [(alarm.edge, alarm.batch) for alarm in alarms] == [("faulty", reports[0].batch)]


TWICE = "explode(if(value % 50 = 8, array(1, 2), array(1))) AS _x"
FAULTS = {
    "lost": lambda frame: frame.where("value % 50 != 7"),
    "doubled": lambda frame: frame.selectExpr("*", TWICE).drop("_x"),
    "lost and doubled": lambda frame: frame.where("value % 50 != 7").selectExpr("*", TWICE).drop("_x"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_rows_lost_or_doubled_behind_the_exchange_are_an_alarm_by_default(start, monkeypatch, fault):
    """Where Spark's own counts cannot see it; with as many doubled as lost, the counts of rows agree too."""
    barrier = edges.barrier
    monkeypatch.setattr(edges, "barrier", lambda frame: fault(barrier(frame)))
    bolt = ft.Bolt("keep", lambda df: df, [ft.From("numbers", ft.Dynamic(by=("value",)))], pool=2)
    pipeline = start(ft.Topology("faulty", [ft.Spout("numbers", source(100, 100))], [bolt]))
    work_off(pipeline, 100)
    assert [(alarm.kind, alarm.edge) for alarm in pipeline.alarms] == [("ids-differ", "keep")]


def test_ids_are_left_out_where_they_would_take_too_much_of_a_batch(spark, tmp_path, caplog):
    sink, folder = ft.Parquet(str(tmp_path / "out")), ControlFolder(str(tmp_path / "control"))
    bolt = ft.Bolt("keep", lambda df: df, [ft.From("numbers")], pool=2)
    topology = ft.Topology("heavy", [ft.Spout("numbers", source(100, 100))], [bolt])

    def audited(**settings):
        chosen = ft.RunSettings(monitoring=None, **settings)
        query = Query(spark, topology, sink, str(tmp_path / "checkpoint"), chosen, folder)
        return SENT in query.compiled.frame._jdf.queryExecution().analyzed().toString()

    assert audited()
    assert not audited(audit_ids=False)
    rows = 1_000_000
    folder.status.write(PipelineStatus(3, 0.0, rows, edges={"keep": EdgeFlow(rows, rows)}, duration=2.0))
    assert not audited()
    assert "would have taken 25.0 % of the last batch" in caplog.text
    assert audited(max_audit_share=1.0)
    folder.status.write(PipelineStatus(4, 0.0, 5000, edges={"keep": EdgeFlow(5000, 5000)}, duration=0.5))
    assert audited()


def test_the_audit_counts_every_edge_of_every_batch(start):
    pipeline = start(ft.Topology("counted", [ft.Spout("numbers", source(300, 50))], [
        ft.Bolt("one", lambda df: df, [ft.From("numbers", ft.Dynamic())], pool=3),
        ft.Bolt("two", lambda df: df.where("value % 2 = 0"), [ft.From("one", ft.Fields("key"))], pool=2),
        ft.Bolt("all", lambda df: df, [ft.From("two", ft.All())], pool=2),
        ft.Bolt("end", lambda df: df, [ft.From("all", ft.Global())]),
    ]), audit_ids=True)  # fmt: skip
    work_off(pipeline, 300)
    assert not pipeline.alarms
    for report in [report for report in pipeline.reports if report.input_rows]:
        assert set(report.edges) == {"one", "two", "all", "end"}
        assert report.edges["one"].written == report.edges["one"].read == 50
        assert report.edges["two"].written == report.edges["two"].read == 50
        assert report.edges["all"].written == 2 * 25
        assert report.edges["end"].per_task == (50,)
        assert set(report.ids) == {"one", "two", "all", "end"}
        assert report.ids["one"].sent_ids == report.ids["one"].received_ids is not None


def test_a_listener_that_fails_or_a_rest_that_is_gone_leaves_the_query_running(spark, start, caplog, monkeypatch):
    pipeline = start(ft.Topology("sturdy", [ft.Spout("numbers", source(2000, 50))], [
        ft.Bolt("keep", lambda df: df, [ft.From("numbers")], pool=2)]))  # fmt: skip
    pipeline.on_report(lambda report, alarms: 1 / 0)
    wait_for(lambda: pipeline.reports, pipeline)
    rest = SparkRest.of(spark.sparkContext)
    monkeypatch.setattr(rest._connection, "port", 9)  # nobody answers there
    rest.close()
    wait_for(lambda: any(alarm.kind == "audit-unavailable" for alarm in pipeline.alarms), pipeline)
    take_the_rest(pipeline, "numbers", 2000)
    assert pipeline.output("keep").count() == 2000
    assert "the query runs on" in caplog.text
    monkeypatch.undo()
    rest.close()


def failing(flag):
    def work(row):
        if row["value"] == 150 and Path(flag).exists():
            raise ValueError("not today")
        yield {"value": row["value"]}

    bolt = ft.Bolt("work", ft.PerTuple(work, "value long"), [ft.From("numbers")], pool=2, on_error="fail", retries=0)
    return ft.Topology("mortal", [ft.Spout("numbers", source())], [bolt])


def test_a_query_that_dies_is_started_again_from_its_checkpoint(start, tmp_path):
    flag = tmp_path / "fails"
    flag.touch()
    pipeline = start(failing(str(flag)), revive=3)
    wait_for(lambda: pipeline.restarts >= 1)
    flag.unlink()
    wait_for(lambda: rows_taken(pipeline) >= 300)
    pipeline.stop()
    pipeline.raise_failure()
    assert sorted(row.value for row in pipeline.output("work").collect()) == list(range(300))


def test_a_second_pipeline_on_a_checkpoint_is_refused_and_the_first_goes_on(start):
    work = ft.Bolt("work", lambda rows: rows, [ft.From("numbers")])
    topology, broken = (ft.Topology(name, [ft.Spout("numbers", source())], [work]) for name in ("app", "a/b"))
    with pytest.raises(ft.errors.TopologyError):
        start(broken)
    first = start(topology)
    with pytest.raises(ft.errors.ControlFolderError, match="is used by query 'app'"):
        start(topology)
    work_off(first, 300)
    second = start(topology)
    second.stop()
    second.raise_failure()


def test_what_a_query_committed_just_before_it_died_is_still_reported(start, tmp_path, monkeypatch):
    monkeypatch.setattr(QueryReader, "_flows", lambda *_, **__: None)  # Spark's metrics come late, so reports wait
    flag = tmp_path / "fails"
    flag.touch()
    pipeline = start(failing(str(flag)), revive=3)
    wait_for(lambda: pipeline.restarts >= 1)
    assert [report.batch for report in pipeline.reports] == [0]


def test_any_query_with_edges_can_be_controlled_and_stopped_from_another_terminal(spark, tmp_path):
    """Two lines for somebody with a job of their own: an edge, and `ft.control`."""
    edge = ft.edge("work", ft.Dynamic(by=("value",)), replicas=1, pool=3, control_folder=str(tmp_path / "control"))
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).load()
    worked = stream.transform(edge).selectExpr("value", "spark_partition_id() AS task")
    writer = worked.writeStream.queryName("plain").trigger(processingTime="200 milliseconds")
    query = writer.format("memory").option("checkpointLocation", str(tmp_path / "ck")).start()
    more = Once(SetReplicas("work", 3))
    before = set(threading.enumerate())
    with pytest.raises(ft.errors.SettingsError, match="nope"):
        ft.control(query, ["nope"], control_folder=str(tmp_path / "control"))
    assert set(threading.enumerate()) == before
    controller = ft.control(
        query, [more], ft.Latency(p99="2s"), settings=ft.Settings(), control_folder=str(tmp_path / "control")
    )
    folder = ControlFolder(str(tmp_path / "control"))
    try:
        with pytest.raises(ft.errors.ControlFolderError, match="a control loop is attached to query 'plain'"):
            ft.control(query, ["replicas"], settings=ft.Settings(), control_folder=str(tmp_path / "control"))
        other = stream.transform(edge).writeStream.queryName("other").format("noop").start()
        with pytest.raises(ft.errors.ControlFolderError, match=r"is used by query 'plain' .* folder of its own"):
            ft.control(other, ["replicas"], settings=ft.Settings(), control_folder=str(tmp_path / "control"))
        other.stop()
        wait_for(lambda: controller.last is not None and more.action.in_force(controller.reader.observer.observed()))
        wait_for(lambda: {row.task for row in spark.table("plain").collect()} == {0, 1, 2})
        shown = CliRunner().invoke(app, ["status", "--app", "plain"])
        assert "decision" in shown.output
        assert "use 3 replicas behind edge 'work'" in shown.output
        assert "plain" in CliRunner().invoke(app, ["list"]).output
        assert CliRunner().invoke(app, ["target", "set", "--app", "plain", "--latency", "4s"]).exit_code == 0
        assert controller.target.latency == 4.0
        assert CliRunner().invoke(app, ["stop", "--app", "plain"]).exit_code == 0
        assert not query.isActive
        assert folder.status.control().ended
    finally:
        query.stop()
    setup = controller.reader.read().setup
    assert [(part.name, part.edge, part.spout) for part in setup.operators] == [
        ("source", None, True),
        ("work", "work", False),
    ]
    assert setup.flows == (("source", "work"),)
