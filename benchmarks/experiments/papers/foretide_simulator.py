"""The simulator: a million tuples through four operators, and thousands of workers."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.simulation import measure, scenarios

CPU, PER_VISIT = "CPU", "CPU of a visit"


def run_with(run: Run, title: str) -> Samples:
    """One scenario."""
    found = measure(scenarios(50_000 if run.quick else 1_000_000)[title])
    return {CPU: [found["cpu_seconds"]], PER_VISIT: [found["microseconds_per_visit"]]}


def _ten(found: Outcome) -> Verdict:
    slowest = max(found.sides, key=lambda side: found.median(side.name, CPU))
    seconds = found.median(slowest.name, CPU)
    tuples = "50,000" if found.quick else "a million"
    return Verdict(
        f"at most {seconds:.1f} s of CPU for {tuples} tuples ({slowest.name})", seconds <= (0.5 if found.quick else 10)
    )


EXPERIMENT = Experiment(
    paper="foretide",
    title="A million tuples through four operators in the simulator, with up to 2,000 workers each",
    kind="simulator",
    sides=tuple(Side(title, partial(run_with, title=title)) for title in scenarios(1000)),
    measures=(Measure(CPU, "s"), Measure(PER_VISIT, "us")),
    claims=(Claim("of Foretide: a million tuples through four operators in ten seconds on one core", _ten),),
    scale="up to 8,000 workers",
    repeat=2,
    minutes=4.0,
    quick_minutes=0.2,
)
