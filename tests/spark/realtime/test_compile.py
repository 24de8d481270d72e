"""Topologies compiled for real-time mode: run as batches over a small table, what their counters show."""

from __future__ import annotations

import time

import pytest
from pyspark.sql import functions as F

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.errors import TopologyError
from foretide.metrics.task_meters import parse_counters, property_of, total, work_between
from foretide.spark.realtime import compile as compiling
from foretide.spark.realtime import edges
from foretide.spark.realtime.compile import compile_real_time
from foretide.spark.realtime.edges import key_of
from foretide.spark.realtime.meters import create_counters, driver_counters

pytestmark = pytest.mark.spark
ROWS, PARTITIONS, WORK_SECONDS = 40, 2, 0.002
ONE_ROW_A_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


class Port:
    """Loads a table, or a stream, instead of a topic; records are two seconds old."""

    def __init__(self, frame):
        self.frame = frame

    def load(self, context):
        if context.timestamp_column is None:
            return self.frame
        now = F.unix_micros(F.current_timestamp())
        return self.frame.withColumn(context.timestamp_column, now - 2_000_000)


@pytest.fixture
def compiled(spark, tmp_path, monkeypatch):
    """Compiles bolts behind the spout `in`, in the session of all tests."""
    folder = ControlFolder(str(tmp_path / "control"))
    monkeypatch.setattr(edges, "check_mode", lambda *_: None)
    monkeypatch.setattr(edges, "apply_mode", lambda *_: None)

    def compile_bolts(*bolts, frame=None):
        table = spark.range(0, ROWS, 1, PARTITIONS) if frame is None else frame
        monkeypatch.setattr(compiling, "source_port", lambda _: Port(table))
        topology = ft.Topology("t", [ft.Spout("in", ft.KafkaSource("host:1", "in"))], bolts)
        sink = ft.KafkaSink("host:1", "out-{stream}")
        return compile_real_time(spark, topology, sink, folder, "at-least-once", {"in": PARTITIONS}), key_of(folder)

    return compile_bolts


@pytest.fixture
def run(spark, compiled):
    """Runs what is compiled, query by query, and returns the work that each counter shows."""
    spark.conf.set(ONE_ROW_A_BATCH, "1")
    created = []

    def run_bolts(*bolts):
        made, key = compiled(*bolts)
        create_counters(spark, key, made.counters)
        created.extend(property_of(key, name, tasks) for name, tasks in made.counters.items())
        for query in made.queries:
            query.collect()
        texts = driver_counters(spark, created)["driver"]
        works = {name: parse_counters(texts[property_of(key, name, tasks)]) for name, tasks in made.counters.items()}
        return made, {name: total(work_between(None, each) for each in meters) for name, meters in works.items()}

    yield run_bolts
    spark.conf.unset(ONE_ROW_A_BATCH)
    for name in created:
        spark._jvm.java.lang.System.getProperties().remove(name)


def half(row):
    if row["id"] % 4 == 1:
        raise ValueError("not this one")
    yield {"id": row["id"]}


def slow(row):
    time.sleep(WORK_SECONDS)
    yield {"id": row["id"], "seen": sorted(row)}


def python(name, work, source, schema="id long", **options):
    return ft.Bolt(name, ft.PerTuple(work, schema), [ft.From(source)], pool=2, retries=0, **options)


def test_a_path_is_metered_in_one_query_to_its_end(run):
    """Both bolts write dead letters, so each has a branch; those of the first one do not go to the second."""
    made, works = run(python("a", half, "in"), python("b", slow, "a", "id long, seen array<string>"))
    assert len(made.queries) == 2
    assert made.metered == {"in": 2, "a": 2, "b": 2}
    assert made.sinks == {}
    assert [works[name].tuples for name in ("in", "a", "b")] == [40, 40, 30]
    assert [works[name].emitted for name in ("in", "a", "b")] == [40, 30, 30]
    assert [works[name].timed for name in ("in", "a", "b")] == [40, 40, 30]
    assert sum(works["b"].latencies) == 30
    assert 2.0 <= works["b"].mean_latency < 200
    assert WORK_SECONDS <= works["b"].seconds / works["b"].timed < 25 * WORK_SECONDS
    rows = [row for query in made.queries for row in query.collect() if row.stream == "b"]
    assert {tuple(row.seen) for row in rows} == {("id",)}  # the work sees no column of ours


def test_each_branch_knows_latency_at_its_end_and_shared_operators_are_counted_once(run):
    """The shared bolt is native work that drops all columns but its own: what it does not hand on is not lost."""
    shared = ft.Bolt("a", lambda df: df.selectExpr("id * 2 as double"), [ft.From("in")], pool=2)
    ends = [
        ft.Bolt("b", lambda df: df, [ft.From("a")], pool=2),
        python("c", lambda row: iter([row]), "a", "double long"),
    ]
    made, works = run(shared, *ends)
    assert made.metered == {"in": 2, "a": 2, "b": 2, "c": 2}
    assert [works[name].tuples for name in ("in", "a", "b", "c")] == [40, 40, 40, 40]
    assert [sum(works[name].latencies) for name in ("b", "c")] == [40, 40]
    assert min(works[name].mean_latency for name in ("b", "c")) >= 2.0


def test_a_stream_to_the_sink_is_measured_there_and_not_counted_as_sent_on(run):
    split = "id, if(id % 10 = 0, 'tens', 'others') stream"
    first = ft.Bolt("a", lambda df: df.selectExpr(*split.split(", ", 1)), [ft.From("in")], pool=2,
                    streams=("tens", "others"))  # fmt: skip
    made, works = run(first, ft.Bolt("b", lambda df: df, [ft.From("a", stream="others")], pool=2))
    assert list(made.sinks) == ["a.sink"]
    assert sum(works["a.sink"].latencies) == 4
    assert (works["a"].tuples, works["a"].timed, works["a"].emitted, works["b"].tuples) == (40, 40, 36, 36)
    assert sum(works["b"].latencies) == 36


def test_a_python_bolt_in_the_tasks_of_the_one_before_hands_on_timestamps(run):
    local = [ft.From("in", ft.LocalOrShuffle())]
    made, works = run(ft.Bolt("a", ft.PerTuple(slow, "id long, seen array<string>"), local), ft.Bolt(
        "b", lambda df: df, [ft.From("a")], pool=2))  # fmt: skip
    assert made.metered == {"in": 2, "b": 2}
    assert (works["in"].tuples, works["in"].timed, works["b"].tuples, sum(works["b"].latencies)) == (40, 40, 40, 40)
    assert works["in"].seconds / works["in"].timed >= WORK_SECONDS


def test_a_dead_letter_has_the_columns_of_the_bolt_and_none_of_ours(run):
    work = lambda row: iter([{"id": row["id"], "stream": "unknown"}])
    made, _ = run(python("a", work, "in", "id long, stream string", streams=("one", "two")))
    letters = [row.dead_letter.tuple for query in made.queries for row in query.collect()]
    assert min(letters) == '{"id":0,"stream":"unknown"}'
    assert len(letters) == ROWS


def joined(df):
    return df.alias("one").join(df.alias("other"), F.expr("one.value = other.value")).select("one.value")


def with_python_state(df):
    from pyspark.sql.streaming import StatefulProcessor

    class Keeps(StatefulProcessor):
        def init(self, handle):
            pass

        def handleInputRows(self, key, rows, timer_values):  # noqa: N802 - Spark's names
            yield from rows

        def close(self):
            pass

    grouped = df.groupBy("value")
    return grouped.transformWithState(Keeps(), "value long", "update", "none")


@pytest.mark.parametrize(
    ("work", "what"),
    [(joined, "a join of two streams"), (with_python_state, "the stateful operator TransformWithStateInPySpark")],
)
def test_state_that_real_time_mode_cannot_run_is_refused_by_name_with_the_way_out(spark, compiled, work, what):
    stream = spark.readStream.format("rate").load().select("value")
    with pytest.raises(TopologyError) as refused:
        compiled(ft.Bolt("keep", work, [ft.From("in")]), frame=stream)
    (problem,) = refused.value.problems
    assert problem.where == "keep"
    assert problem.what == f"has {what}, which real-time mode cannot run"
    assert 'mode="micro-batch"' in problem.remedy
