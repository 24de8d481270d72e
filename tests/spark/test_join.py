"""Skewed joins against Spark's own: identical multisets, whatever the plan does between batches."""

from __future__ import annotations

from collections import Counter

import pytest

from spark import join_cases
from spark.join_cases import Driver, Shape, plain, put_all, sides, start

SHAPES = {
    "bound on both sides": Shape(),
    "right side only later": Shape(before=-1.0, after=5.0),
    "right side only earlier": Shape(before=7.0, after=0.0, rows=300),
    "one key": Shape(on=("k",), rows=120, cases=1),
    "three keys": Shape(on=("case", "n", "k"), cases=10),
    "left": Shape(how="left", nulls=0.15),
    "left, bound on one side": Shape(how="left", before=0.0, after=6.0),
}


SETTINGS = {
    "spark.sql.shuffle.partitions": str(join_cases.PARTITIONS),
    "spark.sql.codegen.wholeStage": "false",  # small batches: to compile them takes longer than to run them
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module")
def quick(spark):
    """Spark as small batches like it, for the tests in here."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.mark.parametrize("name", SHAPES)
def test_the_rows_are_those_of_sparks_own_join_while_plans_change(quick, tmp_path, name):
    shape = SHAPES[name]
    put_all(tmp_path / "input", shape, seed=7)
    query, expected = start(plain(*sides(quick, tmp_path / "input", shape), shape), tmp_path / "plain")
    driver = Driver(quick, tmp_path, shape, seed=8)
    driver.start()
    query.awaitTermination()
    driver.query.awaitTermination()
    driver.tell()
    wanted, found = Counter(expected), Counter(driver.result)
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert wanted.total() > 100
    assert driver.keeper.timeline.version >= 4, "plans changed too seldom to say anything"
