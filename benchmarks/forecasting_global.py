"""Makes the net for all series that comes with Foretide, from generated series only.

    python -m benchmarks.forecasting_global

A series is a wandering level, times up to two seasons of any shape, times noise; some are counts, some have surges and
steps. No recorded series is used, so that the benchmarks on recorded ones remain fair.
"""

from __future__ import annotations

import numpy as np

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.load.global_net import FOLDER, train
from foretide.forecasting.saved import save_state

SERIES, LENGTH, EPOCHS = 160, 1300, 25


def main() -> None:
    layers, scale = train([generated(seed) for seed in range(SERIES)], 1, EPOCHS)
    arrays = [*scale, *(array for layer in layers for array in layer)]
    state = {f"part{at:02}": array.astype(np.float32) for at, array in enumerate(arrays)}
    save_state(FOLDER, state, {"model": "global net"})


def generated(seed: int) -> tuple[Floats, tuple[int, ...]]:
    """A series, and its seasons as far as the net is told of them."""
    rng = np.random.default_rng([26, seed])
    moves = rng.normal(0, 10 ** rng.uniform(-3, -1), LENGTH)
    level = np.cumsum(moves)
    level -= rng.uniform(0.001, 0.05) * np.convolve(level, np.ones(50) / 50, "same")
    seasons = _seasons(rng)
    logs = rng.uniform(1, 9) + np.clip(level, -4, 4) + sum((_shape(rng, each) for each in seasons), np.zeros(LENGTH))
    logs = logs + _correlated(rng) + _surges(rng)
    values = np.expm1(np.clip(logs, 0.0, 14.0))
    counts = rng.poisson(np.minimum(values, 1e6)).astype(float) if rng.random() < 0.6 else values
    return counts, seasons if rng.random() < 0.8 else ()


def _seasons(rng: np.random.Generator) -> tuple[int, ...]:
    short = int(rng.integers(12, 150))
    return ((), (short,), (short, short * int(rng.integers(2, 5))))[rng.integers(0, 3)]


def _shape(rng: np.random.Generator, season: int) -> Floats:
    """A smooth shape of a few harmonics, or one with steps."""
    at = np.arange(season) * 2 * np.pi / season
    waves = [rng.normal(0, 1 / k) * np.cos(k * at + rng.uniform(0, 7)) for k in range(1, int(rng.integers(2, 7)))]
    shape = np.sum(waves, axis=0)
    if rng.random() < 0.3:
        shape = np.where(shape > np.quantile(shape, rng.uniform(0.3, 0.9)), 1.0, 0.0)
    found: Floats = rng.uniform(0.1, 1.2) * np.tile(shape, LENGTH // season + 1)[:LENGTH]
    return found


def _correlated(rng: np.random.Generator) -> Floats:
    """Noise of which a part lasts for some steps."""
    noise, share = rng.normal(0, 10 ** rng.uniform(-2.5, -0.5), LENGTH), rng.uniform(0, 0.95)
    for at in range(1, LENGTH):
        noise[at] += share * noise[at - 1]
    return noise


def _surges(rng: np.random.Generator) -> Floats:
    """A few surges that fade, and a few steps."""
    logs = np.zeros(LENGTH)
    for _ in range(int(rng.integers(0, 12))):
        start, fade = int(rng.integers(0, LENGTH)), rng.uniform(1, 40)
        logs[start:] += rng.uniform(0.3, 2.5) * np.exp(-np.arange(LENGTH - start) / fade)
    if rng.random() < 0.3:
        logs[int(rng.integers(0, LENGTH)) :] += rng.normal(0, 1)
    return logs


if __name__ == "__main__":
    main()
