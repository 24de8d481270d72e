"""Edges of a real-time query: running tasks follow the route, and count the tuples that they work on."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from foretide.control_folder.filesystem import absolute
from foretide.spark.edges import barrier, placed, task_column
from foretide.spark.groupings import quoted
from foretide.spark.realtime.meters import meter_entry
from foretide.spark.realtime.routes import live_task, ring_of_batch
from foretide.spark.session import apply_mode, check_mode
from foretide.topology.modes import REAL_TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from foretide.control_folder.folder import ControlFolder
    from foretide.topology.groupings import Grouping

_KEY_LENGTH = 12


def key_of(folder: ControlFolder) -> str:
    """What the queries of one application are told apart by in the JVM of an executor."""
    return hashlib.sha256(absolute(folder.location).encode()).hexdigest()[:_KEY_LENGTH]


class LiveEdges:
    """The edges of one query."""

    def __init__(self, spark: SparkSession, folder: ControlFolder) -> None:
        check_mode(spark, REAL_TIME)
        apply_mode(spark, REAL_TIME)
        self.spark, self.folder, self.key = spark, folder, key_of(folder)

    def placed(
        self, frame: DataFrame, name: str, grouping: Grouping, pool: int, replicas: int | None = None
    ) -> DataFrame:
        """The frame with the task of each tuple in the edge's own column, by the route that running tasks see."""
        live = partial(live_task, self.spark, self.key, name, pool=pool)
        return placed(frame, name, grouping, pool, self.folder, replicas, live, ring_of_batch)

    def exchange(self, frame: DataFrame, name: str, pool: int, *, measured: bool = True) -> DataFrame:
        """Send each tuple to the task in the edge's column, and count it there."""
        task = task_column(name)
        arrived = frame.repartitionById(pool, F.col(quoted(task))).drop(task)
        return meter_entry(arrived, name, self.key, pool) if measured else barrier(arrived)
