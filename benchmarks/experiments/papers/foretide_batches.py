"""Foretide's own cost: the length of a batch as a plain query, as a topology, and under control."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.sessions import session

WAYS = ("plain query", "topology", "topology, controlled")
LENGTH = "batch of 20,000 rows"


def run_with(run: Run, way: str) -> Samples:
    """The batches of one round, those of the start aside."""
    from benchmarks.batch_cost import WAYS as STARTS
    from benchmarks.batch_cost import one_round

    durations, _ = one_round(run.resource, STARTS[way], 6 if run.quick else 12)
    return {LENGTH: [each["triggerExecution"] for each in durations]}


def _near(found: Outcome) -> Verdict:
    change = found.change(WAYS[-1], LENGTH)
    return Verdict(f"{change:+.1%}, noise {found.noise(LENGTH) or 0:.1%}", change <= 0.25)


EXPERIMENT = Experiment(
    paper="foretide",
    title="Length of a batch of 20,000 rows: windowed count as a plain query, as a topology, and under control",
    kind="live",
    sides=tuple(Side(way, partial(run_with, way=way)) for way in WAYS),
    measures=(Measure(LENGTH, "ms"),),
    claims=(Claim("of Foretide: a batch takes at most a quarter longer than that of a plain query", _near),),
    scale="one local session on two cores",
    repeat=5,
    quick_repeat=1,
    minutes=9.0,
    quick_minutes=0.0,
    warm_ups=1,
    resource=lambda _: session(),
)
