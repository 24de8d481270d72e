"""Loads of PA-SPS: the five tweet curves, raw, smoothed and with spikes put together, and taxi counts.

A sample of a trace lasts one interval of 30 seconds, so an hour passes in 6 minutes (of taxi counts, a day in 24).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.experiments.replica_queues import TD
from foretide.workloads.traces import TRACES, load_trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

TWEETS = tuple(name for name in TRACES if name.startswith("tweets"))
MEAN_RATE = 500.0
SMOOTHED = 7
BEFORE = 1_000
KINDS = ("smoothed tweets", "raw tweets", "taxi counts", "spikes")
"""What stands for Tables 2, 6, 7 and 8."""


def curves(kind: str, *, quick: bool) -> dict[str, tuple[list[float], list[float]]]:
    """By name, the rates that were seen before, and those of the run."""
    names = ("taxi",) if kind == "taxi counts" else TWEETS[3:4] if quick else TWEETS
    length = (900 if quick else 3600) // TD
    return {name: _curve(name, kind, length) for name in names}


def _curve(name: str, kind: str, length: int) -> tuple[list[float], list[float]]:
    values = load_trace(name).values
    if kind == "smoothed tweets":
        values = np.convolve(values, np.ones(SMOOTHED) / SMOOTHED, mode="valid")
    start = len(values) // 2 if kind == "taxi counts" else liveliest(values[: len(values) // 2 + BEFORE], length)
    part = spikes(values, start, length) if kind == "spikes" else values[start : start + length]
    before = values[max(0, start - BEFORE) : start]
    scale = MEAN_RATE / part.mean()
    return (before * scale).tolist(), (part * scale).tolist()


def liveliest(values: NDArray[np.float64], length: int) -> int:
    """Where the part begins that changes most, after what is learnt from."""
    moves = np.convolve(np.abs(np.diff(values)), np.ones(length), mode="valid")
    return BEFORE + int(np.argmax(moves[BEFORE:])) if len(moves) > BEFORE else len(values) - length


def spikes(values: NDArray[np.float64], start: int, length: int) -> NDArray[np.float64]:
    """The highest and the lowest stretches of a curve in turn, ten samples each."""
    pieces = values[start : start + 4 * length]
    pieces = pieces[: len(pieces) // 10 * 10].reshape(-1, 10)
    order = np.argsort(pieces.mean(axis=1))
    half = max(1, length // 20)
    mixed = [piece for pair in zip(order[-half:][::-1], order[:half], strict=False) for piece in pair]
    return np.concatenate([pieces[piece] for piece in mixed])[:length]
