"""DRS, Figure 10: K_max = 7, where M/M/k and GI/G/k recommend different allocations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from math import isfinite

import numpy as np

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from foretide.queueing.network import Flow, Network, Operator
from foretide.queueing.sojourn import expected_total_sojourn
from foretide.simulation.pipeline import simulate
from foretide.simulation.scenario import Scenario

BUDGET, FEATURES = 7, 20
RATES = (5.0, 6.0)
NAMES = ("extract", "match", "aggregate")
UNIFORM_SCV = {5.0: 0.12, 6.0: 0.083}
"""Squared variation of gaps that are uniform in 1/8..1/2 and 1/9..1/3 seconds."""
SERVICE_SCV = {"extract": 1.5, "match": 1.5, "aggregate": 1.0}
SERVICE_RATE = {"extract": 3.6, "match": 52.0, "aggregate": 2000.0}
SUM, MMK, GIG = "sojourn, simulated", "M/M/k", "GI/G/k"


def network(rate: float, *, variation: bool) -> Network:
    """Logo detection; with its variation coefficients or as M/M/k has it.

    Features come F at a time: F - 1 of F gaps are 0, so gaps vary by F * (1 + c) - 1, c being that of the frames that
    leave the first operator, which is taken for 1.
    """
    frames = UNIFORM_SCV[rate]
    arrivals = {"extract": frames, "match": FEATURES * 2.0 - 1.0, "aggregate": 1.0}
    operators = tuple(
        Operator(name, SERVICE_RATE[name], SERVICE_SCV[name], arrivals[name]) if variation else
        Operator(name, SERVICE_RATE[name])
        for name in NAMES
    )  # fmt: skip
    flows = (Flow("extract", "match", FEATURES), Flow("match", "aggregate"))
    return Network(operators, flows, {"extract": rate})


def allocations(rate: float) -> list[tuple[int, ...]]:
    """All that use the whole budget and keep up."""
    loads = network(rate, variation=False).load_array
    return [
        each
        for each in product(range(1, BUDGET), repeat=3)
        if sum(each) == BUDGET and all(k > load for k, load in zip(each, loads, strict=True))
    ]


def measured(run: Run, rate: float, allocation: tuple[int, ...]) -> Samples:
    """The sum of sojourn times: simulated, and by both models, in milliseconds."""
    found = network(rate, variation=True)
    processors = dict(zip(NAMES, allocation, strict=True))
    result = simulate(_scenario(found, processors, quick=run.quick), np.random.default_rng(run.seed))
    plain = network(rate, variation=False)
    return {
        SUM: [1000 * result.total_sojourn.value],
        MMK: [1000 * expected_total_sojourn(plain, processors)],
        GIG: [1000 * expected_total_sojourn(found, processors)],
    }


def _scenario(found: Network, processors: dict[str, int], *, quick: bool) -> Scenario:
    """Features come in bulk by themselves: only the frames' gaps are given."""
    operators = tuple(each if each.name == "extract" else replace(each, arrival_scv=1.0) for each in found.operators)
    given = Network(operators, found.flows, found.external)
    seconds = 400.0 if quick else 2000.0
    return Scenario(given, processors, duration=seconds, warmup=seconds / 10)


def name(rate: float, allocation: tuple[int, ...]) -> str:
    """The name of a side."""
    return f"{rate:g} frames/s, {':'.join(map(str, allocation))}"


def best(found: Outcome, rate: float, measure: str) -> tuple[int, ...]:
    """The allocation with the least of a measure."""
    return min(allocations(rate), key=lambda each: found.median(name(rate, each), measure))


def _picks(found: Outcome) -> Verdict:
    said, right = [], True
    for rate in RATES:
        true, mmk, gig = (":".join(map(str, best(found, rate, each))) for each in (SUM, MMK, GIG))
        said.append(f"{rate:g}/s: best {true}, GI/G/k {gig}, M/M/k {mmk}")
        right &= true == gig
    return Verdict("; ".join(said), right)


def _errors(found: Outcome) -> Verdict:
    sizes = {}
    for model in (MMK, GIG):
        errors = [
            abs(found.median(name(rate, each), model) / found.median(name(rate, each), SUM) - 1)
            for rate in RATES
            for each in allocations(rate)
        ]
        sizes[model] = float(np.mean([error for error in errors if isfinite(error)]))
    said = f"mean error {sizes[GIG]:.0%} of GI/G/k, {sizes[MMK]:.0%} of M/M/k"
    return Verdict(said, sizes[GIG] < sizes[MMK])


EXPERIMENT = Experiment(
    paper="drs",
    title="K_max = 7 at 5 and 6 frames/s, features in bulk: M/M/k and GI/G/k beside the simulated time (Figure 10)",
    kind="simulator",
    sides=tuple(
        Side(name(rate, each), partial(measured, rate=rate, allocation=each))
        for rate in RATES
        for each in allocations(rate)
    ),
    measures=(Measure(SUM, "ms"), Measure(MMK, "ms", "neither"), Measure(GIG, "ms", "neither")),
    claims=(
        Claim("GI/G/k recommends the allocation that is fastest (2:4:1), M/M/k another one (3:3:1)", _picks),
        Claim("GI/G/k estimates more accurately than M/M/k, which underestimates", _errors),
    ),
    scale="simulated queues; service rates chosen so that 7 processors carry the paper's rates",
    repeat=5,
    minutes=2.0,
    quick_minutes=0.1,
)
