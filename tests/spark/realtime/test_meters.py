"""Meters in batch queries over ranges: what they count, and that no row depends on them."""

from __future__ import annotations

import uuid

import pytest
from pyspark.sql import functions as F

from foretide.metrics.task_meters import parse_counters, property_of, total, work_between
from foretide.spark.realtime.meters import (
    TIMESTAMP,
    create_counters,
    driver_counters,
    meter_emitted,
    meter_entry,
    meter_exit,
)
from helpers import COMPILED, QUICK

pytestmark = pytest.mark.spark


def now():
    """Microseconds since 1970, as a batch query sees them."""
    return F.unix_micros(F.current_timestamp())


@pytest.fixture
def key(spark):
    """A key of the test's own, with counters for an operator `a` of two tasks."""
    made = uuid.uuid4().hex
    create_counters(spark, made, {"a": 2, "a.emitted": 2})
    yield made
    for name in ("a", "a.emitted"):
        spark._jvm.java.lang.System.getProperties().remove(property_of(made, name, 2))


def counted(spark, key, name="a", width=2):
    """What each task has counted, the last one for those beyond the width."""
    name = property_of(key, name, width)
    return [work_between(None, meter) for meter in parse_counters(driver_counters(spark, [name])["driver"][name])]


def metered(frame, key, work=lambda frame: frame):
    return meter_exit(work(meter_entry(frame, "a", key, 2)), "a", key, 2)


def slow(rounds):
    """Work that takes the longer the more rounds."""
    text = F.concat_ws("-", F.sequence(F.lit(1), F.lit(rounds)), F.col("id"))
    return lambda frame: frame.where(F.sha2(text, 512) > " ")


def test_each_task_counts_its_tuples_and_hands_on_their_timestamps(spark, key):
    frame = spark.range(0, 10, 1, 2).withColumn(TIMESTAMP, now() - 2_000_000 - F.col("id"))
    rows = metered(frame, key, lambda frame: frame.selectExpr("id * 2 as double")).collect()
    assert sorted(row.double for row in rows) == list(range(0, 20, 2))
    stamps = {row.double // 2 + row[TIMESTAMP] for row in rows}
    assert len(stamps) == 1  # each tuple has its own one
    works = counted(spark, key)
    assert [(work.tuples, work.emitted, work.timed) for work in works] == [(5, 5, 5), (5, 5, 5), (0, 0, 0)]
    assert all(work.seconds > 0 and work.squares > 0 for work in works[:2])
    assert [sum(work.latencies) for work in works] == [5, 5, 0]
    assert 2.0 <= total(works).mean_latency < 200


def test_tuples_without_a_timestamp_are_counted_as_such(spark, key):
    rows = metered(spark.range(0, 4, 1, 1), key).collect()
    assert [tuple(row) for row in rows] == [(n, None) for n in range(4)]
    assert [(work.emitted, sum(work.latencies)) for work in counted(spark, key)] == [(4, 0), (0, 0), (0, 0)]
    mixed = spark.range(0, 4, 1, 1).withColumn(TIMESTAMP, F.when(F.col("id") % 2 == 0, now()))
    assert [row[TIMESTAMP] is None for row in metered(mixed, key).collect()] == [False, True, False, True]
    assert sum(counted(spark, key)[0].latencies) == 2


def test_the_last_timestamp_of_all_is_no_reason_to_fail(spark, key):
    frame = spark.range(2).withColumn(TIMESTAMP, F.lit(-(2**63)))
    assert metered(frame, key).count() == 2


def test_no_row_is_lost_where_there_are_no_counters(spark):
    frame = spark.range(0, 100, 1, 3).withColumn(TIMESTAMP, now())
    rows = metered(frame, "no-such-key", lambda frame: frame.where("id % 2 = 0")).collect()
    assert sorted(row.id for row in rows) == list(range(0, 100, 2))
    assert {row[TIMESTAMP] for row in rows} == {None}
    assert meter_emitted(frame, "a", "no-such-key", 2).count() == 100


def test_of_a_tuple_that_leads_to_several_the_work_ends_with_the_last(spark, key):
    """Laps add up to the work on the tuple, and squares to its square."""
    exploded = metered(spark.range(0, 50, 1, 1), key, lambda f: f.select("id", F.explode(F.array(*map(F.lit, "abc")))))
    assert exploded.count() == 150
    work = counted(spark, key)[0]
    assert (work.tuples, work.emitted, work.timed) == (50, 150, 50)
    mean = work.seconds / work.timed
    assert work.squares >= 0.99 * work.timed * mean**2  # squares of laps would add up to a third of it


def test_a_tuple_that_leads_to_none_is_counted_and_not_timed(spark, key):
    assert metered(spark.range(0, 90, 1, 1), key, lambda frame: frame.where("id % 3 = 0")).count() == 30
    work = counted(spark, key)[0]
    assert (work.tuples, work.emitted, work.timed) == (90, 30, 30)
    assert work.all_seconds == pytest.approx(3 * work.seconds)


def test_more_work_is_more_time(spark, key):
    frame = spark.range(0, 2_000, 1, 1)
    spent = []
    for rounds in (10, 2_000):
        before = counted(spark, key)[0].seconds
        metered(frame, key, slow(rounds)).count()
        spent.append(counted(spark, key)[0].seconds - before)
    assert spent[1] > 5 * spent[0]


def test_tasks_beyond_the_width_are_counted_together(spark, key):
    frame = spark.range(0, 60, 1, 6).withColumn(TIMESTAMP, now())
    rows = metered(frame, key).collect()
    assert sorted(row.id for row in rows) == list(range(60))
    assert sum(row[TIMESTAMP] is None for row in rows) == 40  # another task's timestamp would be wrong
    assert [(work.tuples, work.emitted, work.timed) for work in counted(spark, key)] == [
        (10, 10, 10),
        (10, 10, 10),
        (40, 40, 0),
    ]


def test_time_that_an_operator_took_may_come_from_a_column(spark, key):
    """As for Python bolts: timed are the tuples that have a time."""
    frame = meter_entry(spark.range(0, 10, 1, 1).withColumn(TIMESTAMP, now()), "a", key, 2)
    made = frame.withColumn(TIMESTAMP, now()).withColumn("took", F.when(F.col("id") < 4, F.lit(3_000_000)))
    rows = meter_exit(made, "a", key, 2, took=F.col("took")).drop("took").collect()
    assert [row.id for row in rows] == list(range(10))
    assert rows[0][TIMESTAMP] is not None
    work = counted(spark, key)[0]
    assert (work.tuples, work.emitted, work.timed, sum(work.latencies)) == (10, 10, 4, 10)
    assert work.seconds == pytest.approx(4 * 0.003)
    assert work.squares == pytest.approx(4 * 0.003**2)


def test_behind_an_exchange_of_sparks_own_tuples_and_latency_are_counted(spark, key):
    entered = meter_entry(spark.range(0, 40, 1, 2).withColumn(TIMESTAMP, now()), "a", key, 2)
    groups = entered.groupBy(F.col("id") % 4).agg(F.count("*").alias("n"))
    assert {row.n for row in meter_emitted(groups, "a", key, 2).collect()} == {10}
    assert total(counted(spark, key)).tuples == 40
    assert total(counted(spark, key)).timed == 0
    assert total(counted(spark, key, "a.emitted")).emitted == 4
    stamped = groups.withColumn(TIMESTAMP, now())
    assert TIMESTAMP in meter_emitted(stamped, "a", key, 2).columns
    assert meter_emitted(stamped, "a", key, 2).count() == 4
    assert sum(total(counted(spark, key, "a.emitted")).latencies) == 4


def test_no_work_moves_across_an_entry_and_each_exit_is_timed_once(spark, key):
    frame = spark.range(10).withColumn("b", F.lit("x")).repartition(2)
    plan = metered(frame, key, lambda frame: frame.where("id > 3").select("b"))
    text = plan._jdf.queryExecution().optimizedPlan().toString()
    assert text.count("nanoTime") == 2
    assert text.count("getAndSet") == 3  # the time of the entry, the record timestamp, the time of the exit
    lines = text.splitlines()
    work = next(number for number, line in enumerate(lines) if "(id#" in line and "> 3" in line)
    exchange = next(number for number, line in enumerate(lines) if "Repartition" in line)
    entry = next(number for number, line in enumerate(lines) if "xxhash64" in line)
    assert work < entry < exchange
    assert "_ft_" not in "".join(meter_entry(frame, "a", key, 2).columns)


def test_work_in_columns_is_timed_too_though_spark_works_them_out_when_they_are_needed(spark, key):
    text = F.concat_ws("-", F.sequence(F.lit(1), F.lit(20_000)), F.col("id"))
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    try:
        metered(spark.range(0, 200, 1, 2), key, lambda frame: frame.select(F.sha2(text, 512).alias("hash"))).collect()
    finally:
        for name in COMPILED:
            spark.conf.set(name, QUICK[name])
    work = total(counted(spark, key))
    assert work.seconds / work.timed > 1e-4  # nothing takes less than 5 ns for each of the numbers


def test_counters_are_created_once_and_another_number_of_tasks_has_others(spark, key):
    metered(spark.range(3), key).collect()
    create_counters(spark, key, {"a": 2})
    assert total(counted(spark, key)).tuples == 3
    create_counters(spark, key, {"a": 5})
    assert [work.tuples for work in counted(spark, key, width=5)] == [0] * 6
    assert total(counted(spark, key)).tuples == 3
    spark._jvm.java.lang.System.getProperties().remove(property_of(key, "a", 5))
