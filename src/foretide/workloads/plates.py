"""Vehicles that pass a speed camera, and the register of their owners."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from statistics import NormalDist
from string import ascii_uppercase
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from foretide.workloads.generator import check_number, check_range, check_seed, check_vocabulary, joined
from foretide.workloads.randomness import choose, normal, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST_NAMES = ("Ada", "Alan", "Barbara", "Claude", "Edsger", "Emmy", "Grace", "Ida", "John", "Katherine", "Niklaus")
_LAST_NAMES = ("Abel", "Bauer", "Cohen", "Dubois", "Evans", "Fischer", "Garcia", "Huang", "Ivanov", "Jensen", "Kim")


@dataclass(frozen=True)
class Plates:
    """Plates, all equally frequent, with a log-normal speed in km/h.

    >>> Plates(seed=1).rows(0, 1).to_pylist()
    [{'plate': 'AAF-425', 'speed': 93.3}]

    Attributes:
        seed: What plates and speeds follow from.
        vehicles: Number of vehicles.
        limit: The speed limit in km/h.
        speeding: The share of passages above the limit.
        spread: The standard deviation of the logarithm of the speed.
    """

    seed: int
    vehicles: int = 10_000
    limit: float = 130.0
    speeding: float = 0.05
    spread: float = 0.16

    schema: ClassVar[pa.Schema] = pa.schema([("plate", pa.string()), ("speed", pa.float64())])

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_vocabulary("vehicles", self.vehicles)
        check_number("limit", self.limit, 1, 1000)
        check_number("speeding", self.speeding, 1e-9, 1 - 1e-9)
        check_number("spread", self.spread, 0.001, 2)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Passages [first, last)."""
        check_range(first, last)
        vehicle = choose(self.vehicles, uniform(self.seed, "plates.plate", first, last))
        return pa.record_batch(
            [_plates(self.vehicles).take(pa.array(vehicle)), pa.array(self._speeds(first, last))],
            schema=self.schema,
        )

    def _speeds(self, first: int, last: int) -> NDArray[np.float64]:
        """Log-normal speeds in tenths of km/h, so that no machine's last digit shows."""
        median = math.log(self.limit) - self.spread * NormalDist().inv_cdf(1 - self.speeding)
        speeds: NDArray[np.float64] = np.exp(median + self.spread * normal(self.seed, "plates", first, last))
        return np.round(speeds, 1)


def owners(vehicles: int, seed: int) -> pa.Table:
    """The register: plate, owner's name and driving licence of each vehicle that `Plates` can show.

    >>> owners(2, seed=1).to_pylist()[1]
    {'plate': 'AAA-001', 'name': 'Emmy Jensen', 'licence': 'L10000001-75'}
    """
    check_vocabulary("vehicles", vehicles)
    check_seed(seed)
    given = choose(len(_FIRST_NAMES), uniform(seed, "owners.given", 0, vehicles))
    family = choose(len(_LAST_NAMES), uniform(seed, "owners.family", 0, vehicles))
    check = choose(90, uniform(seed, "owners.licence", 0, vehicles)) + 10
    names = joined(pa.array(_FIRST_NAMES).take(pa.array(given)), " ", pa.array(_LAST_NAMES).take(pa.array(family)))
    numbers = pa.array(np.arange(vehicles) + 10_000_000).cast(pa.string())
    licences = joined("L", numbers, "-", pa.array(check).cast(pa.string()))
    return pa.table({"plate": _plates(vehicles), "name": names, "licence": licences})


@lru_cache(maxsize=8)
def _plates(vehicles: int) -> pa.Array:
    """The plates AAA-000, AAA-001 ... of that many vehicles."""
    letters, digits = np.divmod(np.arange(vehicles), 1000)
    return joined(_letters().take(pa.array(letters)), "-", _digits().take(pa.array(digits)))


@lru_cache(maxsize=1)
def _letters() -> pa.Array:
    return pa.array(["".join(letters) for letters in product(ascii_uppercase, repeat=3)])


@lru_cache(maxsize=1)
def _digits() -> pa.Array:
    return pa.array([f"{number:03d}" for number in range(1000)])
