"""Where trouble probably comes from: the first of a few plain explanations that the figures support."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from foretide.metrics.snapshot import Snapshot

_SLOW = 1.5
_FULL = 0.8
_SKEWED = 2.0
_FRESH = 120.0


def likely_source(snapshot: Snapshot) -> str | None:
    """A sentence part such as "edge 'count', whose fullest replica gets 3.1 times the mean"; None: no idea."""
    explanations: tuple[Callable[[Snapshot], Iterator[str]], ...] = (
        _slow_worker,
        _skewed_edge,
        _full_operator,
        _more_load,
    )
    return next((found for explain in explanations for found in explain(snapshot)), None)


def _fresh(snapshot: Snapshot, metric: str) -> dict[str, float]:
    return {subject: known.value for subject, known in snapshot.of(metric).items() if known.age <= _FRESH}


def _slow_worker(snapshot: Snapshot) -> Iterator[str]:
    times = _fresh(snapshot, "worker_slowness")
    for worker, time in sorted(times.items(), key=lambda item: -item[1])[:1]:
        others = [other for name, other in times.items() if name != worker]
        if others and median(others) > 0 and time > _SLOW * median(others):
            times_slower = time / median(others)
            yield f"worker {worker}, which takes {times_slower:.1f} times as long for the same work as the others"


def _skewed_edge(snapshot: Snapshot) -> Iterator[str]:
    for edge, skew in sorted(_fresh(snapshot, "skew").items(), key=lambda item: -item[1])[:1]:
        if skew > _SKEWED:
            yield f"edge '{edge}', whose fullest replica gets {skew:.1f} times the mean"


def _full_operator(snapshot: Snapshot) -> Iterator[str]:
    for operator, capacity in sorted(_fresh(snapshot, "capacity").items(), key=lambda item: -item[1])[:1]:
        if capacity > _FULL:
            yield f"operator '{operator}', whose busiest replica is busy {capacity:.0%} of the time"


def _more_load(snapshot: Snapshot) -> Iterator[str]:
    for spout, rate in _fresh(snapshot, "arrival_rate").items():
        taken = snapshot.value("input_rows_per_second", within=_FRESH)
        lag = snapshot.value("lag", spout, within=_FRESH)
        if taken is not None and lag and rate > taken:
            yield f"spout '{spout}', where {rate:.4g} tuples fall due a second while {taken:.4g} are taken"
