"""Logo detection of DRS as a simulated pipeline: features are extracted from frames, matched, and aggregated.

22 processors carry 13 frames a second with 10 features each. All runs `SPEED` times as fast as in the paper: frames
come so many times as often, tuples take so much less, and a minute of the paper is 60 / SPEED seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretide.control.policies.processors import ProcessorSettings
from foretide.control.simulation.pipeline import PipelineReport, simulate_pipeline
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.world.setup import Target
from foretide.queueing.network import Flow, Network, Operator
from foretide.settings.settings import Settings
from foretide.simulation.batches import RowLoad

BOLTS = ("extract", "match", "aggregate")
FEATURES = 10
SPEED = 10.0
MINUTE = 60.0 / SPEED
POOLS = {"read": 1, "extract": 24, "match": 24, "aggregate": 8}
Allocation = tuple[int, int, int]


def operators(faster: float = 1.0) -> tuple[Operator, ...]:
    """Source and bolts; each task has a queue of its own, as in Spark."""
    rates = {"extract": 1.9, "match": 17.0, "aggregate": 400.0}
    bolts = (Operator(name, rate * SPEED * faster, own_queues=True) for name, rate in rates.items())
    return (Operator("read", 1e5, 0.2), *bolts)


def network(rate: float, faster: float = 1.0) -> Network:
    """The topology at so many frames a second of the paper's."""
    flows = (Flow("read", "extract"), Flow("extract", "match", FEATURES), Flow("match", "aggregate"))
    return Network(operators(faster), flows, {"read": rate * SPEED})


def bolts_only(rate: float, faster: float = 1.0) -> Network:
    """The part that DRS allocates processors to."""
    flows = (Flow("extract", "match", FEATURES), Flow("match", "aggregate"))
    return Network(operators(faster)[1:], flows, {"extract": rate * SPEED})


def simulated(
    rates: Sequence[float],
    start: Allocation,
    seed: int,
    target: Target,
    settings: ProcessorSettings | None = None,
    faster: float = 1.0,
) -> PipelineReport:
    """Frames of each second through the pipeline under the policy `processors`; without settings nothing changes."""
    replicas = dict(zip(BOLTS, start, strict=True))
    scenario = ControlScenario(network(1.0, faster), POOLS, replicas, executors=8, cores_per_executor=8)
    policies = ["static"] if settings is None else ["processors"]
    given = Settings() if settings is None else Settings(policies={"processors": settings})
    control = given.for_query(target, real_time=True).to_control(policies)
    return simulate_pipeline(
        control, scenario, RowLoad([rate * SPEED for rate in rates]), rng=np.random.default_rng(seed), target=target
    )


def allocation_at_the_end(report: PipelineReport) -> Allocation:
    """Active replicas of the bolts in the last second."""
    shares = report.seconds[-1].shares
    extract, match, aggregate = (sum(share > 0 for share in shares[name]) for name in BOLTS)
    return extract, match, aggregate
