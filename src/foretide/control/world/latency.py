"""A latency target as one says it: `Latency(p99="2s")`."""

from __future__ import annotations

from foretide.control.world.setup import Quantile, Target
from foretide.durations import parse_duration
from foretide.errors import ControlError

Duration = str | float
"""Seconds, or text such as "2s" or "500 ms"."""


def Latency(  # noqa: N802 - reads as the value that it makes
    *,
    p99: Duration | None = None,
    p95: Duration | None = None,
    p50: Duration | None = None,
    mean: Duration | None = None,
    relaxed: Duration = 0.0,
    budget: int | None = None,
) -> Target:
    """The latency to hold, for one quantile of the tuples.

    >>> Latency(p99="2s", relaxed="500 ms")
    Target(latency=2.0, relaxed=0.5, quantile='p99', budget=None)

    Args:
        p99: What 99 of 100 tuples are to stay below.
        p95: What 95 of 100 are to stay below.
        p50: What half of them are to stay below.
        mean: What they are to take on average.
        relaxed: Below which processors may be given back.
        budget: Most processors to use; None for as many as there are.
    """
    wanted: dict[Quantile, Duration | None] = {"p99": p99, "p95": p95, "p50": p50, "mean": mean}
    given = [(quantile, value) for quantile, value in wanted.items() if value is not None]
    if len(given) != 1:
        said = ", ".join(quantile for quantile, _ in given) or "none of them"
        raise ControlError(f"a latency target holds one of {', '.join(wanted)}, and {said} was given; give one")
    quantile, latency = given[0]
    return Target(parse_duration(latency), parse_duration(relaxed), quantile, budget)
