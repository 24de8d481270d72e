"""Runs an experiment: warm-ups that do not count, sides in alternated order, the first side twice for the noise."""

from __future__ import annotations

import os
import platform
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.experiments.experiment import TWIN, Claim, Experiment, Run, Samples, Side
from benchmarks.experiments.outcome import Judged, Outcome, Repetition, SideLabel

Progress = Callable[[float], None]
_TWIN_SEED = 10_000
_FIRST_SEED = 1
_LETTERS = 600


def run_experiment(name: str, experiment: Experiment, *, quick: bool, progress: Progress = lambda _: None) -> Outcome:
    """Run it to its end. If it fails, the outcome says why and has the repetitions before."""
    clock = time.monotonic()
    outcome = empty_outcome(name, experiment, quick=quick)
    found: list[Repetition] = []
    tables: dict[str, list[dict[str, Any]]] = {}
    error = None
    try:
        with tempfile.TemporaryDirectory(prefix="foretide-bench-", ignore_cleanup_errors=True) as folder:
            first = Run(-1, _FIRST_SEED, quick, Path(folder), tables=tables)
            with experiment.resource(first) as resource:
                found.extend(_repetitions(experiment, replace(first, resource=resource), progress))
    except (Exception, SystemExit) as failure:  # noqa: BLE001 - it is reported, and the others go on
        error = _described(failure)
    outcome = replace(
        outcome,
        repetitions=tuple(found),
        tables=tables,
        seconds=time.monotonic() - clock,
        error=error,
    )
    return replace(outcome, claims=judged(experiment.claims, outcome)) if found else outcome


def _repetitions(experiment: Experiment, first: Run, progress: Progress) -> Iterator[Repetition]:
    repeat = experiment.quick_repeat if first.quick else experiment.repeat
    numbers = range(-experiment.warm_ups, repeat)
    sides = experiment.chosen(quick=first.quick)
    for place, number in enumerate(numbers):
        run = replace(first, number=number, seed=_FIRST_SEED + number)

        def share(part: float, place: int = place) -> None:
            progress((place + part) / len(numbers))

        repetition = _together(experiment, run, sides) if experiment.together else _one_by_one(run, sides, share)
        share(1.0)
        if number >= 0:
            yield repetition


def order(sides: Sequence[str], number: int) -> tuple[str, ...]:
    """Sides in turn, to and fro; the second run of the first side is at the other end.

    >>> order(["a", "b", "c"], 0), order(["a", "b", "c"], 1)
    (('a', 'b', 'c', 'again'), ('again', 'c', 'b', 'a'))
    """
    whole = (*sides, TWIN)
    return whole if number % 2 == 0 else whole[::-1]


def _one_by_one(run: Run, sides: Sequence[Side], share: Progress) -> Repetition:
    by_name = {side.name: side for side in sides} | {TWIN: sides[0]}
    turns = order([side.name for side in sides], run.number)
    samples: dict[str, Samples] = {}
    for place, name in enumerate(turns):
        seed = run.seed + _TWIN_SEED if name == TWIN else run.seed
        tables = {} if name == TWIN else run.tables
        folder = run.folder / f"{run.number}-{place}"
        folder.mkdir()
        samples[name] = by_name[name].run(replace(run, seed=seed, folder=folder, tables=tables))
        share((place + 1) / len(turns))
    return Repetition(turns, _checked(samples))


def _together(experiment: Experiment, run: Run, sides: Sequence[Side]) -> Repetition:
    assert experiment.together is not None
    found = experiment.together(run)
    names = {side.name for side in sides}
    if missing := names - set(found):
        raise ValueError(f"{', '.join(sorted(missing))} not measured")
    return Repetition(tuple(found), _checked({name: each for name, each in found.items() if name in {*names, TWIN}}))


def _checked(samples: Mapping[str, Samples]) -> dict[str, dict[str, list[float]]]:
    """The samples as plain numbers; a side of which there are none at all has failed without saying so."""
    if empty := [side for side, found in samples.items() if not any(map(len, found.values()))]:
        raise ValueError(f"nothing was measured of {', '.join(empty)}")
    return {
        side: {name: [float(each) for each in values] for name, values in found.items()}
        for side, found in samples.items()
    }


def judged(claims: Sequence[Claim], outcome: Outcome) -> tuple[Judged, ...]:
    """Each claim beside what was measured; one that cannot be read from what was measured says so."""
    found = []
    for claim in claims:
        try:
            verdict = claim.judge(outcome)
            found.append(Judged(claim.says, verdict.measured, verdict.reached))
        except (ArithmeticError, LookupError, ValueError) as error:
            found.append(Judged(claim.says, f"not measured: {error}", None))
    return tuple(found)


def empty_outcome(name: str, experiment: Experiment, *, quick: bool) -> Outcome:
    """The outcome of an experiment that begins now."""
    labels = tuple(SideLabel(side.name, side.series, side.at) for side in experiment.chosen(quick=quick))
    return Outcome(
        name,
        experiment.paper,
        experiment.title,
        experiment.kind,
        quick,
        experiment.scale,
        experiment.axis,
        machine(),
        time.time(),
        0.0,
        labels,
        experiment.measures,
    )


def machine() -> str:
    """What it ran on, and how busy that was before."""
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    policy = {os.SCHED_OTHER: "", os.SCHED_IDLE: ", idle scheduling class"}.get(os.sched_getscheduler(0), "")
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{system}, {cores} cores, load {load:.1f} at the start{policy}"


def _described(failure: BaseException) -> str:
    last = traceback.extract_tb(failure.__traceback__)[-1]
    return f"{type(failure).__name__}: {str(failure)[-_LETTERS:]} ({Path(last.filename).name}:{last.lineno})"
