"""DRS, Table II: what a plan costs for K_max from 12 to 192."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.planning import PAPER_MS, chain, milliseconds
from foretide.planning.processors import assign_processors, min_processors

ONE, TWO = "Algorithm 1", "Algorithm 2"
MILLISECONDS = "CPU of a plan"


def plan(run: Run, budget: int, algorithm: str) -> Samples:
    """CPU time of a plan for three operators in a row."""
    network = chain()
    latency = assign_processors(network, budget).expected_total_sojourn
    job = partial(assign_processors, network, budget) if algorithm == ONE else partial(min_processors, network, latency)
    least = 0.005 if run.quick else 0.05
    return {MILLISECONDS: [milliseconds(job, least, repeats=1) for _ in range(3 if run.quick else 9)]}


def _judge(found: Outcome) -> Verdict:
    worst = max(found.median(name(budget, ONE), MILLISECONDS) / paper for budget, paper in PAPER_MS.items())
    largest = found.median(name(192, ONE), MILLISECONDS)
    return Verdict(f"{largest:.3f} ms at 192; at most {worst:.2f} of the paper's time at any K_max", worst <= 1)


def _grows(found: Outcome) -> Verdict:
    growth = found.median(name(192, ONE), MILLISECONDS) / found.median(name(12, ONE), MILLISECONDS)
    return Verdict(f"{growth:.1f} times from 12 to 192", growth <= 16)


def name(budget: int, algorithm: str) -> str:
    """The name of a side."""
    return f"K_max {budget}, {algorithm}"


EXPERIMENT = Experiment(
    paper="drs",
    title="The cost of a plan for K_max from 12 to 192 processors, three operators (Table II)",
    kind="computed",
    sides=tuple(
        Side(name(budget, algorithm), partial(plan, budget=budget, algorithm=algorithm), algorithm, float(budget))
        for algorithm in (ONE, TWO)
        for budget in PAPER_MS
    ),
    measures=(Measure(MILLISECONDS, "ms"),),
    claims=(
        Claim("0.083 ms (K_max 12) to 1.25 ms (K_max 192)", _judge),
        Claim("grows no faster than K_max (16 times from 12 to 192)", _grows),
    ),
    scale="the paper's sizes; another machine",
    minutes=1.0,
    quick_minutes=0.1,
    axis="K_max",
)
