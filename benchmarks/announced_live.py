"""Trouble that announces itself, live: is a worker taken out before it is slow, and only then?

    python -m benchmarks announced_live [--quick]
    ANNOUNCED_RUNS=10 ANNOUNCED_SIGNAL=memory python -m benchmarks announced_live

Two real executors on a core each run a pipeline under `bypass`, with the net that comes with Foretide and nothing
learnt on this machine. Every run is a process of its own: one disturbance of one executor (`benchmarks.stress`),
announced by a signal that rises, unannounced, or a signal that does not rise and is followed by nothing. Seconds count
from the moment the disturbance begins, or would begin; below zero is before it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.generators.stress import CASES, SIGNALS

RUNS = 3
_TIMEOUT = 900.0


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    """Every case with forecasts, and the announced one without."""
    runs = 1 if quick else int(os.environ.get("ANNOUNCED_RUNS", RUNS))
    ways = [(case, "on") for case in CASES] + [("announced", "off")]
    found = {way: [one(*way, seed) for seed in range(runs)] for way in ways}
    return {"trouble that announces itself, two real executors": [row(*way, each) for way, each in found.items()]}


def one(case: str, foresight: str, seed: int) -> dict[str, Any]:
    """One run in a process of its own."""
    signal = os.environ.get("ANNOUNCED_SIGNAL", SIGNALS[seed % len(SIGNALS)])
    command = [sys.executable, "-m", "benchmarks.announced_run", case, signal, str(seed), foresight]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
    if done.returncode:
        raise SystemExit(f"{case}, {signal}, seed {seed} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{case}, {signal}, forecasts {foresight}: {found}", flush=True)
    return found


def row(case: str, foresight: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """How often a worker was taken out before the disturbance, after it, and the latency of what came then."""
    acts = [each["victim_out"] for each in found]
    before = sum(act is not None and act < 0 for act in acts)
    return {
        "case": case,
        "forecasts": foresight,
        "runs": len(found),
        "victim out before": before,
        "victim out after": sum(act is not None and act >= 0 for act in acts),
        "others out": sum(each["others_out"] for each in found),
        "seconds": ", ".join("never" if act is None else f"{act:+.1f}" for act in acts),
        "p99 in s": ", ".join(f"{each['p99']:.2f}" for each in found),
    }
