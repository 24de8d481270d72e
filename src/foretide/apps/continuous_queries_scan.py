"""Continuous queries at the paper's cost (predictive-control): the owner is found by going through the whole table.

vehicles -> query (dynamic): over the limit? whose is it? -> log (global)

`continuous_queries` gives the same matches by a join with the table, which Spark looks up by a hash. Here each query of
a vehicle over the limit compares its plate with one entry after the other, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from foretide.apps import continuous_queries
from foretide.apps.app import App, Load, RealTime
from foretide.apps.continuous_queries import LIMIT, VEHICLES
from foretide.topology.graph import Arrow, Bolt, From, Spout, Topology
from foretide.topology.groupings import Dynamic, Global
from foretide.workloads.plates import owners

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from foretide.topology.sources import Source

Entry = tuple[str, str, str]
_SEED = Load().seed
_COLUMNS = "plate string, speed double, name string, licence string"


@lru_cache(maxsize=1)
def table(seed: int) -> list[Entry]:
    """Plate, name and licence of each vehicle, made once for each task."""
    return [tuple(entry.values()) for entry in owners(VEHICLES, seed).to_pylist()]


def find(entries: list[Entry], plate: str) -> tuple[str | None, str | None]:
    """Name and licence of the owner, by going through the entries; None without one.

    >>> find([("AAA-001", "Ida Kim", "L1"), ("AAA-002", "Ada Abel", "L2")], "AAA-002"), find([], "AAA-002")
    (('Ada Abel', 'L2'), (None, None))
    """
    for known, name, licence in entries:
        if known == plate:
            return name, licence
    return None, None


def query(seed: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Vehicles over the limit with name and licence of their owner; the other columns stay."""

    def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            speeding = batch.filter(pa.compute.greater(batch["speed"], LIMIT))
            found = [find(table(seed), plate) for plate in speeding["plate"].to_pylist()]
            for place, name in enumerate(("name", "licence")):
                speeding = speeding.append_column(name, pa.array([each[place] for each in found], pa.string()))
            yield speeding

    return scan


def build(load: Load) -> Topology:
    """The topology of `continuous_queries` with another query."""
    scanned = Arrow(query(load.seed), f"event_time timestamp, {_COLUMNS}")
    return Topology(
        "continuous-queries-scan",
        spouts=continuous_queries.build(load).spouts,
        bolts=[
            Bolt("query", scanned, [From("vehicles", Dynamic(by=("row",)))], pool=3),
            Bolt("log", continuous_queries.log, [From("query", Global())]),
        ],
    )


def log_at_once(matches: DataFrame) -> DataFrame:
    """The logger writes what it receives."""
    return matches.select("row", "due", "plate", "speed", "name", "licence")


def build_real_time(source: Source) -> Topology:
    """The topology for real-time mode."""
    scanned = Arrow(query(_SEED), f"row bigint, due bigint, {_COLUMNS}")
    return Topology(
        "continuous-queries-scan",
        spouts=[Spout("vehicles", source)],
        bolts=[
            Bolt("query", scanned, [From("vehicles", Dynamic(by=("row",)))], pool=3),
            Bolt("log", log_at_once, [From("query", Global())]),
        ],
    )


def last_matches(vehicles: pd.DataFrame) -> pd.DataFrame:
    """What has to be there of each vehicle over the limit."""
    speeding = vehicles[vehicles["speed"] > LIMIT]
    matched = speeding.merge(owners(VEHICLES, _SEED).to_pandas(), on="plate")
    return matched[["row", "plate", "licence", "due"]]


APP = App(
    "continuous-queries-scan",
    build,
    edge="query",
    ratio="7:3:2",
    result="log",
    truth=continuous_queries.truth,
    real_time=RealTime(build_real_time, "log", ("row", "plate", "licence"), "due", last_matches),
)
