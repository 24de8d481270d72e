"""Topologies on Spark: fan-out, several inputs, named streams, dead letters, and what is refused."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.spark.compile.topology import compile_topology
from foretide.workloads.keyed import Keyed
from helpers import rows_taken, wait_for, work_off

ROWS = 3000


def replay(rows=ROWS, **options):
    curve = ft.Curve.constant(rows, 1)
    return ft.Replay(Keyed(seed=1, keys=20), curve, paced=False, **options)


def keep(frame):
    return frame


def plan_of(pipeline):
    return pipeline.query._jsq.streamingQuery().lastExecution().executedPlan().toString()


def counting(spark):
    """An Arrow bolt that passes tuples on, and counts how many it saw in all."""
    seen = spark.sparkContext.accumulator(0)

    def work(batches):
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch.select(["key", "value"])

    return ft.Arrow(work, "key long, value long"), seen


def test_a_bolt_with_two_consumers_and_a_sink_runs_once(spark, start):
    work, seen = counting(spark)
    topology = ft.Topology(
        "fan",
        [ft.Spout("numbers", replay())],
        [
            ft.Bolt("shared", work, [ft.From("numbers", ft.Shuffle(by=("row",)))], pool=2),
            ft.Bolt("even", lambda df: df.where("value % 2 = 0"), [ft.From("shared", ft.Dynamic())], pool=3),
            ft.Bolt("odd", lambda df: df.where("value % 2 = 1"), [ft.From("shared", ft.Fields("key"))], pool=2),
        ],
    )
    pipeline = start(topology)
    work_off(pipeline, ROWS)
    assert seen.value == ROWS
    assert "ReusedExchange" in plan_of(pipeline)
    assert sorted(row.value for row in pipeline.output("even").collect()) == list(range(0, ROWS, 2))
    assert sorted(row.value for row in pipeline.output("odd").collect()) == list(range(1, ROWS, 2))


def test_a_spout_with_two_consumers_is_read_once(start):
    topology = ft.Topology(
        "two-readers",
        [ft.Spout("numbers", replay())],
        [
            ft.Bolt("one", lambda df: df.select("value"), [ft.From("numbers")], pool=2),
            ft.Bolt("two", lambda df: df.select("key"), [ft.From("numbers", ft.Global())]),
        ],
    )
    pipeline = start(topology)
    work_off(pipeline, ROWS)
    assert plan_of(pipeline).count("MicroBatchScan") == 1
    assert rows_taken(pipeline) == ROWS
    assert (pipeline.output("one").count(), pipeline.output("two").count()) == (ROWS, ROWS)


def windows(df):
    return df.withWatermark("event_time", "1 second").groupBy(F.window("event_time", "1 second"), "key").count()


def test_spark_loses_the_watermark_of_all_but_one_reader_of_shared_state(spark, tmp_path):
    """Why shared state is refused; when Spark gives both sides the same, the refusal may go."""
    spark.conf.set("spark.sql.adaptive.streaming.stateless.enabled", "false")
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("event_time timestamp, key int").json(str(tmp_path / "in"))
    counted = windows(stream)
    both = counted.selectExpr("'one' AS s", "count").union(counted.selectExpr("'two' AS s", "count"))
    query = both.writeStream.format("memory").queryName("shared").option("checkpointLocation", str(tmp_path / "ck"))
    (tmp_path / "in" / "a.json").write_text('{"event_time":"2026-01-01T00:00:00Z","key":1}')
    started = query.start()
    try:
        wait_for(lambda: started.lastProgress is not None and started.lastProgress.numInputRows)
        (tmp_path / "in" / "b.json").write_text('{"event_time":"2026-01-02T00:00:00Z","key":1}')
        started.processAllAvailable()
    finally:
        started.stop()
    found = {row["s"]: row["n"] for row in spark.sql("SELECT s, count(*) AS n FROM shared GROUP BY s").collect()}
    assert found == {"one": 1}


@pytest.mark.parametrize("behind", [
    [ft.Bolt("one", keep, [ft.From("count")]), ft.Bolt("two", keep, [ft.From("count", ft.Global())])],
    [ft.Bolt("next", keep, [ft.From("count")]), ft.Bolt("one", keep, [ft.From("next")]),
     ft.Bolt("two", keep, [ft.From("next")])],
    [ft.Bolt("python", ft.PerTuple(lambda row: iter([row]), "key long"), [ft.From("count")]),
     ft.Bolt("end", keep, [ft.From("python")])],
])  # fmt: skip
def test_several_readers_behind_sparks_own_state_are_refused(spark, tmp_path, behind):
    count = ft.Bolt("count", windows, [ft.From("numbers", ft.Fields("key"))])
    with pytest.raises(ft.errors.TopologyError, match="Spark cannot share"):
        compile_only(spark, tmp_path, ft.Topology("t", [ft.Spout("numbers", replay())], [count, *behind]))


def test_a_watermark_in_front_of_several_readers_is_refused_and_behind_them_is_right(spark, start, tmp_path):
    early = ft.Bolt("early", lambda df: df.withWatermark("event_time", "1 second"), [ft.From("numbers")])
    count = lambda df: df.groupBy(F.window("event_time", "1 second"), "key").count()
    readers = [ft.Bolt(name, count, [ft.From("early", ft.Fields("key"))]) for name in ("one", "two")]
    with pytest.raises(ft.errors.TopologyError, match="Declare the watermark in the bolt that needs it"):
        compile_only(spark, tmp_path, ft.Topology("t", [ft.Spout("numbers", replay())], [early, *readers]))
    late = [ft.Bolt(name, windows, [ft.From("numbers", ft.Fields("key"))]) for name in ("one", "two")]
    pipeline = start(ft.Topology("t", [ft.Spout("numbers", replay(flush=60.0, max_rows=2000))], late))
    wait_for(lambda: pipeline.reports and pipeline.reports[-1].input_rows == 0, pipeline)
    pipeline.stop()
    assert sorted(pipeline.output("one").collect()) == sorted(pipeline.output("two").collect())
    assert pipeline.output("two").where("key IS NOT NULL").groupBy().sum("count").first()[0] == ROWS


def test_several_inputs_are_tagged_and_share_one_exchange(start):
    def note(df):
        return df.select("value", "_source", F.spark_partition_id().alias("task"), "key")

    topology = ft.Topology(
        "two-inputs",
        [ft.Spout("left", replay(1000)), ft.Spout("right", replay(500))],
        [ft.Bolt("both", note, [ft.From("left", ft.Fields("key")), ft.From("right", ft.Fields("key"))], pool=3)],
    )
    pipeline = start(topology)
    work_off(pipeline, 1500)
    rows = pipeline.output("both").collect()
    assert plan_of(pipeline).count("Exchange shufflepartition") == 1
    assert sorted(row.value for row in rows if row["_source"] == "left") == list(range(1000))
    assert sorted(row.value for row in rows if row["_source"] == "right") == list(range(500))
    homes = {}
    assert all(homes.setdefault(row["key"], row["task"]) == row["task"] for row in rows)


def test_named_streams_reach_their_readers_and_unknown_ones_become_dead_letters(start):
    def sort_out(df):
        stream = F.expr(
            "CASE WHEN value % 3 = 0 THEN 'fizz' WHEN value % 3 = 1 THEN 'rest' WHEN value % 6 = 2 THEN 'what' END"
        )
        return df.select("value", stream.alias("stream"))

    topology = ft.Topology(
        "streams",
        [ft.Spout("numbers", replay(600))],
        [
            ft.Bolt("sort", sort_out, [ft.From("numbers")], pool=2, streams=("fizz", "rest")),
            ft.Bolt("after", keep, [ft.From("sort", stream="rest")], pool=2),
        ],
    )
    pipeline = start(topology)
    work_off(pipeline, 600)
    assert {row.value for row in pipeline.output("sort.fizz").collect()} == set(range(0, 600, 3))
    assert {row.value for row in pipeline.output("after").collect()} == set(range(1, 600, 3))
    letters = [row.dead_letter for row in pipeline.output("dead_letters").collect()]
    assert {json.loads(letter.tuple)["value"] for letter in letters} == set(range(2, 600, 3))
    assert {letter.error for letter in letters} == {"UnknownStream: what", "UnknownStream: null"}
    assert {letter.bolt for letter in letters} == {"sort"}


def fragile(kind):
    """Work that cannot stand the number thirteen."""

    def per_tuple(row):
        if row["value"] % 100 == 13:
            raise ValueError("thirteen")
        yield {"value": row["value"]}

    def batches(incoming):
        for batch in incoming:
            if any(value % 100 == 13 for value in batch["value"].to_pylist()):
                raise ValueError("thirteen")
            yield batch.select(["value"])

    return ft.PerTuple(per_tuple, "value long") if kind == "per tuple" else ft.Arrow(batches, "value long")


@pytest.mark.parametrize("work", [fragile("per tuple"), fragile("Arrow")], ids=["per tuple", "Arrow"])
def test_a_failing_tuple_goes_to_the_dead_letters_and_the_query_goes_on(start, work):
    topology = ft.Topology(
        "dead",
        [ft.Spout("numbers", replay())],
        [
            ft.Bolt("fragile", work, [ft.From("numbers")], pool=2, retries=1),
            ft.Bolt("after", keep, [ft.From("fragile")], pool=2),
        ],
    )
    pipeline = start(topology)
    work_off(pipeline, ROWS)
    bad = {value for value in range(ROWS) if value % 100 == 13}
    letters = [row.dead_letter for row in pipeline.output("dead_letters").collect()]
    assert {json.loads(letter.tuple)["value"] for letter in letters} == bad
    assert {(letter.bolt, letter.error, letter.attempts) for letter in letters} == {
        ("fragile", "ValueError: thirteen", 2)
    }
    assert sorted(row.value for row in pipeline.output("after").collect()) == sorted(set(range(ROWS)) - bad)


@pytest.mark.parametrize("work", [fragile("per tuple"), fragile("Arrow")], ids=["per tuple", "Arrow"])
def test_on_error_fail_stops_the_query_and_commits_nothing_of_the_batch(start, work):
    topology = ft.Topology(
        "strict",
        [ft.Spout("numbers", replay())],
        [ft.Bolt("fragile", work, [ft.From("numbers")], pool=2, on_error="fail")],
    )
    pipeline = start(topology)
    with pytest.raises(Exception, match="thirteen"):
        pipeline.wait(120)


def test_malformed_rows_of_a_native_bolt_survive_with_try_expressions(spark, start, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1\n2\nnot a number\n\n5\n")
    files = ft.Files(str(tmp_path / "in"), "value string", "text")
    parse = lambda df: df.select(F.expr("try_cast(value AS int)").alias("n"), F.col("value").alias("raw"))
    pipeline = start(ft.Topology("parse", [ft.Spout("lines", files)], [ft.Bolt("parse", parse, [ft.From("lines")])]))
    work_off(pipeline, 5)
    assert {row.raw: row.n for row in pipeline.output("parse").collect()} == {
        "1": 1, "2": 2, "not a number": None, "": None, "5": 5,
    }  # fmt: skip


def compile_only(spark, tmp_path, topology, sink=None, guarantee="exactly-once"):
    folder = ControlFolder(str(tmp_path / "control"))
    return compile_topology(spark, topology, sink or ft.Parquet(str(tmp_path / "out")), folder, guarantee)


def test_all_problems_are_reported_at_once_schemas_included(spark, tmp_path):
    topology = ft.Topology(
        "broken",
        [ft.Spout("numbers", replay())],
        [
            ft.Bolt("keyless", keep, [ft.From("numbers", ft.Fields("nope"))], pool=2),
            ft.Bolt("lost", keep, [ft.From("nobody")]),
            ft.Bolt("many", keep, [ft.From("numbers")], pool=2, replicas=3),
            ft.Bolt("broken-sql", lambda df: df.selectExpr("no_such_column"), [ft.From("numbers")]),
            ft.Bolt("untagged", keep, [ft.From("numbers")], streams=("a", "b")),
            ft.Bolt("count", lambda df: df.groupBy("key").count(), [ft.From("numbers", ft.Dynamic())], pool=2),
        ],
    )
    with pytest.raises(ft.errors.TopologyError) as caught:
        compile_only(spark, tmp_path, topology, ft.Console(), "exactly-once")
    said = str(caught.value)
    for part in (
        "'nope'",
        "'nobody'",
        "3 active replicas",
        "no_such_column",
        "no column 'stream'",
        "partial then merge",
        "console",
    ):
        assert part in said, part


@pytest.mark.parametrize("bolt", [
    {"inputs": [ft.From("numbers", ft.Shuffle())], "pool": 4},
    {"inputs": [ft.From("numbers", ft.Fields("key"))], "replicas": 2},
    {"inputs": [ft.From("numbers", ft.Dynamic())]},
    {"inputs": [ft.From("numbers", ft.LoadAware())]},
])  # fmt: skip
@pytest.mark.parametrize("work", [
    lambda df: df.groupBy("key").count(),
    lambda df: df.withWatermark("event_time", "1 second").dropDuplicatesWithinWatermark(["key"]),
    lambda df: df.distinct(),
])  # fmt: skip
def test_replicas_in_front_of_sparks_own_state_are_refused(spark, tmp_path, bolt, work):
    topology = ft.Topology("t", [ft.Spout("numbers", replay())], [ft.Bolt("count", work, **bolt)])
    with pytest.raises(ft.errors.TopologyError, match="partial then merge"):
        compile_only(spark, tmp_path, topology)


@pytest.mark.parametrize("grouping", [ft.Shuffle(), ft.Fields("key"), ft.Global()])
def test_an_edge_that_nobody_steers_is_left_to_sparks_own_exchange(spark, tmp_path, grouping):
    bolt = ft.Bolt("count", lambda df: df.groupBy("key").count(), [ft.From("numbers", grouping)])
    compiled = compile_only(spark, tmp_path, ft.Topology("t", [ft.Spout("numbers", replay())], [bolt]))
    assert "_ft_count" not in compiled.frame._jdf.queryExecution().analyzed().toString()


def test_a_static_aggregate_inside_a_bolt_is_not_taken_for_state(spark, tmp_path):
    def look_up(df):
        table = spark.range(20).groupBy("id").count().withColumnRenamed("id", "key")
        return df.join(table, "key", "left")

    topology = ft.Topology(
        "t", [ft.Spout("numbers", replay())], [ft.Bolt("look", look_up, [ft.From("numbers")], pool=3)]
    )
    assert "count" in compile_only(spark, tmp_path, topology).columns["look"]


def test_streams_of_different_types_cannot_share_the_sink(spark, tmp_path):
    topology = ft.Topology(
        "t",
        [ft.Spout("numbers", replay())],
        [
            ft.Bolt("one", lambda df: df.selectExpr("value AS x"), [ft.From("numbers")]),
            ft.Bolt("two", lambda df: df.selectExpr("map(1, 2) AS x"), [ft.From("numbers")]),
        ],
    )
    with pytest.raises(ft.errors.TopologyError, match="'x'"):
        compile_only(spark, tmp_path, topology)


def test_a_new_checkpoint_on_an_old_sink_is_refused(start, tmp_path):
    topology = ft.Topology("t", [ft.Spout("numbers", replay(100))], [ft.Bolt("keep", keep, [ft.From("numbers")])])
    work_off(start(topology), 100)
    with pytest.raises(ft.errors.TopologyError, match="output of another checkpoint"):
        start(topology, checkpoint=str(tmp_path / "another"))


def test_empty_batches_are_harmless(start):
    topology = ft.Topology(
        "empty",
        [ft.Spout("numbers", ft.Replay(Keyed(seed=1), ft.Curve.steps([(1, 0), (1, 50), (2, 0)])))],
        [ft.Bolt("keep", ft.PerTuple(lambda row: iter([{"value": row["value"]}]), "value long"), [ft.From("numbers")])],
    )
    pipeline = start(topology, trigger="200 milliseconds")
    wait_for(lambda: rows_taken(pipeline) == 50, pipeline)
    pipeline.stop()
    assert pipeline.output("keep").count() == 50
    assert not pipeline.alarms
