"""Skewed joins against Spark's own: identical multisets, whatever the plan does between batches."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import functions as F

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.joins.placement.plan_change import EventTimePace
from foretide.spark.joins.join import compared, key_pairs
from helpers import wait_for
from spark.joins.join_cases import Driver, Shape, expected, plain, put_all, sides, start
from spark.joins.join_crash_app import KILLED, SLOW, Mode, Run
from spark.joins.join_crashes import doomed, notes, output

SHAPES = {
    "bound on both sides": Shape(),
    "one key, right side only later": Shape(on=("k",), rows=120, cases=1, before=-1.0, after=5.0),
    "three keys": Shape(on=("case", "n", "k"), cases=10, before=7.0, after=0.0),
    "left": Shape(how="left", nulls=0.15, before=1.0, after=6.0),
}

pytestmark = pytest.mark.apart


@pytest.mark.parametrize("name", SHAPES)
def test_the_rows_are_those_of_sparks_own_join_while_plans_change(quick, tmp_path, name):
    shape = SHAPES[name]
    put_all(tmp_path / "input", shape, seed=7)
    driver = Driver(quick, tmp_path, shape, seed=8)
    driver.start()
    wanted = expected(quick, tmp_path, shape)
    driver.query.awaitTermination()
    driver.report()
    found = driver.rows
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert wanted.total() > 100
    assert driver.publisher.timeline.version >= 4, "plans changed too seldom to say anything"


def test_a_batch_that_runs_ahead_of_the_hard_end_fails_and_the_next_try_is_exact(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(EventTimePace, "lead", 500_000)  # too little for the next batch
    shape = Shape(batches=4)
    put_all(tmp_path / "input", shape, seed=5)
    driver = Driver(quick, tmp_path, shape, seed=6)
    driver.finish()
    assert driver.publisher.failures > 0
    wanted, found = expected(quick, tmp_path, shape), driver.rows
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert driver.publisher.timeline.plans


# ---- killed


def test_a_kill_in_the_middle_of_a_batch_with_a_change_under_way_loses_and_doubles_nothing(quick, tmp_path):
    put_all(tmp_path / "input", KILLED.shape, seed=3)
    with doomed(tmp_path, "killed") as alive:
        wanted = expected(quick, tmp_path, KILLED.shape)
        wait_for(lambda: not alive() or any(each["batch"] == SLOW for each in notes(tmp_path)))
    (tmp_path / "control" / "past-join.json").unlink()  # so what was not kept is read from the join's state
    killed = notes(tmp_path)
    Run(quick, tmp_path, Mode(KILLED.shape)).finish()
    resumed = notes(tmp_path)[len(killed) :]
    assert killed[-1]["changing"], "the kill came too early or too late to say anything"
    assert resumed[0]["batch"] == SLOW, "the batch that was cut off is run again"
    assert resumed[-1]["problem"] is None
    assert resumed[-1]["version"] > killed[-1]["version"] + 1, "the plan went on changing after the restart"
    found = output(quick, tmp_path)
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert wanted.total() > 100


# ---- what can be joined

TYPES = [
    ("int", "bigint", "bigint", None),
    ("int", "string", "bigint", "bigint"),
    ("decimal(10,2)", "decimal(12,4)", "decimal(12,4)", None),
    ("date", "timestamp", "timestamp", None),
    ("string", "string", None, None),
]


@pytest.mark.parametrize(("left", "right", "cast_left", "cast_right"), TYPES)
def test_keys_are_hashed_as_what_spark_compares_them_as(spark, left, right, cast_left, cast_right):
    frames = [spark.range(0).select(F.lit(None).cast(kind).alias("k")) for kind in (left, right)]
    pair = compared(*frames, key_pairs("k"))[0]
    assert [kind and kind.lower() for kind in (pair.left_type, pair.right_type)] == [cast_left, cast_right]


def test_keys_of_different_types_find_each_other_while_they_are_split(quick, tmp_path):
    shape = Shape(batches=4, nulls=0.0)
    put_all(tmp_path / "input", shape, seed=9)
    left, right = sides(quick, tmp_path / "input", shape)
    left = left.withColumn("k", F.substring("k", 4, 1).cast("int")).withColumn("case", F.col("case").cast("bigint"))
    right = right.withColumn("k", F.substring("k", 4, 1)).withColumn("case", F.col("case").cast("string"))
    driver = Driver(quick, tmp_path, shape, seed=8, streams=(left, right))
    driver.start()
    query, rows = start(plain(left, right, shape), tmp_path / "plain")
    query.awaitTermination()
    driver.query.awaitTermination()
    assert Counter(rows) == driver.rows
    assert driver.frame.schema["k"].dataType.simpleString() == "int"
    assert driver.publisher.timeline.plans
    assert len(rows) > 100


def stream(spark, *columns, watermark=None):
    frame = spark.readStream.format("rate").load().select(*columns)
    return frame if watermark is None else frame.withWatermark(watermark, "1 minute")


def test_what_cannot_be_joined_is_said_with_what_to_do(spark, tmp_path):
    good = stream(spark, F.col("value").alias("k"), F.col("timestamp").alias("t"), watermark="t")
    other = stream(spark, F.col("value").alias("k"), F.col("timestamp").alias("u"), watermark="u")
    bare = stream(spark, F.col("value").alias("k"), F.col("timestamp").alias("u"))

    def problem(left, right, on="k", **more):
        with pytest.raises(ft.errors.JoinError) as raised:
            ft.join(left, right, on, "1 minute", control_folder=str(tmp_path), **more)
        return str(raised.value)

    assert "right side: has no watermark. Add .withWatermark" in problem(good, bare)
    assert "right side: has no column 'z'. Its columns: k, u" in problem(good, other, [("k", "z")])
    assert "right side: also has a column 't'. Rename" in problem(good, good)
    assert "is not a usable name" in problem(good, other, name="a/b")
    with pytest.raises(ft.errors.JoinPlanError, match="'full' join cannot be split"):
        ft.join(good, other, "k", "1 minute", "full", control_folder=str(tmp_path))
    joined = ft.join(good, other, "k", "1 minute", control_folder=str(tmp_path))
    assert joined.columns == ["k", "t", "u"]


def test_a_join_whose_plan_is_lost_or_was_made_for_another_bound_is_refused(spark, tmp_path):
    left = stream(spark, F.col("value").alias("k"), F.col("timestamp").alias("t"), watermark="t")
    right = stream(spark, F.col("value").alias("k"), F.col("timestamp").alias("u"), watermark="u")
    control = ControlFolder(str(tmp_path))

    def joined(within):
        return ft.join(left, right, "k", within, control_folder=str(tmp_path))

    joined("1 minute")
    joined("2 minutes")
    control.change_join_plan("join", lambda plan: plan.continued({7: ((1, 2),)}, 5).with_hard_end({7}, 900))
    joined("2 minutes")
    assert control.join_plan("join").hard_ends == {}, "nobody would move it"
    with pytest.raises(ft.errors.JoinError, match="was planned for"):
        joined("3 minutes")
    (tmp_path / "join-join.json").unlink()
    with pytest.raises(ft.errors.JoinError, match="its plan is gone"):
        joined("2 minutes")
