"""How long planning takes, beside the figures of drs (Table II), and how that grows.

python -m benchmarks.planning [--plots FOLDER]
"""

from __future__ import annotations

import argparse
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


def run() -> dict[str, Any]:
    """Everything that is measured, as plain values."""
    return {"table_two": table_two(), "million": both(loaded(20, MILLION), MILLION), "growth": growth()}


def show(results: Mapping[str, Any]) -> None:
    print("Three operators, milliseconds a plan (paper: drs Table II, scaling)")
    print(f"{'K_max':>8} {'paper':>9} {'Alg. 1':>9} {'Alg. 2':>9}")
    for row in results["table_two"]:
        times = row["paper_ms"], row["algorithm_1_ms"], row["algorithm_2_ms"]
        print(f"{row['k_max']:>8} " + " ".join(f"{ms:>9.3f}" for ms in times))
    million = results["million"]
    print(f"\nK_max = {MILLION:,} over 20 operators, 75 % busy:")
    print(f"  Algorithm 1 {million['algorithm_1_s']:.3f} s, Algorithm 2 {million['algorithm_2_s']:.3f} s")
    for key, title in (("k_max", "K_max over 20 operators"), ("operators", "operators with K_max = 100,000")):
        print(f"\nGrowth with {title}, seconds a plan")
        for row in results["growth"][key]:
            print(f"{row[key]:>10,} {row['algorithm_1_s']:>10.5f} {row['algorithm_2_s']:>10.5f}")


def plot(results: Mapping[str, Any], folder: Path) -> Path:
    """Draw how the cost grows, both axes logarithmic."""
    from matplotlib.figure import Figure  # noqa: PLC0415 an optional extra

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, key, label in (
        (left, "k_max", "K_max, 20 operators"),
        (right, "operators", "operators, K_max 100,000"),
    ):
        rows = results["growth"][key]
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


def main() -> None:
    parser = argparse.ArgumentParser(description="How long planning takes.")
    parser.add_argument("--plots", type=Path, help="folder for the plot of how the cost grows")
    folder = parser.parse_args().plots
    results = run()
    show(results)
    if folder is not None:
        print(f"\nplot: {plot(results, folder)}")


if __name__ == "__main__":
    main()
