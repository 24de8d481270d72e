"""Runs an experiment in a process of its own: a Java process for each, and one that dies takes no other with it."""

from __future__ import annotations

import multiprocessing
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.experiments.experiment import Experiment
from benchmarks.experiments.outcome import Outcome, read_outcome
from benchmarks.experiments.runner import Progress, empty_outcome, run_experiment

_LOOK_SECONDS = 0.5


def run_in_child(
    name: str, module: str, experiment: Experiment, folder: Path, *, quick: bool, progress: Progress
) -> Outcome:
    """Run the experiment of a module; its outcome, which says so if the process died."""
    context = multiprocessing.get_context("spawn")
    share = context.Value("d", 0.0)
    path = folder / f"{name}.json"
    path.unlink(missing_ok=True)
    process = context.Process(target=_run, args=(name, module, str(folder), share), kwargs={"quick": quick})
    process.start()
    try:
        while process.is_alive():
            process.join(_LOOK_SECONDS)
            progress(share.value)
    finally:
        process.terminate()
        process.join()
    if path.exists():
        return read_outcome(path)
    outcome = empty_outcome(name, experiment, quick=quick)
    return replace(outcome, error=f"its process ended with exit code {process.exitcode}")


def _run(name: str, module: str, folder: str, share: Any, *, quick: bool) -> None:
    """What the process does; what it prints goes to stderr, as stdout may be JSON."""
    sys.stdout = sys.stderr

    def progress(value: float) -> None:
        share.value = value

    run_experiment(name, import_module(module).EXPERIMENT, quick=quick, progress=progress).save(Path(folder))
