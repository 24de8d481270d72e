"""Spark sessions that the sides of a live experiment share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

TWO_CORES = "local[2]"


@contextmanager
def session(master: str = TWO_CORES, options: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session that is stopped at the end."""
    import foretide as ft  # noqa: PLC0415 - Spark is not needed to list experiments

    spark = ft.session(master, "foretide-experiment", {"spark.sql.shuffle.partitions": "2"} | dict(options or {}))
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()
