"""Taxi orders joined with vehicle positions (Aj-Stream): every free vehicle in the cell of an order around its time.

orders -------------------------------+
                                      +-- match: by cell, within two seconds of event time
positions -> free (dynamic) ----------+

Few cells are hot, and the hot spots move. The join is `ft.join`, in the control folder of the pipeline. Real-time mode
has no joins of streams, so the application has no form for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from foretide.apps.app import App, Load
from foretide.spark.joins.join import join
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import Dynamic
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.taxi import TaxiOrders, VehiclePositions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "taxi-join"
WITHIN, DELAY = "2 seconds", "1 second"
CELLS, ZIPF = 500, 1.0
ORDERS, POSITIONS = 1 / 3, 2 / 3
"""The shares of both streams in the load."""


def free(positions: DataFrame) -> DataFrame:
    """Vehicles that can take an order. The flush is kept: it moves the watermark."""
    return positions.where("free OR free IS NULL").select("cell", "vehicle_id", "event_time")


def match(both: DataFrame) -> DataFrame:
    """Each order with each free vehicle that was in its cell at most two seconds before or after it."""
    orders = both.where("_source = 'orders'").selectExpr("cell", "order_id", "event_time AS ordered")
    vehicles = both.where("_source = 'free'").selectExpr("cell AS place", "vehicle_id", "event_time AS seen")
    left, right = orders.withWatermark("ordered", DELAY), vehicles.withWatermark("seen", DELAY)
    return join(left, right, [("cell", "place")], WITHIN, name="match").select(*_COLUMNS)


_COLUMNS = ("order_id", "ordered", "vehicle_id", "seen")


def build(load: Load) -> Topology:
    """The topology under the curve of a day of taxi rides; hot spots move once in the run."""
    orders, positions = ORDERS * load.rate, POSITIONS * load.rate
    calls = TaxiOrders(load.seed, CELLS, ZIPF, round(orders * load.seconds))
    places = VehiclePositions(load.seed, CELLS, ZIPF, round(positions * load.seconds))
    return Topology(
        NAME,
        spouts=[
            Spout("orders", Replay(calls, _curve(load, orders), flush=30.0, paced=load.paced)),
            Spout("positions", Replay(places, _curve(load, positions), flush=30.0, paced=load.paced)),
        ],
        bolts=[
            Bolt("free", free, [From("positions", Dynamic(by=("row",)))], pool=2),
            Bolt("match", match, [From("orders"), From("free")]),
        ],
    )


def _curve(load: Load, rate: float) -> Curve:
    return load.shaped(Curve.from_trace("taxi", seconds=load.seconds, mean_rate=rate, first=0, samples=48))


def truth(rows: dict[str, pd.DataFrame], _: Load) -> pd.DataFrame:
    """The pairs, worked out the plain way."""
    orders, positions = rows["orders"], rows["positions"]
    vehicles = positions[positions["free"].astype(bool)]
    pairs = orders.merge(vehicles, on="cell", suffixes=("_order", "_vehicle"))
    pairs = pairs.rename(columns={"event_time_order": "ordered", "event_time_vehicle": "seen"})
    near = (pairs["seen"] - pairs["ordered"]).abs() <= pd.Timedelta(WITHIN)
    return pairs.loc[near, list(_COLUMNS)]


APP = App(NAME, build, edge="free", ratio="3:1", result="match", truth=truth)
