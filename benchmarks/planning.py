"""How long planning takes, beside the figures of drs (Table II), and how that grows.

python -m benchmarks.planning [--plots FOLDER]
"""

from __future__ import annotations

import time
import timeit
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.planning.processors import assign_processors, min_processors
from foretide.queueing.network import Flow, Network, Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAPER_MS = {12: 0.083, 24: 0.158, 48: 0.323, 96: 0.665, 192: 1.25}
MILLION = 1_000_000


def chain(rate: float = 5.0) -> Network:
    """Three operators in a chain, as in the paper's logo detection; stable from 7 processors on."""
    operators = (Operator("extract", 1.75), Operator("match", 1.6), Operator("aggregate", 650.0))
    return Network(operators, (Flow("extract", "match"), Flow("match", "aggregate")), {"extract": rate})


def loaded(operators: int, budget: int, share: float = 0.75) -> Network:
    """Unequal operators that keep `share` of the budget busy."""
    weights = [1 + i % 7 for i in range(operators)]
    unit = budget * share / sum(weights)
    made = tuple(Operator(f"o{i}", 1.0 + i % 3) for i in range(operators))
    rates = {o.name: o.service_rate * unit * w for o, w in zip(made, weights, strict=True)}
    return Network(made, (), rates)


def milliseconds(job: Callable[[], object], least: float = 0.05, repeats: int = 9) -> float:
    """CPU time of one call, as in the paper: the best of some runs that are long enough to be measured."""
    job()
    timer = timeit.Timer(job, timer=time.process_time)
    number = max(1, round(least / max(timer.timeit(1), 1e-7)))
    return min(timer.repeat(repeats, number)) / number * 1000


def table_two() -> list[dict[str, float]]:
    rows = []
    for budget, paper in PAPER_MS.items():
        network = chain()
        latency = assign_processors(network, budget).expected_total_sojourn
        rows.append(
            {
                "k_max": budget,
                "paper_ms": paper,
                "algorithm_1_ms": milliseconds(partial(assign_processors, network, budget)),
                "algorithm_2_ms": milliseconds(partial(min_processors, network, latency)),
            }
        )
    return rows


def both(network: Network, budget: int) -> dict[str, float]:
    """Seconds of both algorithms; the second is asked for what the first reached, less a hair."""
    latency = assign_processors(network, budget).expected_total_sojourn * (1 + 1e-6)
    return {
        "algorithm_1_s": milliseconds(lambda: assign_processors(network, budget), repeats=3) / 1000,
        "algorithm_2_s": milliseconds(lambda: min_processors(network, latency), repeats=3) / 1000,
    }


def growth() -> dict[str, list[dict[str, float]]]:
    budgets = [100, 1_000, 10_000, 100_000, MILLION]
    counts = [2, 5, 10, 20, 50, 100, 200]
    return {
        "k_max": [{"k_max": k, **both(loaded(20, k), k)} for k in budgets],
        "operators": [{"operators": n, **both(loaded(n, 100_000), 100_000)} for n in counts],
    }


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - it is quick as it is
    """Everything that is measured; how the cost grows is drawn too."""
    grown = growth()
    million = {"K_max": MILLION, "operators": 20, **both(loaded(20, MILLION), MILLION)}
    return {
        "three operators, milliseconds of CPU a plan, beside drs Table II": table_two(),
        "a million processors, seconds a plan": [million],
        "growth with K_max, 20 operators, seconds a plan": grown["k_max"],
        "growth with operators, K_max 100,000, seconds a plan": grown["operators"],
        "plot": str(plot(grown, folder)),
    }


def plot(grown: Mapping[str, list[dict[str, float]]], folder: Path) -> Path:
    """Draw how the cost grows, both axes logarithmic."""
    from matplotlib.figure import Figure  # noqa: PLC0415 an optional extra

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, key, label in (
        (left, "k_max", "K_max, 20 operators"),
        (right, "operators", "operators, K_max 100,000"),
    ):
        rows = grown[key]
        for name, style in (("algorithm_1_s", "o-"), ("algorithm_2_s", "s--")):
            title = name.removesuffix("_s").replace("_", " ")
            axes.loglog([row[key] for row in rows], [row[name] for row in rows], style, label=title)
        axes.set_xlabel(label)
        axes.grid(visible=True, which="both", alpha=0.3)
    left.set_ylabel("seconds a plan")
    left.legend()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "planning-growth.svg"
    figure.savefig(path)
    return path
