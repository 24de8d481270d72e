"""Generated workers that share a machine: what forecasts of worker performance are tried on without a recording.

They share its cores. Their own load, that of their neighbours, and bursts of foreign load compete; what finds no core
waits. Tuples arrive a step before they are worked on, and foreign processes read from the disk a step before they
compute. So the neighbours and the machine say something about a worker's next step that its own past does not say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretide.workloads.generator import check_number, check_seed, check_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

Features = dict[str, float]


@dataclass(frozen=True, slots=True)
class ColocatedStep:
    """What was measured in one step: features of the machine, and of each of its workers."""

    machine: Features
    workers: dict[str, Features]


def colocated_steps(seed: int, steps: int, workers: int = 4, cores: float = 4.0) -> list[ColocatedStep]:
    """So many steps of one machine with workers `w0`, `w1` and so on.

    A worker has `cpu` (cores), `sending_time` and `queuing_time` (milliseconds), `arrivals` and `backlog` (tuples);
    the machine has `cpu` (cores), `disk` (a share) and `memory` (a constant).
    """
    check_seed(seed)
    check_whole("steps", steps, 0, 1_000_000)
    check_whole("workers", workers, 1, 1000)
    check_number("cores", cores, 0.1, 10_000)
    rng = np.random.default_rng(seed)
    share = cores / workers
    foreign = _bursts(rng, steps + 1) * cores
    arrivals = _arrivals(rng, steps + 1, workers) * 100
    cost = share * 0.8 / 100 * rng.uniform(0.8, 1.2, workers)
    backlog, made = np.zeros(workers), []
    for step in range(steps):
        waiting = backlog + arrivals[step]
        pressure = float((waiting * cost).sum() + foreign[step]) / cores
        done = waiting / max(1.0, pressure)
        backlog = np.minimum(waiting - done, 1000.0)
        columns = {
            "cpu": done * cost * _noise(rng, workers),
            "sending_time": (2 + 8 * max(0.0, pressure - 0.7) + 0.01 * done) * _noise(rng, workers),
            "queuing_time": (5 + 50 * backlog / np.maximum(done, 1.0)) * _noise(rng, workers),
            "arrivals": arrivals[step + 1] * _noise(rng, workers),
            "backlog": backlog * _noise(rng, workers),
        }
        machine = {"cpu": min(pressure, 1.0) * cores, "disk": float(foreign[step + 1] / cores), "memory": 16.0}
        made.append(ColocatedStep(machine, _by_worker(columns, workers)))
    return made


def _noise(rng: np.random.Generator, workers: int) -> NDArray[np.float64]:
    return rng.normal(1.0, 0.05, workers).clip(0.5, 1.5)


def _by_worker(columns: dict[str, NDArray[np.float64]], workers: int) -> dict[str, Features]:
    return {f"w{at}": {name: float(column[at]) for name, column in columns.items()} for at in range(workers)}


def _bursts(rng: np.random.Generator, steps: int) -> NDArray[np.float64]:
    """Foreign load that comes and goes: it builds up over some steps, stays, and falls away at once."""
    load, left, level, target = np.zeros(steps), 0, 0.0, 0.0
    for step in range(steps):
        if left == 0 and rng.random() < 0.03:
            left, target = int(rng.integers(8, 25)), float(rng.uniform(0.3, 0.9))
        level = level + 0.35 * (target - level) if left else 0.3 * level
        left = max(0, left - 1)
        load[step] = level
    return load


def _arrivals(rng: np.random.Generator, steps: int, workers: int) -> NDArray[np.float64]:
    """Around 1 for each worker: a slow wave, a wandering part, and surges of single workers."""
    wave = 0.2 * np.sin(np.arange(steps)[:, None] / 40 + rng.uniform(0, 6, workers))
    wandering, surge, rows = np.zeros(workers), np.zeros(workers), []
    for _ in range(steps):
        wandering = 0.85 * wandering + rng.normal(0, 0.08, workers)
        surge = 0.6 * surge + (rng.random(workers) < 0.02) * rng.uniform(0.5, 1.5, workers)
        rows.append(wandering + surge)
    base = rng.uniform(0.6, 0.9, workers)
    return np.maximum(base + wave + np.array(rows).reshape(steps, workers), 0.02)
