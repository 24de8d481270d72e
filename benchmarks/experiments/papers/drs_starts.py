"""DRS, Figure 8: from three first allocations to the best one."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.detection import MINUTE, Allocation, allocation_at_the_end, bolts_only, simulated
from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from foretide.control.policies.processors import ProcessorSettings
from foretide.control.world.setup import Target
from foretide.planning.processors import assign_processors

FRAMES = 13.0
BUDGET, SOURCE = 22, 1
STARTS: tuple[Allocation, ...] = ((10, 11, 1), (8, 12, 2), (11, 9, 2))
T_RA, LENGTH = 14 * MINUTE, 27 * MINUTE
BEFORE, AFTER, MOVES = "sojourn, first 14 min", "sojourn, last 13 min", "re-allocations"
OFF = "processors off the planner's best"


def run_from(run: Run, start: Allocation, *, controlled: bool) -> Samples:
    """27 minutes of the paper from an allocation; sojourn times as in the paper's time."""
    settings = ProcessorSettings(min_interval=T_RA, useful_for=2 * T_RA) if controlled else None
    target = Target(budget=BUDGET + SOURCE, quantile="mean")
    report = simulated([FRAMES] * int(LENGTH), start, run.seed, target, settings)
    best = assign_processors(bolts_only(FRAMES), BUDGET).processors.values()
    last = allocation_at_the_end(report)
    if controlled:
        ends = {"repetition": run.number + 1, "from": ":".join(map(str, start)), "to": ":".join(map(str, last))}
        run.tables.setdefault("allocations at the end", []).append(ends)
    factor = 60 / MINUTE * 1000
    return {
        BEFORE: [report.mean_latency(1, T_RA) * factor],
        AFTER: [report.mean_latency(T_RA + 1) * factor],
        MOVES: [float(len(report.decisions))],
        OFF: [sum(abs(one - other) for one, other in zip(last, best, strict=True)) / 2],
    }


def name(start: Allocation, label: str) -> str:
    """The name of a side."""
    return f"{label} from {':'.join(map(str, start))}"


def _same(found: Outcome) -> Verdict:
    off = [figure for start in STARTS for figure in found.figures(name(start, "DRS"), OFF)]
    same = sum(figure == 0 for figure in off)
    return Verdict(f"{same} of {len(off)} runs end in 10:11:1, the others at most {max(off):g} away", same == len(off))


def _close(found: Outcome) -> Verdict:
    after = [found.median(name(start, "DRS"), AFTER) for start in STARTS]
    return Verdict(
        f"{min(after):,.0f} to {max(after):,.0f} ms in the last 13 minutes, {max(after) / min(after) - 1:.0%} apart",
        max(after) <= 1.1 * min(after),
    )


def _better(found: Outcome) -> Verdict:
    both = [(found.median(name(start, "DRS"), AFTER), found.median(name(start, "static"), AFTER)) for start in STARTS]
    said = ", ".join(f"{drs:,.0f} against {static:,.0f} ms" for drs, static in both[1:])
    return Verdict(f"{said} without control", all(drs < static for drs, static in both[1:]))


EXPERIMENT = Experiment(
    paper="drs",
    title="Three first allocations of 22 processors for logo detection, 27 minutes, T_ra 14 minutes (Figure 8)",
    kind="simulator",
    sides=(
        *(Side(name(start, "static"), partial(run_from, start=start, controlled=False)) for start in STARTS),
        *(Side(name(start, "DRS"), partial(run_from, start=start, controlled=True)) for start in STARTS),
    ),
    measures=(Measure(BEFORE, "ms"), Measure(AFTER, "ms"), Measure(MOVES, "", "neither"), Measure(OFF, "")),
    claims=(
        Claim("all three runs end in the same allocation, the best one", _same),
        Claim("after the re-allocation all three have similar sojourn times", _close),
        Claim("the runs with other first allocations get clearly faster", _better),
    ),
    scale="simulated tasks with a queue each, as in Spark; ten times as fast, times given as in the paper",
    repeat=5,
    minutes=1.5,
    quick_minutes=0.3,
)
