"""Flink's adaptive partitioner: one of four tasks takes 30 ms a tuple, at 500 and at 2,000 tuples a second."""

from __future__ import annotations

from collections import deque
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from foretide.control.simulation.pipeline import simulate_pipeline
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.world.setup import Target
from foretide.queueing.network import Flow, Network, Operator
from foretide.settings.settings import Settings
from foretide.simulation.batches import RowLoad

TASKS, USUAL, SLOW = 4, 0.001, 0.030
RATES = (500.0, 2000.0)
SLOW_AT, SETTLED, LEAVING = 20.0, 5.0, 60.0
P50, P99, FIRST = "p50 once settled", "p99 once settled", "p99 from the first moment"
STATIC, SHORTEST, OURS = "even split", "shortest queue (adaptive partitioner)", "Foretide"

Tuples = tuple[NDArray[np.float64], NDArray[np.float64]]
"""When tuples were due, and their latencies, in seconds."""


def run_with(run: Run, rate: float, way: str) -> Samples:
    """Latencies of the tuples that are due from some seconds after the task became slow."""
    seconds = 120.0 if run.quick else 180.0
    due, found = controlled(run.seed, rate, seconds) if way == OURS else queues(run.seed, rate, seconds, way)
    due, found = due[due < seconds - LEAVING], found[due < seconds - LEAVING]
    settled = found[due >= SLOW_AT + SETTLED]
    return {
        P50: [1000 * float(np.quantile(settled, 0.5))],
        P99: [1000 * float(np.quantile(settled, 0.99))],
        FIRST: [1000 * float(np.quantile(found[due >= SLOW_AT], 0.99))],
    }


def controlled(seed: int, rate: float, seconds: float) -> Tuples:
    """Foretide's loop on simulated tasks with a queue each; due times are right within a second."""
    flows = (Flow("read", "work"),)
    network = Network((Operator("read", 1e6, 0.0), Operator("work", 1 / USUAL, 0.2)), flows, {"read": 1.0})
    slow = SlowExecutor("1", SLOW / USUAL, SLOW_AT)
    scenario = ControlScenario(
        network, {"read": 1, "work": TASKS}, executors=TASKS, cores_per_executor=2, hosts=4, slow_executors=(slow,),
        batch_seconds=1e6,
    )  # fmt: skip
    target = Target(latency=0.1)
    control = Settings().for_query(target, real_time=True).to_control(["bypass"])
    rng = np.random.default_rng(seed)
    report = simulate_pipeline(control, scenario, RowLoad([rate] * int(seconds)), rng=rng, target=target)
    latencies = report.latencies()
    left = np.repeat([each.at for each in report.seconds], [len(each.latencies) for each in report.seconds])
    return left - latencies, latencies


def queues(seed: int, rate: float, seconds: float, way: str) -> Tuples:
    """Each tuple to a random task, or to the one with the fewest tuples, which the sender is taken to know exactly."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, seconds, rng.poisson(rate * seconds)))
    works = rng.gamma(1 / 0.2, USUAL * 0.2, len(times))
    ends: list[deque[float]] = [deque() for _ in range(TASKS)]
    latencies = np.zeros(len(times))
    for place, (at, work) in enumerate(zip(times.tolist(), works.tolist(), strict=True)):
        for queue in ends:
            while queue and queue[0] <= at:
                queue.popleft()
        task = int(rng.integers(TASKS)) if way == STATIC else min(range(TASKS), key=lambda each: len(ends[each]))
        start = ends[task][-1] if ends[task] else at
        factor = SLOW / USUAL if task == 1 and start >= SLOW_AT else 1.0
        ends[task].append(start + work * factor)
        latencies[place] = ends[task][-1] - at
    return times, latencies


def name(rate: float, way: str) -> str:
    """The name of a side."""
    return f"{rate:g}/s, {way}"


def _against(found: Outcome, rival: str) -> Verdict:
    pairs = [(found.median(name(rate, OURS), P99), found.median(name(rate, rival), P99)) for rate in RATES]
    said = "; ".join(
        f"{ours:,.1f} against {other:,.1f} ms at {rate:g}/s" for rate, (ours, other) in zip(RATES, pairs, strict=True)
    )
    return Verdict(said, all(ours < other for ours, other in pairs))


EXPERIMENT = Experiment(
    paper="flink",
    title="One of four tasks slowed to 30 ms a tuple at 500 and 2,000 tuples/s: even split, shortest queue, Foretide",
    kind="simulator",
    sides=tuple(
        Side(name(rate, way), partial(run_with, rate=rate, way=way))
        for rate in RATES
        for way in (STATIC, SHORTEST, OURS)
    ),
    measures=(Measure(P50, "ms"), Measure(P99, "ms"), Measure(FIRST, "ms")),
    claims=(
        Claim(
            "an even split (Flink's default) cannot carry it: latency grows without end",
            partial(_against, rival=STATIC),
        ),
        Claim(
            "the adaptive partitioner sends less to the slow task: Foretide's p99 is below its",
            partial(_against, rival=SHORTEST),
        ),
    ),
    scale="simulated; the adaptive partitioner is taken to know every queue exactly; settled is from "
    "5 s after the task is slow; tuples of the last minute do not count, as they may not have left",
    repeat=5,
    minutes=2.0,
    quick_minutes=0.1,
)
