"""One run of `benchmarks.announced_live` in a process of its own: prints its figures as one line of JSON.

python -m benchmarks.announced_run announced disk 0 on
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import foretide as ft
from benchmarks.generators.stress import Case, Signal, Stress
from benchmarks.recorded_pipeline import running, session
from benchmarks.stress import stressed
from foretide.apps.experiment import pin_executors, replay_of, taken_by
from foretide.control.actions.registry import Quarantine
from foretide.control.policies.bypass import Bypass, BypassSettings
from foretide.metrics.from_batch import SLOWNESS
from foretide.runtime.monitoring.tuple_latency import latencies

RATE, SECONDS = 3000.0, 900.0
VICTIM = "0"
CALM, AFTER, LOOPS = 10.0, 25.0, 6
_LIMIT = 240.0


def stress(case: Case, signal: Signal, seed: int, core: int) -> Stress:
    """The disturbance of a run, with a lead drawn from 8 to 20 s."""
    lead = 0.0 if case == "unannounced" else float(np.random.default_rng(seed).uniform(8.0, 20.0))
    start = CALM + lead
    is_false = case == "false"
    return Stress(case, signal, core, start, start if is_false else start + AFTER, lead, 0 if is_false else LOOPS)


def main(case: Case, signal: Signal, seed: int, foresight: str) -> dict[str, Any]:
    spark = session("announced")
    policy = Bypass() if foresight == "on" else Bypass(BypassSettings(horizon=None))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        settings = ft.RunSettings(
            trigger="1 second", monitoring=ft.MonitorSettings(workers_every=1.0, machines_every=1.0)
        )
        pipeline = running(spark, ft.Curve.constant(RATE, SECONDS), Path(folder) / "announced", settings)
        pinned = pin_executors(spark.sparkContext.applicationId)
        out: list[tuple[float, str]] = []
        controller = ft.control(pipeline, [policy], ft.Latency(p99="5s"), settings=ft.Settings())
        controller.on_decision(
            lambda decision: out.extend(
                (decision.at, wish.action.worker) for wish in decision.chosen if isinstance(wish.action, Quarantine)
            )
        )
        if foresight == "on":
            _await(lambda: all(controller.is_trusted(SLOWNESS, each, 15.0) for each in pinned), pipeline)
        plan = stress(case, signal, seed, pinned[VICTIM])
        stressor = stack.enter_context(stressed([plan]))
        begun = time.time()
        while (elapsed := time.time() - begun) < plan.start + AFTER:
            stressor.turn(elapsed)
            time.sleep(0.1)
        tail = _p99(pipeline, begun + plan.start)
        pipeline.stop()
        pipeline.raise_failure()
    spark.stop()
    start = begun + plan.start
    acts = [at - start for at, worker in out if worker == VICTIM and at >= begun]
    return {
        "victim_out": acts[0] if acts else None,
        "others_out": sum(worker != VICTIM and at >= begun for at, worker in out),
        "early": sum(at < begun for at, _ in out),
        "p99": tail,
    }


def _await(condition: Callable[[], bool], pipeline: ft.Pipeline) -> None:
    """Wait until a condition holds, but not for ever: a forecast that is not trusted then is not used."""
    limit = time.monotonic() + _LIMIT
    while not condition() and pipeline.running and time.monotonic() < limit:
        time.sleep(0.5)


def _p99(pipeline: ft.Pipeline, since: float) -> float:
    """Of the tuples in the batches that ended after a time."""
    plan = replay_of(pipeline.topology)
    found = [
        latencies(plan, taken, report.finished)
        for report in list(pipeline.reports)
        if report.finished >= since and (taken := taken_by(report)) is not None and report.input_rows
    ]
    return float(np.quantile(np.concatenate([each for each in found if each is not None]), 0.99)) if found else 0.0


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    case, signal, seed, foresight = sys.argv[1:]
    print(json.dumps(main(case, signal, int(seed), foresight)))  # type: ignore[arg-type]
