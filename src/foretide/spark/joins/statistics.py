"""What each batch says of a join: how far both sides got, and which keys were frequent; and reading it back.

It is taken before copies are made. The frequent keys come from Spark's own sketch of heavy hitters, over the hashes
of the keys and, behind them, how a person would write them: a count is too low by at most the share of rows that the
sketch could not track.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from foretide.metrics.batch import JoinBatch, JoinSide
from foretide.spark.joins.cells import OBSERVATION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOP_KEYS, TRACKED = 100, 1000
_LEFT, _RIGHT = "foretide_join_left_", "foretide_join_right_"
_PLAN = f"{OBSERVATION}_"
_SHOWN = 40
_BETWEEN = "\x1f"


def plan_observation(name: str) -> str:
    """The metric that says which plan a batch read."""
    return f"{_PLAN}{name}"


def watched(
    frame: DataFrame, name: str, keys: Sequence[Column], time: Column, *, is_left: bool, statistics: bool
) -> DataFrame:
    """The same rows, while every batch tells what it has seen of them."""
    top = F.call_function("approx_top_k", _written(keys), F.lit(TOP_KEYS), F.lit(TRACKED)).alias("keys")
    seen = [F.count(F.lit(1)).alias("rows"), F.max(time).alias("latest"), *([top] if statistics else [])]
    return frame.observe(f"{_LEFT if is_left else _RIGHT}{name}", *seen)


def _written(keys: Sequence[Column]) -> Column:
    """The hash of a key, and the key itself as far as it is short enough to be told."""
    shown = [F.coalesce(F.left(key.cast("string"), F.lit(_SHOWN)), F.lit("null")) for key in keys]
    return F.concat_ws(_BETWEEN, F.hash(*keys).cast("string"), *shown)


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
    if keys is None:
        return JoinSide(row["rows"], row["latest"])
    counts: Counter[int] = Counter()
    names: dict[int, str] = {}
    for entry in keys:
        written, *shown = entry["item"].split(_BETWEEN)
        counts[int(written)] += entry["count"]
        names.setdefault(int(written), ", ".join(shown))
    return JoinSide(row["rows"], row["latest"], dict(counts), names)
