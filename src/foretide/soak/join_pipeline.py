"""The pipeline of campaigns with a join: the plan of the join is changed at random, again and again.

Rows with an even number are joined with those of an odd one, of the same key and nearly the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

import foretide as ft
from foretide.soak.layout import NAME, Layout
from foretide.soak.rows import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

JOIN = "join"
POOL = 4
SIDES = 2
BOUND = (0.02, 0.02)
_MICROS = 1_000_000
DELAY = "2 seconds"
COLUMNS = {"pairs": ("key", "left_row", "right_row")}
"""What is compared of each output stream."""

_MAX_KEYS, _MAX_SIDE = 6, 3


def sides(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The rows of both sides, without those that have no payload."""
    whole = rows.where(F.col("payload").isNotNull() & (F.col("row") >= 0))
    left, right = (whole.where(F.col("row") % SIDES == side) for side in range(SIDES))
    return (
        left.select("key", F.col("row").alias("left_row"), F.col("at").alias("left_time")),
        right.select("key", F.col("row").alias("right_row"), F.col("at").alias("right_time")),
    )


def topology(layout: Layout) -> ft.Topology:
    """The topology over the files of a campaign."""

    def load(spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        left, right = sides(reader.parquet(str(layout.input)))
        marked = left.withWatermark("left_time", DELAY), right.withWatermark("right_time", DELAY)
        folder = str(layout.control_folder)
        return ft.join(*marked, ["key"], BOUND, name=JOIN, control_folder=folder)

    pairs = ft.Bolt("pairs", lambda rows: rows, [ft.From("joined", ft.Dynamic(by=("left_row",)))], pool=POOL)
    return ft.Topology(NAME, [ft.Spout("joined", ft.Stream(load))], [pairs])


@dataclass(frozen=True)
class RandomPlans:
    """Wishes a random plan for the hottest keys of the join, and another one as soon as it is in force."""

    name: str = "random_plans"

    def start(self) -> ft.SetJoinPlan | None:
        """No plan yet."""
        return None

    def wish(self, state: ft.SetJoinPlan | None, world: ft.World) -> tuple[ft.SetJoinPlan | None, list[ft.Wish]]:
        """The plan that is wanted at present."""
        view = world.joins.get(JOIN)
        if view is None or not view.keys or view.problem is not None or view.pending is not None:
            return state, []
        if state is None or state.in_force(world.observed):
            hottest = sorted(view.keys, key=lambda load: load.rows, reverse=True)[:_MAX_KEYS]
            rng = np.random.default_rng(int(world.at * _MICROS))
            state = ft.SetJoinPlan(JOIN, random_plan(rng, [load.key for load in hottest], view.partitions))
        return state, [ft.Wish(self.name, state, "a campaign")]


def random_plan(rng: np.random.Generator, keys: Sequence[int], partitions: int) -> ft.JoinPlan:
    """Grids of random shapes on random partitions for some of the keys."""
    grids = {}
    for key in keys:
        height, width = (int(each) for each in rng.integers(0, _MAX_SIDE + 1, size=2))
        if height and width:
            cells = rng.integers(partitions, size=(height, width))
            grids[key] = ft.KeyGrid(tuple(tuple(int(cell) for cell in row) for row in cells))
    return ft.JoinPlan(grids)


def policies() -> Sequence[RandomPlans]:
    """The one that changes plans."""
    return (RandomPlans(),)


def expected(spark: SparkSession, layout: Layout) -> Mapping[str, DataFrame]:
    """The pairs, by Spark's own join."""
    left, right = sides(spark.read.schema(SCHEMA).parquet(str(layout.input)))
    before, after = (F.expr(f"INTERVAL '{int(each * _MICROS)}' MICROSECOND") for each in BOUND)
    near = F.col("right_time").between(F.col("left_time") - before, F.col("left_time") + after)
    return {"pairs": left.join(right, "key").where(near)}


def found(written: DataFrame) -> DataFrame:
    """What was committed."""
    return written
