"""Taxi orders joined with vehicle positions (Aj-Stream): every free vehicle in the cell of an order around its time.

orders  --+
          +-- join by cell, within two seconds of event time --> candidates
positions-+

Few cells are hot, and the hot spots move. The rate of the orders is that of real taxi rides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foretide.control_folder.folder import ControlFolder
from foretide.spark.joins.join import join
from foretide.spark.sources.port import LoadContext
from foretide.spark.sources.registry import source_port
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.taxi import TaxiOrders, VehiclePositions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WITHIN = "2 seconds"
_DELAY = "1 second"


@dataclass(frozen=True)
class City:
    """The workload: seconds of replay, orders and positions a second, cells, skew, seconds until hot spots move."""

    seconds: float = 60.0
    orders: float = 800.0
    positions: float = 1600.0
    cells: int = 500
    zipf: float = 1.6
    move_every: float = 60.0
    seed: int = 7

    def replays(self) -> tuple[Replay, Replay]:
        """Orders and positions, along the counts of real taxi rides."""
        orders = TaxiOrders(self.seed, self.cells, self.zipf, round(self.orders * self.move_every))
        vehicles = VehiclePositions(self.seed, self.cells, self.zipf, round(self.positions * self.move_every))
        return (
            Replay(orders, self._curve(self.orders), partitions=1, flush=30.0),
            Replay(vehicles, self._curve(self.positions), partitions=1, flush=30.0),
        )

    def _curve(self, rate: float) -> Curve:
        return Curve.from_trace("taxi", seconds=self.seconds, mean_rate=rate, first=0, samples=48)


def build(spark: Any, city: City, folder: ControlFolder, *, adaptive: bool = True) -> DataFrame:
    """The join: Foretide's, or Spark's own with the same rows."""
    left, right = (
        source_port(replay).load(LoadContext(spark, name, folder))
        for name, replay in zip(("orders", "positions"), city.replays(), strict=True)
    )
    orders = left.selectExpr("cell", "order_id", "event_time AS ordered").withWatermark("ordered", _DELAY)
    seen = right.where("free").selectExpr("cell AS where", "vehicle_id", "event_time AS seen")
    positions = seen.withWatermark("seen", _DELAY)
    if adaptive:
        return join(orders, positions, [("cell", "where")], WITHIN, control_folder=folder.location)
    bound = f"seen >= ordered - INTERVAL {WITHIN} AND seen <= ordered + INTERVAL {WITHIN}"
    return orders.join(positions, orders["cell"] == positions["where"]).where(bound)
