"""The native cells of a skewed join against the reference, and batches that fail rather than misplace a tuple."""

from __future__ import annotations

import json
import random

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from foretide.errors import PastHardEndError
from foretide.joins.placement.salts import TAIL, salt_grid, tail_partition
from foretide.joins.placement.spec import JoinBound
from foretide.joins.placement.timeline import Timeline, to_json
from foretide.joins.plan import KeyGrid
from foretide.spark.joins.cells import hard_end_failure, left_cells, live_plan, plan_of, right_cells, versions_of
from joins.placement import reference_cells
from joins.placement.spark_hash import SimpleKey, hash_row

PARTITIONS = 8
SECOND = 1_000_000
NAMES = [f"key{number}" for number in range(12)]
HASHES = {name: hash_row([SimpleKey.STRING], [name]) for name in NAMES}
SCHEMA = "name string, time long, row_hash long"
TOKEN = "of-this-query"


def a_timeline(rng):
    """Half of the keys have a history of several grids; some went back to the tail."""
    timeline = Timeline()
    for name in NAMES[::2]:
        start = 0
        for _ in range(rng.randint(1, 4)):
            start += rng.randint(1, 20) * SECOND
            columns = rng.randint(1, 4)
            wanted = tuple(tuple(rng.choices(range(PARTITIONS), k=columns)) for _ in range(rng.randint(1, 4)))
            grid = salt_grid(HASHES[name], KeyGrid(wanted), PARTITIONS, timeline.taken(HASHES[name]))
            timeline = timeline.continued({HASHES[name]: rng.choice([grid, grid, TAIL])}, start)
    return timeline


def rows(rng, count):
    return [
        (rng.choice(NAMES), rng.randint(-30 * SECOND, 90 * SECOND), rng.randint(-(2**63), 2**63 - 1))
        for _ in range(count)
    ]


@pytest.fixture
def published(spark, tmp_path):
    """Places rows on both sides by a plan that is published as a file."""

    def publish(timeline, bound, text=None):
        file = tmp_path / "plan.json"
        file.write_text(text or to_json(timeline, TOKEN))
        live = live_plan(spark, f"file://{file}")
        asked = (F.col("versions"), F.hash("name"), F.col("row_hash"), F.col("time"))
        left, right = left_cells(*asked), right_cells(*asked, bound)

        def placed(data, sides=("left", "right")):
            frame = spark.createDataFrame(data, SCHEMA).coalesce(1)
            frame = frame.withColumn("versions", versions_of(plan_of(live, TOKEN), F.hash("name")))
            chosen = {"left": left.alias("left"), "right": right.alias("right")}
            return frame.select("name", *(chosen[side] for side in sides))

        return file, placed

    return publish


@pytest.mark.parametrize("bound", [JoinBound(5 * SECOND, 7 * SECOND), JoinBound(-2 * SECOND, 9 * SECOND)], ids=str)
def test_native_cells_are_those_of_the_reference_and_land_where_they_are_steered(spark, published, bound):
    rng = random.Random(5)
    timeline, data = a_timeline(rng), rows(rng, 2000)
    _, placed = published(timeline, bound)
    landed = F.transform("left", lambda salt: F.pmod(F.hash("name", salt), F.lit(PARTITIONS)))
    found = placed(data).select("*", landed.alias("at")).collect()
    for row, (name, time, row_hash) in zip(found, data, strict=True):
        asked = (timeline, HASHES[name], row_hash, time)
        assert tuple(row["left"]) == reference_cells.left_cells(*asked)
        assert tuple(row["right"]) == reference_cells.right_cells(*asked, bound)
        if row["left"] == [0]:
            assert row["at"] == [tail_partition(HASHES[name], PARTITIONS)]
    assert max(len(row["right"]) for row in found) > 4


def test_a_tuple_at_a_hard_end_fails_the_batch_and_one_before_it_does_not(spark, published):
    hot, bound = NAMES[0], JoinBound(before=3, after=9)
    timeline = a_timeline(random.Random(6)).with_hard_end({HASHES[hot]}, 100 * SECOND)
    _, placed = published(timeline, bound)

    def attempt(side, time, name=hot):
        return placed([(name, time, 1)], [side]).collect()

    end = 100 * SECOND
    attempt("left", end - 1)
    attempt("right", end - 4)
    attempt("left", end, NAMES[1])
    for side, time, reached in [("left", end, end), ("left", end + 5, end + 5), ("right", end - 3, end)]:
        with pytest.raises(PySparkException) as raised:
            attempt(side, time)
        failure = hard_end_failure(str(raised.value))
        assert isinstance(failure, PastHardEndError)
        assert (failure.key_hash, failure.reached, failure.hard_end) == (HASHES[hot], reached, end)
    assert hard_end_failure("some other error") is None


def test_a_tuple_without_a_time_can_match_nothing_and_is_kept_in_one_cell(spark, published):
    _, placed = published(Timeline().with_hard_end({HASHES[NAMES[0]]}, 5), JoinBound(1, 1))
    found = placed([(NAMES[0], None, 1), (NAMES[1], None, 1)]).collect()
    assert [tuple(row)[1:] for row in found] == [([0], [0])] * 2


def sound(**changes):
    version = {"start": -(2**63), "end": 2**63 - 1, "rows": [[1, 2], [3, 4]]} | changes
    return {"format": 1, "version": 1, "query": TOKEN, "plan": [{"key": 5, "versions": [version]}]}


DAMAGED = {
    "empty": "",
    "truncated": json.dumps(sound())[:-9],
    "no plan": json.dumps({"format": 1, "version": 1, "query": TOKEN}),
    "another format": json.dumps(sound() | {"format": 2}),
    "no version": json.dumps(sound() | {"version": None}),
    "no start": json.dumps(sound(start=None)),
    "no rows": json.dumps(sound(rows=[])),
    "a row without cells": json.dumps(sound(rows=[[]])),
    "rows that differ": json.dumps(sound(rows=[[1, 2], [3]])),
    "a cell without salt": json.dumps(sound(rows=[[1, None]])),
    "text for a salt": json.dumps(sound(rows=[["1"]])),
    "no versions": json.dumps(sound() | {"plan": [{"key": 5, "versions": None}]}),
    "no key": json.dumps(sound() | {"plan": [{"versions": sound()["plan"][0]["versions"]}]}),
    "a key twice": json.dumps(sound() | {"plan": sound()["plan"] * 2}),
    "for another query": json.dumps(sound() | {"query": "of-another-query"}),
    "for no query": json.dumps(sound() | {"query": None}),
}


REASONS = (
    "FORETIDE-PLAN-UNREADABLE",
    "FORETIDE-PLAN-OF-ANOTHER-QUERY",
    "MALFORMED_RECORD_IN_PARSING",
    "DUPLICATED_MAP_KEY",
)


def test_a_plan_that_is_not_sound_fails_every_batch_and_a_sound_one_works_again(quick, published):
    file, placed = published(None, JoinBound(1, 1), json.dumps(sound()))
    for name, text in DAMAGED.items():
        file.write_text(text)
        with pytest.raises((PySparkException, Py4JJavaError)) as raised:
            placed([(NAMES[1], 5, 1)]).collect()
        assert any(reason in str(raised.value) for reason in REASONS), text
        assert ("ANOTHER-QUERY" in str(raised.value)) == name.startswith("for "), text
    file.write_text(json.dumps(sound()))
    assert [tuple(row)[1:] for row in placed([(NAMES[1], 5, 1)]).collect()] == [([0], [0])]


def test_both_sides_of_a_join_share_one_scan_of_the_plan(spark, published):
    _, placed = published(a_timeline(random.Random(7)), JoinBound(1, 1))
    data = rows(random.Random(8), 50)
    left, right = (placed(data, [side]).select("name", F.explode(side).alias("salt")) for side in ("left", "right"))
    joined = left.join(right, ["name", "salt"])
    assert joined.count() > 0
    joined.collect()
    physical = joined._jdf.queryExecution().executedPlan().toString()
    assert "ReusedSubquery" in physical
