"""Simulates a scenario and returns its result.

No clock, no files, no Spark; the caller passes the random generator. `pipeline` says why it is exact, and `batches` how
a micro-batch runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide.simulation.pipeline import run_pipeline
from foretide.simulation.results import report
from foretide.simulation.rows import run_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from foretide.simulation.results import SimulationResult
    from foretide.simulation.scenario import Scenario


def _silent(_share: float) -> None:
    return


def simulate(
    scenario: Scenario, rng: np.random.Generator, progress: Callable[[float], None] = _silent
) -> SimulationResult:
    """Simulate a scenario.

    >>> import numpy as np
    >>> from foretide.queueing.network import Network, Operator
    >>> from foretide.simulation.scenario import Scenario
    >>> network = Network((Operator("parse", service_rate=10.0),), external={"parse": 14.0})
    >>> result = simulate(Scenario(network, {"parse": 2}, duration=3000.0), np.random.default_rng(1))
    >>> result.operator("parse").utilization.covers(0.7)
    True

    Args:
        scenario: What to simulate.
        rng: The same generator state gives the same result.
        progress: Told from time to time what share of the simulated time has passed, 0 to 1.
    """
    run = run_batches if scenario.batching else run_pipeline
    return report(scenario, run(scenario, rng, progress))
