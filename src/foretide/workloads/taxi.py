"""Taxi orders and positions of vehicles in one city, to be joined by the cell of the map they are in.

Both are skewed in the same way: few cells are hot, and the hot spots move. How many rows come when is for a curve to
say; `Curve.from_trace("taxi", ...)` has recorded counts of taxi passengers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from foretide.workloads.generator import (
    MAX_ROW_NUMBER,
    check_range,
    check_seed,
    check_share,
    check_vocabulary,
    check_whole,
    check_zipf,
)
from foretide.workloads.keyed import keys_of_ranks
from foretide.workloads.randomness import choose, normal, pick, shares_cumulative, uniform, zipf_cumulative

if TYPE_CHECKING:
    from numpy.typing import NDArray

PASSENGERS = (0.70, 0.15, 0.06, 0.04, 0.03, 0.02)
"""The shares of orders for one passenger, two, and so on."""

_MEDIAN_FARE = 11.0
_FARE_SPREAD = 0.5


@dataclass(frozen=True)
class TaxiOrders:
    """Orders by Zipf-distributed cells; the row's own number is the order's, so that lost and doubled ones show.

    With the same seed, cells and zipf, `VehiclePositions` has the same hot spots.

    >>> TaxiOrders(seed=1).rows(3, 4).to_pylist()
    [{'order_id': 3, 'cell': 1141, 'passengers': 1, 'fare': 19.1}]

    Attributes:
        seed: What the city and its orders follow from.
        cells: How many cells the map has.
        zipf: How uneven they are: the cell of rank r occurs in proportion to r ** -zipf; 0 is uniform.
        move_every: So many rows after a hot spot was at its hottest, others are; in between they fade over into each
            other. With 0 they stay. For hot spots that move together, give both generators what they make in the same
            time.
    """

    seed: int
    cells: int = 2000
    zipf: float = 1.0
    move_every: int = 0

    schema: ClassVar[pa.Schema] = pa.schema(
        [("order_id", pa.int64()), ("cell", pa.int64()), ("passengers", pa.int64()), ("fare", pa.float64())]
    )

    def __post_init__(self) -> None:
        _check_city(self.seed, self.cells, self.zipf, self.move_every)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Orders [first, last)."""
        check_range(first, last)
        cell = _cells(self, "orders", first, last)
        passengers = pick(shares_cumulative(*PASSENGERS), uniform(self.seed, "taxi.passengers", first, last)) + 1
        columns = [np.arange(first, last), cell, passengers, self._fares(first, last)]
        return pa.record_batch([pa.array(column) for column in columns], schema=self.schema)

    def _fares(self, first: int, last: int) -> NDArray[np.float64]:
        """Log-normal fares in tenths, so that no machine's last digit shows."""
        logs = _FARE_SPREAD * normal(self.seed, "taxi.fare", first, last)
        fares: NDArray[np.float64] = np.round(_MEDIAN_FARE * np.exp(logs), 1)
        return fares


@dataclass(frozen=True)
class VehiclePositions:
    """Where vehicles are, by Zipf-distributed cells, and whether they are free.

    >>> VehiclePositions(seed=1).rows(0, 1).to_pylist()
    [{'vehicle_id': 3326, 'cell': 1533, 'free': True}]

    Attributes:
        seed: What the city and its vehicles follow from.
        cells: How many cells the map has.
        zipf: How uneven they are, as in `TaxiOrders`.
        move_every: After how many rows the hot spots are others, as in `TaxiOrders`.
        vehicles: Number of vehicles; all report equally often.
        free_share: The share of positions at which a vehicle is free.
    """

    seed: int
    cells: int = 2000
    zipf: float = 1.0
    move_every: int = 0
    vehicles: int = 5000
    free_share: float = 0.4

    schema: ClassVar[pa.Schema] = pa.schema([("vehicle_id", pa.int64()), ("cell", pa.int64()), ("free", pa.bool_())])

    def __post_init__(self) -> None:
        _check_city(self.seed, self.cells, self.zipf, self.move_every)
        check_vocabulary("vehicles", self.vehicles)
        check_share("free_share", self.free_share)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Positions [first, last)."""
        check_range(first, last)
        vehicle = choose(self.vehicles, uniform(self.seed, "taxi.vehicle", first, last))
        cell = _cells(self, "positions", first, last)
        free = uniform(self.seed, "taxi.free", first, last) < self.free_share
        return pa.record_batch([pa.array(vehicle), pa.array(cell), pa.array(free)], schema=self.schema)


def _check_city(seed: int, cells: int, zipf: float, move_every: int) -> None:
    check_seed(seed)
    check_vocabulary("cells", cells)
    check_zipf(zipf)
    check_whole("move_every", move_every, 0, MAX_ROW_NUMBER)


def _cells(city: TaxiOrders | VehiclePositions, stream: str, first: int, last: int) -> NDArray[np.int64]:
    """The cell of each row: ranks are drawn for each stream, but both send them to the same cells."""
    rank = pick(zipf_cumulative(city.cells, city.zipf), uniform(city.seed, f"taxi.{stream}.cell", first, last))
    number = np.arange(first, last)
    period = np.zeros_like(number)
    if city.move_every:
        period, since = np.divmod(number, city.move_every)
        period += uniform(city.seed, f"taxi.{stream}.fade", first, last) < since / city.move_every
    return keys_of_ranks(rank, city.cells, city.seed, "taxi", period)
