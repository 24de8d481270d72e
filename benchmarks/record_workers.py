"""Records co-located workers under interference, for the forecasts of worker performance.

    python -m benchmarks.record_workers --minutes 90

Two pipelines with different real load curves run on executors that share the cores and the disk of this machine: one
executor of each on every core. Stress processes come and go, with and without announcing themselves
(`benchmarks.generators.stress`). Foretide's own monitoring measures everything every second. The result is one row for
each worker and second, and one for the machine; the plan of the stress is in a CSV file beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks.generators.stress import stresses
from benchmarks.stress import stressed
from foretide.metrics.metric import Level
from foretide.store.export import export_steps
from foretide.store.metric_store import MetricStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.generators.stress import Stress

FILE = Path(__file__).parent / "data" / "workers.parquet"
STEP, HOLD_STEPS, DIGITS = 1.0, 10, 4
_WARM_SECONDS = 700.0
PIPELINES = {"a": ("tweets-goog", "4000"), "b": ("taxi", "3000")}
"""The load curve of each, and its mean rate in rows per second."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record_workers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=FILE)
    parser.add_argument("--folder", type=Path, help="keep all metrics in this folder")
    options = parser.parse_args()
    plan = stresses(options.seed, options.minutes * 60, sorted(os.sched_getaffinity(0)))
    programs = {name: ["benchmarks.recorded_pipeline", name, *curve] for name, curve in PIPELINES.items()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        begun = record(programs, plan, options.minutes * 60, folder)
        (folder / "begun").write_text(str(begun))
        frame = recording([*programs], folder, begun, options.minutes * 60)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(options.output, index=False, compression="zstd", compression_level=19)
    pd.DataFrame([asdict(each) for each in plan]).round(2).to_csv(options.output.with_suffix(".csv"), index=False)
    print(f"{len(frame):,} rows, {frame.worker.nunique()} workers, {len(frame.columns)} columns in {options.output}")


def record(programs: dict[str, list[str]], plan: Sequence[Stress], seconds: float, folder: Path) -> float:
    """Run the pipelines and the stress beside them; returns when the recording began."""
    with contextlib.ExitStack() as stack:
        children = []
        given = [f"{seconds + _WARM_SECONDS:g}", str(folder)]
        for each in programs.values():  # one after the other: starting takes all cores
            children.append(stack.enter_context(_child([*each, *given])))
            _await_ready(children[-1])
        begun = time.time()
        stressor = stack.enter_context(stressed(plan))
        while (elapsed := time.time() - begun) < seconds:
            if any(child.poll() is not None for child in children):
                raise SystemExit("a pipeline has ended too early")
            stressor.turn(elapsed)
            print(f"\r{seconds - elapsed:6.0f} s to go", end="", flush=True)
            time.sleep(0.2)
    print()
    return begun


@contextlib.contextmanager
def _child(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A pipeline's process; it stops when its standard input is closed."""
    child = subprocess.Popen(
        [sys.executable, "-m", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        yield child
    finally:
        _pipe(child.stdin).close()
        child.wait(timeout=120)


def _await_ready(child: subprocess.Popen[str]) -> None:
    if not any(line == "ready\n" for line in _pipe(child.stdout)):
        raise SystemExit("a pipeline did not start")


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


# ---- the table


def recording(pipelines: Sequence[str], folder: Path, begun: float, seconds: float) -> pd.DataFrame:
    """A row for each worker and one for the machine in each step, as `benchmarks.workers` reads it."""
    workers = [_steps(folder, name, Level.WORKER).assign(pipeline=name) for name in pipelines]
    hosts = _steps(folder, pipelines[0], Level.MACHINE)
    hosts = hosts[~hosts.subject.str.contains("/")].drop(columns="subject")
    whole = pd.concat([*map(_worker_rows, workers), hosts], ignore_index=True)
    whole["at"] = whole["at"] - np.floor(begun)
    whole = whole[(whole["at"] >= 0) & (whole["at"] < seconds)].sort_values(["at", "worker"], ignore_index=True)
    whole.insert(1, "machine", "machine-1")
    numbers = whole.columns.difference(["at", "machine", "worker"])
    moving = [name for name in numbers if whole[name].min() < whole[name].max()]
    whole[moving] = whole[moving].map(lambda value: float(f"{value:.{DIGITS}g}")).astype("float32")
    return whole[["at", "machine", "worker", *moving]].astype({"at": "int32"})


def _steps(folder: Path, pipeline: str, level: Level) -> pd.DataFrame:
    with MetricStore.open(folder / f"{pipeline}.db", create=False) as store:
        export_steps(store, pipeline, folder / "steps.parquet", level=level, step=STEP)
    return pd.read_parquet(folder / "steps.parquet").dropna(axis=1, how="all")


def _worker_rows(steps: pd.DataFrame) -> pd.DataFrame:
    """The paper's targets under their names; a figure holds for some steps, until the next is measured."""
    steps["worker"] = steps.pop("pipeline") + "/" + steps.pop("subject").astype(str)
    steps = steps.sort_values("at", ignore_index=True)
    figures = steps.columns.difference(["at", "worker"])
    steps[figures] = steps.groupby("worker")[list(figures)].ffill(limit=HOLD_STEPS)
    steps["cpu"] = steps.worker_cpu_user_percent + steps.worker_cpu_system_percent
    for target, metric in (
        ("sending_time", "worker_outbound_batch_sending_time_ms"),
        ("queuing_time", "worker_inbound_queuing_time_ms"),
    ):
        if metric in steps:
            steps[target] = steps[metric]
    return steps.dropna(subset=["cpu", "worker_tuple_execution_time_ms"], ignore_index=True)


if __name__ == "__main__":
    main()
