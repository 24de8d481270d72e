"""Edges on plain DataFrames: placement of every grouping, live routes, bad route files, and the barrier."""

from __future__ import annotations

from collections import defaultdict

import pytest
from pyspark.sql import functions as F

import foretide as ft
from foretide.control_folder.folder import ROUTES, ControlFolder
from foretide.routing.table import RouteTable

ROWS = 20_000


@pytest.fixture
def control(tmp_path):
    return str(tmp_path / "control")


@pytest.fixture
def numbers(spark):
    return spark.range(ROWS).withColumn("key", F.expr("if(id % 10 = 0, null, id % 7)"))


def placement(frame):
    """Where each row ended up: partition -> rows."""
    placed = defaultdict(list)
    for row in frame.withColumn("at", F.spark_partition_id()).collect():
        placed[row["at"]].append(row)
    return placed


def counts(frame, pool):
    placed = placement(frame)
    return [len(placed[task]) for task in range(pool)]


def near(found, expected):
    """Within five standard deviations of a random split."""
    total = sum(found)
    return all(
        abs(one - total * share) <= 5 * (total * share * (1 - share)) ** 0.5 + 1e-9
        for one, share in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("grouping", [ft.Shuffle(), ft.Dynamic(), ft.LoadAware(), ft.Shuffle(by=("id",))])
def test_even_groupings_split_evenly(numbers, control, grouping):
    found = counts(numbers.transform(ft.edge("work", grouping, pool=4, control_folder=control)), 4)
    assert sum(found) == ROWS
    assert near(found, [0.25] * 4)


def test_dynamic_splits_by_its_ratio(numbers, control):
    found = counts(numbers.transform(ft.edge("work", ft.Dynamic(ratio=(7, 3, 2)), pool=3, control_folder=control)), 3)
    assert sum(found) == ROWS
    assert near(found, ControlFolder(control).routes().edges["work"].shares)


def test_only_active_replicas_get_tuples(numbers, control):
    found = counts(numbers.transform(ft.edge("work", pool=4, replicas=2, control_folder=control)), 4)
    assert found[2:] == [0, 0]
    assert sum(found) == ROWS


def test_fields_brings_equal_keys_together_and_nulls_too(numbers, control):
    placed = placement(numbers.transform(ft.edge("work", ft.Fields("key"), pool=3, control_folder=control)))
    homes = defaultdict(set)
    for task, rows in placed.items():
        for row in rows:
            homes[row["key"]].add(task)
    assert set(homes) == {None, 0, 1, 2, 3, 4, 5, 6}
    assert all(len(tasks) == 1 for tasks in homes.values())


def test_partial_key_splits_each_key_over_at_most_two_tasks(spark, control):
    frame = spark.range(ROWS).withColumn("key", F.col("id") % 50)
    placed = placement(frame.transform(ft.edge("work", ft.PartialKey("key"), pool=8, control_folder=control)))
    homes = defaultdict(lambda: defaultdict(int))
    for task, rows in placed.items():
        for row in rows:
            homes[row["key"]][task] += 1
    assert all(1 <= len(tasks) <= 2 for tasks in homes.values())
    halves = [list(tasks.values()) for tasks in homes.values() if len(tasks) == 2]
    assert len(halves) > 25
    assert all(0.3 < one / (one + other) < 0.7 for one, other in halves)


def test_partial_key_with_as_many_choices_as_tasks_spreads_even_a_lone_key_over_all_of_them(spark, control):
    frame = spark.range(ROWS).withColumn("key", F.lit(7))
    edge = ft.edge("work", ft.PartialKey("key", choices=8), pool=8, control_folder=control)
    sizes = [len(rows) for rows in placement(frame.transform(edge)).values()]
    assert sum(sizes) == ROWS
    assert len(sizes) == 8
    assert max(sizes) < 1.5 * ROWS / 8


def test_partial_key_needs_a_choice(spark, control):
    with pytest.raises(ft.errors.TopologyError, match="has 1 choices"):
        spark.range(1).transform(ft.edge("work", ft.PartialKey("id", choices=1), pool=8, control_folder=control))


def test_all_sends_every_tuple_to_every_task(spark, control):
    placed = placement(spark.range(100).transform(ft.edge("work", ft.All(), pool=3, control_folder=control)))
    assert {task: sorted(row["id"] for row in rows) for task, rows in placed.items()} == {
        task: list(range(100)) for task in range(3)
    }


def test_global_sends_everything_to_one_task(numbers, control):
    frame = numbers.transform(ft.edge("work", ft.Global(), control_folder=control))
    assert frame.rdd.getNumPartitions() == 1
    assert counts(frame, 1) == [ROWS]


def test_local_or_shuffle_has_no_exchange(numbers, control):
    frame = numbers.transform(ft.edge("work", ft.LocalOrShuffle(), control_folder=control))
    assert "Exchange" not in plan(frame)


def test_direct_lets_the_producer_choose(spark, control):
    frame = spark.range(90).withColumn("to", F.expr("if(id = 89, null, cast(id % 3 as int))"))
    placed = placement(frame.transform(ft.edge("work", ft.Direct("to"), pool=3, control_folder=control)))
    assert all(row["to"] in (task, None) for task, rows in placed.items() for row in rows)
    assert [row["id"] for row in placed[0] if row["to"] is None] == [89]


@pytest.mark.parametrize("task", ["id div 30", lambda: F.floor(F.col("id") / 30)])
def test_custom_takes_a_column_expression(spark, control, task):
    placed = placement(spark.range(90).transform(ft.edge("work", ft.Custom(task), pool=3, control_folder=control)))
    assert [sorted(row["id"] for row in placed[task]) for task in range(3)] == [
        list(range(first, first + 30)) for first in (0, 30, 60)
    ]


def test_custom_outside_the_pool_wraps_around_and_loses_nothing(spark, control):
    frame = spark.range(100).transform(ft.edge("work", ft.Custom("id - 50"), pool=4, control_folder=control))
    assert sum(counts(frame, 4)) == 100


def test_a_new_route_is_used_by_the_next_reading_of_the_same_plan(numbers, control):
    frame = numbers.transform(ft.edge("work", ft.Dynamic(), pool=3, control_folder=control))
    before = placement(frame)
    ControlFolder(control).change_routes(lambda table: table.split("work", [1, 0, 1]))
    after = placement(frame)
    assert not after[1]
    for task in (0, 2):  # disabling one task moves no other task's tuples
        assert {row["id"] for row in before[task]} <= {row["id"] for row in after[task]}


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"format":1,"version":9,"edges":{"work":{"pool":4,"ri', "null", "[]", "nonsense \x00",
     '{"format":2,"version":9,"edges":{"work":{"pool":4,"ring":[0,0]}}}',
     '{"format":1,"version":9,"edges":{}}',
     '{"format":1,"version":9,"edges":{"work":{"pool":4,"ring":[]}}}',
     '{"format":1,"version":9,"edges":{"work":{"pool":4,"ring":[3,null]}}}',
     '{"format":1,"version":9,"edges":{"work":{"pool":4,"ring":[-7,99,2147483647]}}}',
     '{"format":1,"version":9,"edges":{"work":{"pool":4,"ring":"x"}}}'],
)  # fmt: skip
def test_no_route_file_makes_rows_vanish(numbers, control, tmp_path, text):
    frame = numbers.transform(ft.edge("work", pool=4, control_folder=control))
    (tmp_path / "control" / ROUTES).write_text(text)
    assert frame.agg(F.count("*"), F.sum("id")).first()[:] == (ROWS, ROWS * (ROWS - 1) // 2)


def test_a_missing_route_file_means_the_default_split(numbers, control, tmp_path):
    frame = numbers.transform(ft.edge("work", ft.Dynamic(ratio=(1, 0)), pool=2, control_folder=control))
    assert counts(frame, 2) == [ROWS, 0]
    (tmp_path / "control" / ROUTES).unlink()
    assert near(counts(frame, 2), [0.5, 0.5])


def test_an_unreadable_table_is_made_anew_when_the_plan_is_built(numbers, control, tmp_path):
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / ROUTES).write_text("{ truncated")
    frame = numbers.transform(ft.edge("work", pool=2, control_folder=control))
    assert ControlFolder(control).routes().edges["work"].pool == 2
    assert sum(counts(frame, 2)) == ROWS


def test_routes_outlive_a_restart(numbers, control):
    numbers.transform(ft.edge("work", ft.Dynamic(), pool=2, control_folder=control))
    ControlFolder(control).change_routes(lambda table: table.split("work", [1, 0]))
    again = numbers.transform(ft.edge("work", ft.Dynamic(), pool=2, control_folder=control))
    assert counts(again, 2) == [ROWS, 0]


def test_columns_that_spark_cannot_hash_are_split_too(spark, control):
    frame = spark.range(1000).selectExpr(
        "id", "map('a', id) AS m", "array(map(id, 1)) AS nested", "named_struct('v', map(1, id)) AS s",
        "parse_json(cast(id AS string)) AS v", "id AS `odd name.with ``quotes`",
    )  # fmt: skip
    routed = frame.transform(ft.edge("work", pool=4, control_folder=control, audit=True))
    assert near(counts(routed, 4), [0.25] * 4)
    assert sorted(row["id"] for row in routed.collect()) == list(range(1000))


def plan(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_no_work_crosses_an_edge(numbers, control):
    worked = (
        numbers.transform(ft.edge("work", pool=4, control_folder=control))
        .withColumn("digest", F.sha2(F.col("id").cast("string"), 256))
        .where("digest LIKE '%aa%' AND id > 10")
        .select("digest")
    )
    above, _, below = plan(worked).partition("Exchange")
    assert "sha2" in above
    assert "LIKE" in above.upper() or "Contains" in above
    assert "sha2" not in below
    assert "> 10" not in below


def test_without_the_barrier_work_would_cross(spark):
    """What the barrier is for; if Spark stops doing this, it may go."""
    bare = spark.range(100).withColumn("t", F.expr("cast(id % 4 AS int)")).repartitionById(4, "t").where("id > 10")
    assert "> 10" in plan(bare).partition("Exchange")[2]


def test_all_edges_of_a_query_share_one_scan_of_the_table(spark, numbers, control):
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # as in a streaming query
    frame = numbers
    for name in ("one", "two", "three"):
        frame = frame.transform(ft.edge(name, pool=2, control_folder=control)).withColumn(name, F.rand())
    text = plan(frame)
    spark.conf.unset("spark.sql.adaptive.enabled")
    assert text.count("FileScan json") == 1
    assert text.count("ReusedSubquery") >= 2


def test_an_edge_needs_a_control_folder(numbers):
    with pytest.raises(ft.errors.ControlFolderError, match=r"spark\.foretide\.control"):
        numbers.transform(ft.edge("work"))


def test_the_control_folder_can_be_set_for_the_session(spark, numbers, tmp_path):
    spark.conf.set("spark.foretide.controlFolder", str(tmp_path / "set"))
    try:
        numbers.transform(ft.edge("work", ft.Dynamic(), replicas=8))
    finally:
        spark.conf.unset("spark.foretide.controlFolder")
    assert ControlFolder(str(tmp_path / "set")).routes().edges["work"].active == 8


@pytest.mark.parametrize(
    ("options", "said"),
    [({"grouping": ft.Fields("nope")}, "nope"), ({"pool": 2, "replicas": 3}, "3 replicas of a pool of 2")],
)
def test_a_wrong_edge_is_refused_with_what_to_do(numbers, control, options, said):
    with pytest.raises(ft.errors.TopologyError, match=said):
        numbers.transform(ft.edge("work", control_folder=control, **options))


def test_a_ratio_of_the_wrong_length_is_refused(numbers, control):
    with pytest.raises(ft.errors.RouteError, match="3 weights for a pool of 2"):
        numbers.transform(ft.edge("work", ft.Dynamic(ratio=(1, 2, 3)), pool=2, control_folder=control))
    assert ControlFolder(control).routes() == RouteTable()
