"""A slow worker: busy loops on the core of one of two executors. Foretide beside static Spark, speculation, thresholds.

    python -m benchmarks slow_worker

Two cores play two machines: executor 0 has one to itself until the loops come, executor 1 and the driver have the
other. Latency is that of every tuple from when it was due until its batch was committed. Each run has a process and a
Spark session of its own; rows are counted in and out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("stateless", "stateful")
VARIANTS = ("undisturbed", "static", "speculation", "reactive", "foretide")
SECONDS, SLOW_AT, SLOW_UNTIL = 45.0, 12.0, 42.0
SETTLED = 8.0
"""Seconds after the start of the disturbance from which latency counts: more than a control period."""


def run(*, quick: bool, folder: Path) -> dict[str, Any]:
    kinds, variants = (KINDS[:1], ("undisturbed", "static", "foretide")) if quick else (KINDS, VARIANTS)
    runs = [one(kind, variant) for kind, variant in product(kinds, variants)]
    folder.mkdir(parents=True, exist_ok=True)
    draw(runs, folder / "slow_worker.png")
    return {
        "p99 tuple latency while an executor is slowed, once a control period has passed": table(runs),
        "picture": str(folder / "slow_worker.png"),
    }


def one(kind: str, variant: str) -> dict[str, Any]:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.slow_worker_run", kind, variant]
    command += [str(SECONDS), str(SLOW_AT), str(SLOW_UNTIL)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    print(f"{kind}, {variant}: done", flush=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def p99(found: dict[str, Any]) -> float:
    """Of all tuples whose batch ended while the executor was slow and control had had its time."""
    batches = [b for b in found["batches"] if SLOW_AT + SETTLED <= b["at"] < SLOW_UNTIL]
    values = np.concatenate([b["latencies"] for b in batches]) if batches else np.array([SLOW_UNTIL - SLOW_AT])
    weights = np.concatenate([[b["rows"] / len(b["latencies"])] * len(b["latencies"]) for b in batches] or [[1.0]])
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, 0.99 * below[-1])])


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_name = {(found["kind"], found["variant"]): found for found in runs}
    rows = []
    for found in runs:
        usual, ours = (p99(by_name[found["kind"], name]) for name in ("undisturbed", "foretide"))
        value = p99(found)
        rows.append(
            {
                "topology": found["kind"],
                "run": found["variant"],
                "p99 s": value,
                "of undisturbed": value / usual,
                "of foretide": value / ours,
                "decided after s": decided(found),
                "recovered after s": recovered(found, usual),
                "rows lost": found["missing"],
                "alarms": len(found["alarms"]),
            }
        )
    return rows


def decided(found: dict[str, Any]) -> str:
    later = [each["at"] - found["hog_at"] for each in found["decisions"] if found["hog_at"]]
    return f"{later[0]:.1f}" if later else "-"


def recovered(found: dict[str, Any], usual: float) -> str:
    """When latency went below 1.5 times the usual and stayed there until the disturbance ended."""
    if not found["hog_at"]:
        return "-"
    during = [b for b in found["batches"] if found["hog_at"] < b["at"] < SLOW_UNTIL]
    bad = [b["at"] for b in during if b["p99"] > 1.5 * usual]
    after = [b["at"] for b in during if b["at"] > max(bad, default=0.0)]
    return f"{after[0] - found['hog_at']:.1f}" if after else "never"


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    kinds = list(dict.fromkeys(found["kind"] for found in runs))
    figure = Figure(figsize=(10, 3.6 * len(kinds)), layout="constrained")
    for place, kind in enumerate(kinds):
        axes = figure.add_subplot(len(kinds), 1, place + 1)
        for found in (each for each in runs if each["kind"] == kind):
            times = [b["at"] for b in found["batches"]]
            axes.plot(times, [b["p99"] for b in found["batches"]], marker=".", label=found["variant"])
        axes.axvspan(SLOW_AT, SLOW_UNTIL, color="tab:red", alpha=0.08)
        axes.set(title=f"{kind}: executor 0 slowed in the red part", ylabel="p99 tuple latency, s", xlabel="seconds")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
    figure.savefig(path, dpi=120)
