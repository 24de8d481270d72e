"""A slow worker: busy loops on the core of one of two executors. Foretide beside static Spark, speculation, thresholds.

    python -m benchmarks slow_worker
    SLOW_WORKER_FORM=short python -m benchmarks slow_worker
    SLOW_WORKER_VARIANTS=all SLOW_WORKER_LOOPS=4,16,24 python -m benchmarks slow_worker

The first takes about 12 minutes: undisturbed, static Spark and Foretide, with 24 loops. The short form has speculation
beside them, the stateless topology only, and half a minute of loops. `SLOW_WORKER_VARIANTS` names others, separated by
commas, or `all`; `SLOW_WORKER_KINDS` and `SLOW_WORKER_LOOPS` choose topologies and loads.

Two cores play two machines, 127.0.0.1 and 127.0.0.2, on which a standalone cluster has a worker each: Spark copies a
task by speculation to another host only. Executor 0 has a core to itself until the loops come, executor 1 and the
driver have the other. Foretide runs the default policies for a latency target with two executors, neither more nor
fewer, because there are no more machines. Latency is that of every tuple from when it was due until its batch was
committed; a tuple whose batch was not committed while the loops ran counts with its age at their end. Each run has a
process, a cluster and a Spark session of its own; rows are counted in and out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("stateless", "stateful")
ESSENTIAL = ("undisturbed", "static", "foretide")
VARIANTS = (*ESSENTIAL, "at-batch-end", "speculation", "reactive", "speculation+reactive")
LOOPS = (24,)
TIMES = {"full": (78.0, 15.0, 75.0), "short": (48.0, 15.0, 45.0)}
FORM = os.environ.get("SLOW_WORKER_FORM", "full")
if FORM not in TIMES:
    raise SystemExit(f"SLOW_WORKER_FORM: {FORM} not known; there are {', '.join(TIMES)}")
SECONDS, SLOW_AT, SLOW_UNTIL = TIMES[FORM]
SETTLED = 8.0
"""Seconds after the start of the disturbance from which latency counts: more than a control period."""


def run(*, quick: bool, folder: Path) -> dict[str, Any]:
    short = FORM == "short"
    kinds = KINDS[:1] if quick else chosen("SLOW_WORKER_KINDS", KINDS[:1] if short else KINDS, KINDS)
    usual = (*ESSENTIAL, "speculation") if short else ESSENTIAL
    variants = ESSENTIAL if quick else chosen("SLOW_WORKER_VARIANTS", usual, VARIANTS)
    loops = [int(each) for each in chosen("SLOW_WORKER_LOOPS", tuple(map(str, LOOPS)), None)]
    runs = [one(kind, "undisturbed", 0) for kind in kinds]
    disturbed = [variant for variant in variants if variant != "undisturbed"]
    runs += [one(*each) for each in product(kinds, disturbed, loops)]
    folder.mkdir(parents=True, exist_ok=True)
    draw(runs, folder / "slow_worker.png")
    return {
        "p99 tuple latency while an executor is slowed": table(runs),
        "picture": str(folder / "slow_worker.png"),
    }


def chosen(variable: str, default: tuple[str, ...], known: tuple[str, ...] | None) -> tuple[str, ...]:
    """What an environment variable names."""
    given = os.environ.get(variable, "")
    names = tuple(given.split(",")) if given else default
    if known is None:
        return names
    if names == ("all",):
        return known
    if unknown := set(names) - set(known):
        raise SystemExit(f"{variable}: {', '.join(sorted(unknown))} not known; there are {', '.join(known)}")
    return names


def one(kind: str, variant: str, loops: int) -> dict[str, Any]:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.slow_worker_run", kind, variant, str(loops)]
    command += [str(SECONDS), str(SLOW_AT), str(SLOW_UNTIL)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"{kind}, {variant}, {loops} loops failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{kind}, {variant}, {loops} loops: p99 {p99(found, 0.0):.2f} s from the first moment", flush=True)
    return found


def p99(found: dict[str, Any], settled: float) -> float:
    """Of all tuples whose batch ended while the executor was slow, from some seconds after the beginning on.

    Tuples that were due before the end and not committed then count with the age that they had.
    """
    begin = (found["hog_at"] or SLOW_AT) + settled
    batches = [b for b in found["batches"] if begin <= b["at"] < SLOW_UNTIL]
    later = [b for b in found["batches"] if b["at"] >= SLOW_UNTIL]
    counted = [(np.array(b["latencies"]), b["rows"]) for b in batches]
    for b in later:
        ages = np.array(b["latencies"]) - (b["at"] - SLOW_UNTIL)
        counted.append((ages[ages > 0], b["rows"] * float(np.mean(ages > 0))))
    counted = [(values, rows) for values, rows in counted if len(values)]
    values = np.concatenate([values for values, _ in counted])
    weights = np.concatenate([np.full(len(values), rows / len(values)) for values, rows in counted])
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, 0.99 * below[-1])])


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_name = {(found["kind"], found["variant"], found["loops"]): found for found in runs}
    rows = []
    for found in runs:
        usual = by_name[found["kind"], "undisturbed", 0]
        ours = by_name.get((found["kind"], "foretide", found["loops"]))
        settled, first = p99(found, SETTLED), p99(found, 0.0)
        rows.append(
            {
                "topology": found["kind"],
                "loops": found["loops"],
                "run": found["variant"],
                "p99 s": settled,
                "of undisturbed": settled / p99(usual, SETTLED),
                "of foretide": settled / p99(ours, SETTLED) if ours else "-",
                f"p99 s, first {SLOW_UNTIL - SLOW_AT:.0f} s": first,
                "the same, of undisturbed": first / p99(usual, 0.0),
                "decided after s": decided(found),
                "within a batch": "yes" if found["within_batch"] else "-",
                "copies": found["copies"],
                "recovered after s": recovered(found, p99(usual, SETTLED)),
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
            label = f"{found['variant']}, {found['loops']} loops" if found["loops"] else found["variant"]
            axes.plot(times, [b["p99"] for b in found["batches"]], marker=".", label=label)
        axes.axvspan(SLOW_AT, SLOW_UNTIL, color="tab:red", alpha=0.08)
        axes.set(title=f"{kind}: executor 0 slowed in the red part", ylabel="p99 tuple latency, s", xlabel="seconds")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
    figure.savefig(path, dpi=120)
