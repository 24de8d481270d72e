"""The latency of the results of a run, over parts of it, and beside a target."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from foretide.control.world.setup import Target
    from foretide.kafka.latency import Received


@dataclass(frozen=True)
class ResultLatency:
    """When each tuple was due, in seconds of the run and in order, and how many seconds its result took."""

    due: NDArray[np.float64]
    seconds: NDArray[np.float64]

    @classmethod
    def none(cls) -> Self:
        """Of a run without results so far."""
        return cls(np.empty(0), np.empty(0))

    @classmethod
    def of(cls, received: Received, origin: float) -> Self:
        """Of all records of a run that began at `origin`, in seconds since 1970."""
        due = received.due / 1e6 - origin
        order = np.argsort(due, kind="stable")
        return cls(due[order], received.milliseconds[order] / 1000)

    def quantile(self, level: float, start: float = 0.0, end: float = float("inf")) -> float | None:
        """A quantile over the tuples that were due in a part of the run; None without any."""
        first, last = np.searchsorted(self.due, (start, end))
        return _figure(self.seconds[first:last], level)

    def by_second(self, level: float | None) -> Iterator[tuple[int, float]]:
        """Each second of the run in which a tuple was due, and a quantile over its tuples; the mean without a level."""
        if not self.due.size:
            return
        last = int(self.due[-1]) + 1
        cuts = np.searchsorted(self.due, range(last + 1))
        for second, (first, end) in enumerate(pairwise(cuts)):
            found = _figure(self.seconds[first:end], level)
            if found is not None:
                yield second, found

    def compared_with(self, target: Target) -> dict[str, Any] | None:
        """A latency target, the latency over the whole run, and in how many seconds it was missed."""
        if target.latency is None:
            return None
        level = None if target.quantile == "mean" else float(target.quantile[1:]) / 100
        measured = _figure(self.seconds, level)
        each = [seconds for _, seconds in self.by_second(level)]
        return {
            "quantile": target.quantile,
            "seconds": target.latency,
            "measured": measured,
            "held": None if measured is None else measured <= target.latency,
            "intervals": len(each),
            "missed": sum(seconds > target.latency for seconds in each),
        }


def _figure(seconds: NDArray[np.float64], level: float | None) -> float | None:
    if not seconds.size:
        return None
    if level is None:
        return float(seconds.mean())
    # a value that occurred, not one between two: with few tuples the slowest is not averaged away
    return float(np.quantile(seconds, level, method="inverted_cdf"))
