"""Predictive control, section 5: splits 7:3:2, bypass and others, changed again and again while a query runs."""

from __future__ import annotations

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict, not_run
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.sessions import session

SIDE = "splits changed"
LATE, OFF, SAME, RESTARTS = (
    "not in force by the next batch",
    "worst split, sampling errors",
    "output the same",
    "restarts",
)
CHANGES = "changes"


def measured(run: Run) -> dict[str, Samples]:
    """The changes of `benchmarks.engine`, judged by what every batch did."""
    from benchmarks.engine import resplits

    (row,) = resplits(run.resource, quick=run.quick)
    return {
        SIDE: {
            CHANGES: [row["re-splits"]],
            LATE: [row["not in force by the next batch"]],
            OFF: [row["worst rows per task, sampling errors"]],
            SAME: [float(row["output identical"])],
            RESTARTS: [row["restarts"]],
        }
    }


def _exact(found: Outcome) -> Verdict:
    off = found.median(SIDE, OFF)
    return Verdict(f"every task within {off:.1f} sampling errors of its share", off <= 5)


def _in_force(found: Outcome) -> Verdict:
    changes, late, restarts = (found.median(SIDE, each) for each in (CHANGES, LATE, RESTARTS))
    same = found.median(SIDE, SAME) == 1
    said = f"{changes:g} changes, {late:g} not in force by the next batch, {restarts:g} restarts"
    return Verdict(f"{said}, output {'the same' if same else 'NOT the same'}", same and late == 0 and restarts == 0)


EXPERIMENT = Experiment(
    paper="predictive-control",
    title="Splits of a running query changed to 7:3:2, 2:1:0 (bypass), 4:3:1 and others (Figures 6 and 7)",
    kind="live",
    sides=(Side(SIDE, not_run),),
    measures=tuple(Measure(each, "", "neither") for each in (CHANGES, LATE, OFF, SAME, RESTARTS)),
    claims=(
        Claim("the split follows any ratio, on the fly", _exact),
        Claim("changes need no restart, and tuples are neither lost nor doubled", _in_force),
    ),
    scale="three tasks on two cores, 10,000 rows a batch",
    together=measured,
    repeat=1,
    quick_repeat=1,
    minutes=4.0,
    quick_minutes=0.6,
    resource=lambda _: session(),
)
