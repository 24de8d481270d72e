"""A skewed join under control: hot keys are found and split while it runs, and the result stays that of Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import functions as F

import foretide as ft
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.control.policies.hot_keys import HotKeySettings
from foretide.joins.plan import imbalance
from foretide.joins.settings import WindowSettings
from helpers import wait_for
from spark.joins.join_cases import BEGIN, INTERPRETED, SCHEMA, SECOND, Shape, plain, put, sides

PARTITIONS = 4
SHAPE = Shape(on=("k",), before=2.0, after=2.0, delay="2 seconds")
ROWS, STEP, MEASURED = 160, 2, 3

pytestmark = pytest.mark.apart


def rows_of(number, share):
    """That share of all rows has one key."""
    rng = np.random.default_rng(number)
    keys = np.where(rng.random(ROWS) < share, 0, rng.integers(1, 200, ROWS))
    times = BEGIN + int(number * STEP * SECOND) + np.sort(rng.integers(0, STEP * SECOND, ROWS))
    return [
        {"side": "LR"[place % 2], "case": 0, "k": f"key{key}", "n": 0, "t": int(time), "id": f"{number}-{place}"}
        for place, (key, time) in enumerate(zip(keys, times, strict=True))
    ]


def settings_of(variant):
    planning = replace(HotKeySettings().planning, variant=variant)
    return ft.Settings(
        # with so few rows there is no time to be saved
        policies={"hot_keys": HotKeySettings(windows=WindowSettings(1.0), min_saving=0.0, planning=planning)},
        guards=GuardSettings(cooldown=0.0),
        evaluation=EvaluationSettings(roll_back=False),
    )


@pytest.mark.parametrize(
    ("variant", "share", "times"),
    [("balanced", 0.5, 3), ("paper", 0.65, 2)],  # eq 13 gives a key whole partitions only: here 2 of 4
)
def test_a_skewed_join_under_control_is_balanced_and_its_rows_are_those_of_sparks_own(
    spark, tmp_path, variant, share, times
):
    settings = settings_of(variant)
    chosen = INTERPRETED | {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    before = {name: spark.conf.get(name, None) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    joined = ft.join(
        *sides(spark, tmp_path / "input", SHAPE), "k", SHAPE.bound, control_folder=str(tmp_path / "control")
    )
    joined = joined.withColumn("at", F.spark_partition_id())
    writer = joined.writeStream.format("memory").queryName("live").option("checkpointLocation", str(tmp_path / "cp"))
    put(tmp_path / "input", 0, rows_of(0, share))  # before the start: both sides take it in the first batch
    query = writer.start()
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)
    controller = ft.control(query, ["hot_keys"], settings=settings, control_folder=str(tmp_path / "control"))
    number, by_tasks = 1, []

    def feed():
        nonlocal number, by_tasks
        put(tmp_path / "input", number, rows_of(number, share))
        query.processAllAvailable()
        number += 1
        view = controller.joins["join"]
        by_tasks += [] if view.measured_imbalance is None else [view.measured_imbalance]
        return bool(view.plan.grids) and all(measured < by_tasks[0] / times for measured in by_tasks[-MEASURED - 1 :])

    wait_for(feed)  # until a plan is in force, and the tasks of all measured batches show it
    query.stop()
    controller.stop()
    found = spark.table("live").collect()
    static = spark.read.schema(SCHEMA).json(str(tmp_path / "input")).withColumn("time", F.timestamp_micros("t"))
    wanted = Counter(tuple(row) for row in plain(*both(static), SHAPE).collect())
    assert Counter(tuple(row)[:-1] for row in found) == wanted
    stretch = MEASURED * STEP * SECOND
    first = [row for row in found if micros(row) < BEGIN + stretch]
    last = [row for row in found if micros(row) >= BEGIN + number * STEP * SECOND - stretch]
    assert measured(first) > 1.5
    assert measured(last) < measured(first) / times
    known = controller.reader._monitor.snapshot()
    assert known.value("join_imbalance", "join") is not None
    assert 20 < controller.joins["join"].row_bytes < 100_000
    assert by_tasks[0] > 1.5, "the rows that tasks took in tell the same"
    chosen = [decision for decision in controller.decisions if decision.chosen]
    assert {wish.policy for wish in chosen[0].chosen} == {"hot_keys"}
    assert "split: key0 into" in chosen[0].chosen[0].reason, "people are told the key, not its hash"
    assert "key0 as" in chosen[0].chosen[0].action.describe()


def both(static):
    return (
        static.where(F.col("side") == side).select(
            "k", F.col("id").alias(f"{name}_id"), F.col("time").alias(f"{name}_time")
        )
        for side, name in (("L", "left"), ("R", "right"))
    )


def micros(row):
    return round(row["left_time"].timestamp() * SECOND)


def measured(rows):
    """LI of what the partitions put out."""
    counts = Counter(row["at"] for row in rows)
    return imbalance([float(counts[partition]) for partition in range(PARTITIONS)])
