"""What each batch says of a join: how far both sides got, and which keys were frequent; and reading it back.

It is taken before copies are made. The frequent keys come from Spark's own sketch of heavy hitters, over the hashes
of the keys: a count is too low by at most the share of rows that the sketch could not track.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from foretide.metrics.batch import JoinBatch, JoinSide
from foretide.spark.join_placement import OBSERVATION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOP_KEYS, TRACKED = 100, 1000
_LEFT, _RIGHT = "foretide_join_left_", "foretide_join_right_"
_PLAN = f"{OBSERVATION}_"


def plan_observation(name: str) -> str:
    """The metric that says which plan a batch read."""
    return f"{_PLAN}{name}"


def watched(
    frame: DataFrame, name: str, key_hash: Column, time: Column, *, is_left: bool, statistics: bool
) -> DataFrame:
    """The same rows, while every batch tells what it has seen of them."""
    keys = (
        [F.call_function("approx_top_k", key_hash, F.lit(TOP_KEYS), F.lit(TRACKED)).alias("keys")] if statistics else []
    )
    seen = [F.count(F.lit(1)).alias("rows"), F.max(time).alias("latest"), *keys]
    return frame.observe(f"{_LEFT if is_left else _RIGHT}{name}", *seen)


def joins_seen(observed: Mapping[str, Any]) -> dict[str, JoinBatch]:
    """What a batch said of each join, by its name."""
    names = {
        name.removeprefix(prefix) for prefix in (_PLAN, _LEFT, _RIGHT) for name in observed if name.startswith(prefix)
    }
    return {
        name: JoinBatch(
            _version(observed.get(plan_observation(name))),
            _side(observed.get(f"{_LEFT}{name}")),
            _side(observed.get(f"{_RIGHT}{name}")),
        )
        for name in sorted(names)
    }


def _version(row: Any) -> int | None:
    return None if row is None else row["version"]


def _side(row: Any) -> JoinSide | None:
    if row is None:
        return None
    keys = row.asDict().get("keys")
    counts = None if keys is None else {entry["item"]: entry["count"] for entry in keys}
    return JoinSide(row["rows"], row["latest"], counts)
