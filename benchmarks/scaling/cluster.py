"""A thousand executors in the simulator: the control loop on ten thousand tasks, with and without control."""

from __future__ import annotations

import time
from typing import Any

from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.simulation.simulate import ControlReport, simulate_control
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.settings.settings import Settings
from foretide.simulation.batches import RowLoad

EXECUTORS, CORES, SLOW = 1_000, 4, 10
POOLS = {"read": 2_000, "parse": 4_000, "count": 4_000}
RATE, SERVICE = 500_000.0, 1_000.0
FACTOR, SINCE = 5.0, 60.0


def figures(*, quick: bool) -> dict[str, Any]:
    """What the executors' slowness costs, and what the loop does about it."""
    seconds = 240 if quick else 1_200
    control = Settings().for_query(Target()).to_control(["bypass"])
    rows = [_row(name, given, seconds) for name, given in (("bypass", control), ("no control", Control()))]
    title = f"{EXECUTORS:,} executors, {sum(POOLS.values()):,} tasks, {SLOW} executors slow from {SINCE:g} s on"
    return {f"simulator: {title}": rows}


def scenario() -> ControlScenario:
    """Three stages of ten thousand tasks together, on four thousand cores, a hundredth of which become slow."""
    operators = (Operator("read", 50 * SERVICE), Operator("parse", SERVICE), Operator("count", 2 * SERVICE))
    network = Network(operators, (Flow("read", "parse"), Flow("parse", "count")), {"read": RATE})
    slow = tuple(SlowExecutor(str(number * 97), FACTOR, SINCE) for number in range(SLOW))
    costs = BatchCosts(EXECUTORS * CORES, fixed_cost=0.5, task_cost=0.0001)
    return ControlScenario(
        network, POOLS, costs=costs, executors=EXECUTORS, cores_per_executor=CORES, hosts=125, slow_executors=slow
    )


def _row(name: str, control: Control, seconds: int) -> dict[str, Any]:
    began = time.process_time()
    report = simulate_control(control, scenario(), RowLoad([RATE] * seconds))
    spent = time.process_time() - began
    return {
        "loop": name,
        "batches": len(report.batches),
        "p50 s, after 60 s": report.latency(0.5, SINCE),
        "p99 s, after 60 s": report.latency(0.99, SINCE),
        "actions": report.actions,
        "out after s": _seconds_until_out(report),
        "CPU ms a batch, simulation included": 1000 * spent / max(len(report.batches), 1),
    }


def _seconds_until_out(report: ControlReport) -> float | str:
    """Seconds from the beginning of the slowness to the last decision about it."""
    return max((decision.at for decision in report.decisions), default=SINCE) - SINCE if report.actions else "-"
