"""Two ways to run a query of Nexmark: on Spark alone, and with an edge or an adaptive join that can be controlled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from foretide.spark.edges import edge
from foretide.spark.joins.join import join
from foretide.topology.groupings import Dynamic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Keys = Sequence[tuple[str, str]]
Seconds = tuple[float, float]


class Ways(Protocol):
    """What a query leaves open: how a stream comes to its state, and how two streams are joined."""

    def split(self, frame: DataFrame) -> DataFrame:
        """A stream in front of a stateful step."""

    def join(self, left: DataFrame, right: DataFrame, on: Keys, times: tuple[str, str], within: Seconds) -> DataFrame:
        """All columns of two streams with equal keys, the right one at most so much earlier and later."""


@dataclass(frozen=True)
class Plain:
    """Spark alone."""

    def split(self, frame: DataFrame) -> DataFrame:
        """As it comes."""
        return frame

    def join(self, left: DataFrame, right: DataFrame, on: Keys, times: tuple[str, str], within: Seconds) -> DataFrame:
        """Spark's own join."""
        before, after = (F.expr(f"INTERVAL '{round(each * 1e6)}' MICROSECOND") for each in within)
        left_time, right_time = F.col(f"l.{times[0]}"), F.col(f"r.{times[1]}")
        condition = (right_time >= left_time - before) & (right_time <= left_time + after)
        for one, other in on:
            condition &= F.col(f"l.{one}") == F.col(f"r.{other}")
        return left.alias("l").join(right.alias("r"), condition)


@dataclass(frozen=True)
class Controlled:
    """With Foretide: an edge in front of the state, and joins whose hot keys can be split.

    Attributes:
        control_folder: Where routes and plans are published.
        pool: Tasks of the edge.
    """

    control_folder: str
    pool: int = 2

    def split(self, frame: DataFrame) -> DataFrame:
        """Over an edge."""
        return frame.transform(edge("bids", Dynamic(), replicas=self.pool, control_folder=self.control_folder))

    def join(self, left: DataFrame, right: DataFrame, on: Keys, times: tuple[str, str], within: Seconds) -> DataFrame:
        """By `ft.join`."""
        return join(left, right, list(on), within, times=times, control_folder=self.control_folder)
