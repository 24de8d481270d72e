"""Runs experiments one after the other, writes the JSON of each, and the report of all that are there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.experiments.catalogue import load, module_of, names, select
from benchmarks.experiments.child import run_in_child
from benchmarks.experiments.experiment import Experiment
from benchmarks.experiments.outcome import Outcome, read_folder, read_outcome
from benchmarks.experiments.page import NOT_IN_SPARK, save_report
from benchmarks.experiments.runner import Progress, judged, run_experiment
from benchmarks.experiments.show import show
from foretide.errors import FileError

REPORT = "report.html"
ProgressBar = Callable[[str], AbstractContextManager[Callable[[float], None]]]

__all__ = ["NOT_IN_SPARK", "listed", "report_of", "run_all", "select", "show"]


def listed(experiments: Mapping[str, Experiment]) -> list[dict[str, Any]]:
    """A row for each experiment."""
    return [
        {
            "experiment": name,
            "paper": each.paper,
            "kind": each.kind,
            "minutes": each.minutes,
            "quick, minutes": each.quick_minutes or None,
            "title": each.title,
        }
        for name, each in experiments.items()
    ]


def run_all(
    experiments: Mapping[str, Experiment], folder: Path, *, quick: bool, resume: bool, bar: ProgressBar
) -> Iterator[Outcome]:
    """Run experiments; yields each outcome after it was written. With `resume`, those that are there are not run."""
    make_importable()
    folder.mkdir(parents=True, exist_ok=True)
    for name, experiment in experiments.items():
        if resume and is_there(folder / f"{name}.json", quick=quick):
            continue
        with bar(
            f"{name}, about {format(experiment.quick_minutes if quick else experiment.minutes, 'g')} min"
        ) as share:
            outcome = _run(name, experiment, folder, quick=quick, progress=share)
        outcome.save(folder)
        yield outcome


def _run(name: str, experiment: Experiment, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
    """Live ones in a process of their own."""
    if experiment.kind == "live":
        return run_in_child(name, module_of(name), experiment, folder, quick=quick, progress=progress)
    return run_experiment(name, experiment, quick=quick, progress=progress)


def is_there(path: Path, *, quick: bool) -> bool:
    """Whether an outcome is there that is as good as the one that would be made."""
    try:
        found = read_outcome(path)
    except FileError:
        return False
    return found.error is None and (quick or not found.quick)


def report_of(folder: Path) -> Path:
    """Write the report of all outcomes in a folder."""
    return save_report(outcomes_in(folder), folder / REPORT, time.time())


def outcomes_in(folder: Path) -> list[Outcome]:
    """All outcomes in a folder; claims are judged anew from the raw samples, as these outlive what is claimed."""
    known = set(names())
    return [
        replace(each, claims=judged(load(each.name).claims, each)) if each.name in known and each.repetitions else each
        for each in read_folder(folder)
    ]


def make_importable() -> None:
    """Have processes that experiments start find `benchmarks` and `tests`, wherever the command was called."""
    root = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (root, *paths) if path)
    if root not in sys.path:
        sys.path.insert(0, root)
