"""How fast the simulator is: a million tuples through four operators, in each way they can be run.

    python -m benchmarks.simulation

The aim is a million tuples through four operators in under 10 s on one core, and thousands of workers.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.pipeline import simulate
from foretide.simulation.routes import RouteChange
from foretide.simulation.scenario import Scenario
from foretide.simulation.workers import Outage, Slowdown

NAMES = ("read", "parse", "count", "write")


def chain(rate: float, workers: int, *, loop: float = 0.0) -> Network:
    """Four operators in a row at a utilization of 0.7; with `loop`, the last sends some tuples back."""
    service = rate / (1 - loop) / (0.7 * workers)
    operators = tuple(Operator(name, service, splits=bool(loop)) for name in NAMES)
    flows = [Flow("read", "parse"), Flow("parse", "count"), Flow("count", "write")]
    return Network(operators, (*flows, Flow("write", "read", loop)), {"read": rate})


def scenarios(tuples: int) -> dict[str, Scenario]:
    def pipeline(workers: int, loop: float = 0.0, **options: Any) -> Scenario:
        pools = dict.fromkeys(NAMES, workers)
        return Scenario(chain(1000.0, workers, loop=loop), pools, duration=tuples / 1000.0, **options)

    third = tuples / 3000.0
    return {
        "4 operators x 4 workers": pipeline(4),
        "4 operators x 2,000 workers": pipeline(2000),
        "4 operators x 2,000 routed tasks": pipeline(
            2000, routes={name: (RouteChange.first(1800, 2000),) for name in NAMES}
        ),
        "a slow and a failing worker in one": pipeline(
            4,
            slowdowns=(Slowdown(0, third, 2 * third, 0.5, "parse"),),
            outages=(Outage(1, third, third + 5, "parse"),),
        ),
        "all four in a loop": pipeline(4, loop=0.1),
        "micro-batches, 4 stages x 32 tasks, 128 cores": pipeline(32, batching=BatchCosts(128, 0.3, 0.001)),
    }


def measure(scenario: Scenario) -> dict[str, float]:
    start, cpu = time.perf_counter(), time.process_time()
    result = simulate(scenario, np.random.default_rng(1))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    visits = sum(operator.served for operator in result.operators)
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "tuples": result.trees,
        "visits": visits,
        "microseconds_per_visit": round(1e6 * cpu / visits, 3),
    }


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    """A million tuples through four operators, in every kind of scenario."""
    tuples = 100_000 if quick else 1_000_000
    rows = [{"scenario": name, **measure(scenario)} for name, scenario in scenarios(tuples).items()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"a million tuples through four operators": rows, "peak memory, MB": round(peak)}
