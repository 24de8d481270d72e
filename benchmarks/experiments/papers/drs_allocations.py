"""DRS, Figures 6 and 7: allocations of a running topology in real time, the recommended one marked."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome

TITLES = ("two bolts in a row", "three bolts in a row", "a bolt that makes two tuples of one")
MINE, BEST, ERROR, NOISE = "recommended", "best measured", "mean error of the model", "noise"


def run_case(run: Run, place: int) -> Samples:
    """All allocations of a topology in turn, to and fro, in one query; the benchmark keeps the median of its spans."""
    from benchmarks.real_time_processors import CASES
    from benchmarks.real_time_processors import run as run_bench

    found = run_bench(quick=run.quick, folder=run.folder, cases=CASES[place : place + 1])
    run.tables |= {title: rows for title, rows in found.items() if isinstance(rows, list) and title != "goals"}
    (goal,) = found["goals"]
    return {
        MINE: [goal["measured, ms"]],
        BEST: [goal["best measured, ms"]],
        ERROR: [goal["mean error of the model, %"]],
        NOISE: [goal["noise, %"]],
    }


def _recommended(found: Outcome) -> Verdict:
    run = [title for title in TITLES if found.samples(title, MINE)]
    known = [(title, found.median(title, MINE), found.median(title, BEST)) for title in run]
    said = "; ".join(f"{title}: {mine:.1f} ms, best {best:.1f} ms" for title, mine, best in known)
    return Verdict(said, all(mine <= 1.05 * best for _, mine, best in known))


def _accurate(found: Outcome) -> Verdict:
    errors = [each for title in TITLES for each in found.samples(title, ERROR)]
    return Verdict(f"mean error {min(errors):.0f} to {max(errors):.0f} %, transport not counted", None)


EXPERIMENT = Experiment(
    paper="drs",
    title="Allocations swept on running topologies, the recommended one against the best measured (Figures 6, 7)",
    kind="live",
    sides=tuple(Side(title, partial(run_case, place=place), in_quick=not place) for place, title in enumerate(TITLES)),
    measures=(Measure(MINE, "ms"), Measure(BEST, "ms"), Measure(ERROR, "%"), Measure(NOISE, "%")),
    claims=(
        Claim("the recommended allocation is the best one of those measured", _recommended),
        Claim("estimates are strongly correlated with what is measured, and somewhat below it", _accurate),
    ),
    scale="bolts that wait in place of computing, 8 and 9 processors in place of 22, 100 tuples/s",
    repeat=1,
    quick_repeat=1,
    minutes=29.0,
    quick_minutes=0.0,
)
