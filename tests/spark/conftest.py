"""The shared Spark session as tests of joins like it."""

from __future__ import annotations

import pytest

from spark.joins.join_cases import INTERPRETED


@pytest.fixture(scope="module")
def quick(spark):
    """Spark as small batches like it, for the tests of a module."""
    before = {name: spark.conf.get(name, None) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)
