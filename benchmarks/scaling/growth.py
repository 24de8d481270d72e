"""How fast a cost grows with a size: the exponent, fitted on a log-log scale, and the table that shows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

TOLERANCE = 0.15
"""An exponent that exceeds 1 by no more than this counts as linear: sorting, caches and noise take a part of it."""

_FEWEST = 2


def exponent(costs: Mapping[int, float]) -> float | None:
    """The slope of the logarithm of the cost over that of the size, by least squares; None for fewer than two points.

    >>> exponent({10: 20.0, 100: 200.0, 1000: 2000.0})
    1.0
    >>> exponent({10: 1.0, 20: 4.0})
    2.0
    """
    points = [(math.log(size), math.log(cost)) for size, cost in costs.items() if size > 0 and cost > 0]
    if len({size for size, _ in points}) < _FEWEST:
        return None
    mean_size = math.fsum(size for size, _ in points) / len(points)
    mean_cost = math.fsum(cost for _, cost in points) / len(points)
    above = math.fsum((size - mean_size) * (cost - mean_cost) for size, cost in points)
    return round(above / math.fsum((size - mean_size) ** 2 for size, _ in points), 6)


def exponent_at_end(costs: Mapping[int, float]) -> float | None:
    """The slope over the larger half of the sizes: what is paid at any size hides the growth among small ones.

    >>> round(exponent({1: 100.0, 10: 101.0, 100: 200.0, 1000: 10_100.0}), 1)
    0.6
    >>> round(exponent_at_end({1: 100.0, 10: 101.0, 100: 200.0, 1000: 10_100.0}), 1)
    1.7
    """
    largest = sorted(costs)[-max(_FEWEST, math.ceil(len(costs) / 2)) :]
    return exponent({size: costs[size] for size in largest})


def is_worse_than_linear(costs: Mapping[int, float]) -> bool:
    """Whether the cost grows faster than its size, over all sizes or over the larger half.

    >>> is_worse_than_linear({10: 1.0, 100: 10.0}), is_worse_than_linear({10: 1.0, 100: 100.0})
    (False, True)
    """
    found = (exponent(costs), exponent_at_end(costs))
    return any(each is not None and each > 1 + TOLERANCE for each in found)


def rows(measured: Mapping[str, Mapping[int, float]]) -> list[dict[str, Any]]:
    """A row for each cost: its figure at each size, both exponents, and whether it is worse than linear."""
    sizes = sorted({size for costs in measured.values() for size in costs})
    return [
        {
            "cost": name,
            **{f"{size:,}": costs.get(size, "-") for size in sizes},
            "exponent": _shown(exponent(costs)),
            "larger half": _shown(exponent_at_end(costs)),
            "worse than linear": "YES" if is_worse_than_linear(costs) else "no",
        }
        for name, costs in measured.items()
    ]


def gathered(sizes: list[int], measure: Callable[[int], Mapping[str, float]]) -> list[dict[str, Any]]:
    """Measure several costs at each size, and show how they grow."""
    found: dict[str, dict[int, float]] = {}
    for size in sizes:
        for name, cost in measure(size).items():
            found.setdefault(name, {})[size] = cost
    return rows(found)


def per_more(costs: Mapping[int, float]) -> float:
    """What one more costs, between the smallest and the largest size.

    >>> per_more({1: 5.0, 11: 25.0})
    2.0
    """
    ends = sorted(costs)
    return next(((costs[last] - costs[first]) / (last - first) for first, last in pairwise((ends[0], ends[-1]))), 0.0)


def _shown(found: float | None) -> str:
    return "-" if found is None else f"{found:.2f}"
