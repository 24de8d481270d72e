"""What is measured, against what is known to be true."""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import NormalDist

import pytest
from pyspark.sql import functions as F

import foretide as ft
from foretide.metrics.alarm_rules import AlarmRule
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level
from foretide.metrics.snapshot import Known, Unknown
from foretide.store.metric_store import MetricStore
from foretide.workloads.keyed import Keyed
from helpers import rows_taken, wait_for, work_off

pytestmark = pytest.mark.usefixtures("compiled_plans")

MEAN, SCV = 0.002, 1.5


def replay(rows, *, seconds=1, **options):
    return ft.Replay(Keyed(seed=1), ft.Curve.constant(rows / seconds, seconds), **options)


def passing(source, work=lambda df: df, **options):
    return ft.Topology("watched", [ft.Spout("source", source)], [ft.Bolt("keep", work, [ft.From("source")], **options)])


def sums(pipeline, metric, subject):
    """A counter over all batches, from the store."""
    with MetricStore.open(pipeline.monitor.store) as store:
        kept = store.read(pipeline.topology.name, metrics=[metric], subjects=[subject])
    return sum(sample.value for sample in kept)


def test_a_known_service_time_and_poisson_arrivals_are_measured(start, tmp_path):
    """Lognormal with mean 2 ms and variation 1.5: its quantiles in equal steps, so that the sample has its moments.

    Where the machine is busy the work takes longer than that, so the bolt notes how long it took; that is the truth.
    """
    rows = 4000
    log = str(tmp_path / "took")

    def work(row, mean=MEAN, scv=SCV, rows=rows, log=log):
        begun = time.perf_counter()
        spread = math.log(1 + scv)
        place = NormalDist().inv_cdf(((row["row"] * 1597) % rows + 0.5) / rows)
        seconds = math.exp(math.log(mean) - spread / 2 + place * math.sqrt(spread))
        while time.perf_counter() < begun + seconds:
            pass
        with Path(log).open("a") as file:
            file.write(f"{time.perf_counter() - begun}\n")
        yield {"row": row["row"]}

    curve = ft.Curve.constant(rows / 4, 4).with_poisson_arrivals(seed=3)
    topology = passing(ft.Replay(Keyed(seed=1), curve), ft.PerTuple(work, "row long"), pool=1, on_error="fail")
    settings = ft.MonitorSettings(time_every=1, smoothing={}, workers_every=0, machines_every=0)
    pipeline = start(topology, monitoring=settings)
    times = []
    pipeline.on_report(lambda report, _: times.append(report.python["keep"]))
    work_off(pipeline, rows)
    timed = sum(each.timed for each in times)
    mean = sum(each.seconds for each in times) / timed
    scv = sum(each.squares for each in times) / timed / mean**2 - 1
    took = [float(line) for line in Path(log).read_text().split()]
    truth = sum(took) / rows
    assert (timed, len(took)) == (rows, rows)
    assert truth > MEAN * 0.95
    assert mean == pytest.approx(truth, rel=0.05)
    assert scv == pytest.approx(sum(each**2 for each in took) / rows / truth**2 - 1, rel=0.15)
    with MetricStore.open(pipeline.monitor.store) as store:
        kept = store.read("watched", metrics=["arrival_scv"], subjects=["keep"])
    rows_at = {report.finished: report.input_rows for report in pipeline.reports}
    weighed = sum(sample.value * rows_at[sample.at] for sample in kept) / sum(rows_at[sample.at] for sample in kept)
    assert weighed == pytest.approx(1.0, rel=0.15)


def test_every_operator_of_a_branching_topology_gets_its_own_tuples_tasks_and_flows(start):
    """`a` feeds left and right, left and b feed both, both feeds Spark's own state: each count is known beforehand."""

    def twice(row):
        yield {"key": row["key"], "n": 1}
        yield {"key": row["key"], "n": 2}

    def per_second(df):
        seen = df.withWatermark("event_time", "1 second").groupBy(F.window("event_time", "1 second"), "key").count()
        return seen.select("key", F.col("count").alias("n"))

    topology = ft.Topology(
        "watched",
        [ft.Spout("a", replay(1200, paced=False)), ft.Spout("b", replay(600, paced=False))],
        [
            ft.Bolt("left", lambda df: df.where("row % 2 = 0"), [ft.From("a")], pool=3),
            ft.Bolt("right", ft.PerTuple(twice, "key long, n long"), [ft.From("a")], pool=2, on_error="fail"),
            ft.Bolt("both", lambda df: df.select("key", "event_time"), [ft.From("left"), ft.From("b")], pool=4),
            ft.Bolt("count", per_second, [ft.From("both", ft.Fields("key"))]),
        ],
    )
    pipeline = start(topology, monitoring=ft.MonitorSettings())
    first = threading.Event()
    seen = []
    pipeline.on_report(lambda report, _: (seen.append((report, pipeline.monitor.snapshot())), first.set()))
    work_off(pipeline, 1800)
    report, snapshot = next((report, snapshot) for report, snapshot in seen if report.input_rows == 1800)

    def value(metric, subject):
        return snapshot.value(metric, subject)

    processed = {name: value("processed", name) for name in ("a", "b", "left", "right", "both")}
    assert processed == {"a": 1200, "b": 600, "left": 1200, "right": 1200, "both": 1200}
    assert {name: value("emitted", name) for name in ("left", "right")} == {"left": 600, "right": 2400}
    assert value("selectivity", "left") == 0.5
    assert value("selectivity", "right") == 2.0
    flows = {subject: known.value for subject, known in snapshot.of("flow_fraction").items()}
    assert {name: flows[name] for name in ("a->left", "a->right", "left->both", "b->both")} == {
        "a->left": 1.0, "a->right": 1.0, "left->both": 0.5, "b->both": 1.0,
    }  # fmt: skip
    assert flows["both->count"] == value("processed", "count") / 1200
    assert [value("task_rows", f"left/{task}") for task in range(3)] == list(report.edges["left"].per_task)
    assert sum(value("task_rows", f"both/{task}") for task in range(4)) == 1200
    assert value("processed", "count") == sum(run.rows_in for run in report.tasks if run.operator == "count") > 0
    assert {run.operator for run in report.tasks} == {"a", "b", "left", "right", "both", "count"}
    assert all(run.task is not None for run in report.tasks)
    for operator in ("left", "right", "both", "count"):
        assert value("service_time_ms", operator) > 0
        assert value("true_processing_rate", operator) > 0
        assert 0 < value("utilization", operator) <= value("capacity", operator)
    assert isinstance(snapshot.figure("service_scv", "right"), Known)
    assert snapshot.figure("service_scv", "left") == Unknown()  # native: nobody times single tuples
    assert sums(pipeline, "acked", "a") == 1200


def test_latency_is_that_of_tuples_and_sources_without_a_clock_are_asked_for_it(start):
    topology = ft.Topology(
        "watched",
        [ft.Spout("ticks", ft.Rate(100), event_time="timestamp")],
        [ft.Bolt("keep", lambda df: df, [ft.From("ticks")], pool=2)],
    )
    pipeline = start(topology, monitoring=ft.MonitorSettings())
    wait_for(lambda: rows_taken(pipeline) >= 200, pipeline)
    pipeline.stop()
    report = next(report for report in pipeline.reports if report.input_rows)
    times = report.event_times["ticks"]
    assert times.tuples == report.input_rows
    snapshot = pipeline.monitor.snapshot()
    p50, p99 = snapshot.value("latency_p50_ms"), snapshot.value("latency_p99_ms")
    assert 0 < p50 < p99
    assert snapshot.value("complete_latency_ms", "ticks") == pytest.approx(snapshot.value("latency_mean_ms"))


def test_without_a_clock_latency_is_not_known(start):
    topology = ft.Topology(
        "watched", [ft.Spout("ticks", ft.Rate(100))], [ft.Bolt("keep", lambda df: df, [ft.From("ticks")], pool=2)]
    )
    pipeline = start(topology, monitoring=ft.MonitorSettings())
    work_off(pipeline, 100)
    assert pipeline.monitor.snapshot().figure("latency_p99_ms") == Unknown("not yet known")
    assert isinstance(pipeline.monitor.snapshot().figure("input_rows_per_second"), Known)


def test_an_event_time_that_is_not_there_is_a_problem_of_the_topology(start):
    topology = ft.Topology(
        "watched",
        [ft.Spout("ticks", ft.Rate(100), event_time="when")],
        [ft.Bolt("keep", lambda df: df, [ft.From("ticks")])],
    )
    with pytest.raises(ft.errors.TopologyError, match=r"no column 'when'.*timestamp"):
        start(topology, monitoring=ft.MonitorSettings())


class Inbox(BaseHTTPRequestHandler):
    got: list[dict] = []  # noqa: RUF012 - one inbox for the test

    def do_POST(self):
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        """Quiet."""


def test_alarms_go_to_the_store_a_webhook_and_prometheus_under_the_names_of_the_catalogue(start):
    def work(row):
        if row["row"] % 100 == 0:
            raise ValueError("no")
        yield row

    server = ThreadingHTTPServer(("127.0.0.1", 0), Inbox)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    schema = "key long, value long, row long"
    topology = passing(replay(500, paced=False, max_rows=250), ft.PerTuple(work, schema), pool=2, retries=0)
    settings = ft.MonitorSettings(webhook=f"http://127.0.0.1:{server.server_port}/", prometheus_port=0)
    pipeline = start(topology, monitoring=settings)
    wait_for(lambda: Inbox.got, pipeline)
    with urllib.request.urlopen(f"http://127.0.0.1:{pipeline.monitor.prometheus.port}/metrics") as answer:
        page = answer.read().decode()
    work_off(pipeline, 500)
    server.shutdown()
    server.server_close()
    assert Inbox.got[0]["rule"] == "tuples-failed"
    assert Inbox.got[0]["subject"] == "keep"
    names = {line.split("{")[0].removeprefix("foretide_") for line in page.splitlines() if line.startswith("foretide_")}
    assert {"failed", "input_rows", "utilization", "alarm"} <= names
    assert names - {"alarm"} <= set(CATALOGUE)
    assert sums(pipeline, "failed", "keep") == 5
    with MetricStore.open(pipeline.monitor.store) as store:
        assert "tuples-failed" in {alarm.rule for alarm in store.alarms("watched")}


def test_workers_and_machines_are_measured_beside_the_query(start):
    settings = ft.MonitorSettings(workers_every=0.5, machines_every=0.5)
    pipeline = start(passing(replay(4000, seconds=4), pool=2), monitoring=settings)
    work_off(pipeline, 4000)
    snapshot = pipeline.monitor.snapshot()
    levels = [CATALOGUE[metric].level for metric, _ in snapshot.figures]
    workers = {metric for metric, subject in snapshot.figures if subject == "driver"}
    (machine,) = {s for s in snapshot.subjects(Level.MACHINE) if "/core" not in s}
    machines = {metric for metric, subject in snapshot.figures if subject.partition("/")[0] == machine}
    assert len(workers) >= 24
    assert len(machines) >= 57
    assert len(workers | machines) > 70
    assert set(levels) == set(Level)
    assert snapshot.value("worker_heap_bytes", "driver") > 1e6
    assert snapshot.value("worker_inbound_tuples_per_second", "driver") > 0
    assert not snapshot.problems


def test_a_store_that_cannot_be_written_costs_the_metrics_and_not_the_query(start, tmp_path):
    (tmp_path / "file").write_text("in the way")
    settings = ft.MonitorSettings(store=str(tmp_path / "file" / "metrics.db"), workers_every=0, machines_every=0)
    pipeline = start(passing(replay(500, paced=False), pool=2), monitoring=settings)
    wait_for(lambda: pipeline.monitor.problems, pipeline)
    work_off(pipeline, 500)
    assert pipeline.output("keep").count() == 500
    assert isinstance(pipeline.monitor.snapshot().figure("input_rows"), Known)


def test_a_rule_of_ones_own_and_monitoring_switched_off(start):
    rule = AlarmRule("many", "input_rows", above=100, meaning="Many rows at once.")
    settings = ft.MonitorSettings(rules=(rule,), workers_every=0, machines_every=0, store="")
    pipeline = start(passing(replay(500, paced=False), pool=2), monitoring=settings)
    raised = []
    pipeline.on_report(lambda *_: raised.extend(alarm.rule.name for alarm in pipeline.monitor.alarms))
    work_off(pipeline, 500)
    assert "many" in raised
    bare = start(
        passing(replay(500, paced=False), pool=2),
        checkpoint=f"{pipeline.checkpoint}-2",
        sink=ft.Parquet(f"{pipeline.checkpoint}-output"),
        monitoring=None,
    )
    assert bare.monitor is None
    work_off(bare, 500)
