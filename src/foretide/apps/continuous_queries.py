"""Continuous queries (predictive-control): vehicles over the limit, with their owner looked up in a table.

queries -> query (dynamic): over the limit? whose is it? -> log (global)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from foretide.apps.app import App, Load
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import Dynamic, Global
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.plates import Plates, owners

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VEHICLES = 10_000
LIMIT = 130.0


def query(seed: int, vehicles: DataFrame) -> DataFrame:
    """Vehicles over the limit with name and licence of their owner. Unknown plates are kept, without an owner."""
    table = vehicles.sparkSession.createDataFrame(owners(VEHICLES, seed))
    speeding = vehicles.where(F.col("speed") > LIMIT)
    return speeding.join(F.broadcast(table), "plate", "left")


def log(matches: DataFrame) -> DataFrame:
    """The logger writes what it receives."""
    return matches.select("event_time", "plate", "speed", "name", "licence")


def build(load: Load) -> Topology:
    """The topology under the curve of New York's taxi rides over two weeks."""
    curve = Curve.from_trace("taxi", seconds=load.seconds, mean_rate=load.rate, samples=672)
    vehicles = Replay(Plates(seed=load.seed, vehicles=VEHICLES), curve, paced=load.paced)
    return Topology(
        "continuous-queries",
        spouts=[Spout("vehicles", vehicles)],
        bolts=[
            Bolt("query", lambda frame: query(load.seed, frame), [From("vehicles", Dynamic(by=("row",)))], pool=3),
            Bolt("log", log, [From("query", Global())]),
        ],
    )


def truth(vehicles: pd.DataFrame, load: Load) -> pd.DataFrame:
    """The matches, worked out the plain way."""
    speeding = vehicles[vehicles["speed"] > LIMIT]
    matched = speeding.merge(owners(VEHICLES, load.seed).to_pandas(), on="plate", how="left")
    return matched[["event_time", "plate", "speed", "name", "licence"]]


APP = App("continuous-queries", build, edge="query", ratio="7:3:2", result="log", truth=truth)
