"""DRS, Figure 9: T_max 1000 ms and T_min 450 ms at 6, 12 and 18 frames a second; windows of 3 and 6 minutes."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import nan

import numpy as np

from benchmarks.experiments.detection import MINUTE, simulated
from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from foretide.control.policies.processors import ProcessorSettings
from foretide.control.simulation.pipeline import PipelineReport
from foretide.control.world.setup import Target

SHRINK = MINUTE / 60
T_MAX, T_MIN = 1.0, 0.45
FASTER = 2.0
START = (3, 5, 1)
LONG = ((6, 6.0), (15, 12.0), (13, 6.0), (14, 18.0))
SHORT = ((6, 6.0), (3, 12.0), (6, 6.0), (3, 18.0), (6, 6.0))
CURVES = {"long": LONG, "short": SHORT}
ABOVE, MOVES, DELAY, REPLICAS = "minutes above T_max", "re-allocations", "first answer to a change", "processors"


def run_with(run: Run, curve: str, window: int | None) -> Samples:
    """One curve with a window in minutes; None leaves the first allocation."""
    steps = CURVES[curve]
    rates = [rate for minutes, rate in steps for _ in range(round(minutes * MINUTE))]
    target = Target(latency=T_MAX * SHRINK, relaxed=T_MIN * SHRINK, quantile="mean")
    settings = None if window is None else smoothed(window)
    report = simulated(rates, START, run.seed, target, settings, faster=FASTER)
    means = by_minute(report, len(rates))
    counts = [sum(share > 0 for name in each.shares for share in each.shares[name]) for each in report.seconds]
    return {
        ABOVE: [float(sum(mean > T_MAX for mean in means))],
        MOVES: [float(len(report.decisions))],
        DELAY: [_delay(report, steps)],
        REPLICAS: [float(np.mean(counts))],
    }


def smoothed(window: int) -> ProcessorSettings:
    """A window of w minutes is also T_ra; its mean age is that of an average whose past weighs (w - 1) / (w + 1)."""
    weight = (window - 1) / (window + 1)
    interval = window * MINUTE
    return ProcessorSettings(period=MINUTE, min_interval=interval, useful_for=2 * interval, smoothing=weight)


def by_minute(report: PipelineReport, seconds: int) -> list[float]:
    """Mean sojourn time of each minute, in seconds of the paper; one in which nothing left is above every bound."""
    edges = np.arange(0, seconds + 1, MINUTE)
    found = [report.latencies(start, end) for start, end in pairwise(edges.tolist())]
    return [float(each.mean()) / SHRINK if len(each) else np.inf for each in found]


def _delay(report: PipelineReport, steps: tuple[tuple[int, float], ...]) -> float:
    """Minutes until a change of the rate is answered, on average; nan if nothing was changed."""
    changes = np.cumsum([minutes for minutes, _ in steps])[:-1] * MINUTE
    ends = [*changes[1:].tolist(), float("inf")]
    answers = [
        min((each.at - at for each in report.decisions if at < each.at <= end), default=nan)
        for at, end in zip(changes.tolist(), ends, strict=True)
    ]
    known = [answer for answer in answers if answer == answer]  # noqa: PLR0124 - nan differs from itself
    return float(np.mean(known)) / MINUTE if known else nan


def name(curve: str, window: int | None) -> str:
    """The name of a side."""
    return f"{curve}, {'static 3:5:1' if window is None else f'w = {window}'}"


def _quicker(found: Outcome) -> Verdict:
    three, six = (found.median(name("long", window), DELAY) for window in (3, 6))
    return Verdict(f"{three:.1f} min with w = 3, {six:.1f} min with w = 6", three <= 3 and six <= 7)


def _calmer(found: Outcome) -> Verdict:
    three, six = (found.median(name("short", window), MOVES) for window in (3, 6))
    return Verdict(f"{three:g} re-allocations with w = 3, {six:g} with w = 6", six < three)


def _holds(found: Outcome) -> Verdict:
    static, three = (found.median(name("long", window), ABOVE) for window in (None, 3))
    return Verdict(f"above T_max in {three:g} of 48 minutes, {static:g} without control", three <= 10 < static)


EXPERIMENT = Experiment(
    paper="drs",
    title="T_max 1000 ms and T_min 450 ms at 6, 12 and 18 frames/s; smoothing windows of 3 and 6 minutes (Figure 9)",
    kind="simulator",
    sides=tuple(
        Side(name(curve, window), partial(run_with, curve=curve, window=window))
        for curve in CURVES
        for window in (None, 3, 6)
    ),
    measures=(Measure(ABOVE, "min"), Measure(MOVES, "", "neither"), Measure(DELAY, "min"), Measure(REPLICAS)),
    claims=(
        Claim("w = 3 answers a long change after 3 minutes, w = 6 after 6 to 7", _quicker),
        Claim("w = 6 re-allocates less often when changes are short", _calmer),
        Claim("T_max is missed only in the minutes after a change (about 3 for each of 3 changes)", _holds),
    ),
    scale="simulated, ten times as fast as the paper's, times given as in the paper; Foretide smooths exponentially, "
    "with the mean age of the window",
    repeat=5,
    minutes=2.0,
    quick_minutes=0.4,
)
