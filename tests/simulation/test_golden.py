"""The simulator's results for given seeds, recorded once: they must not change."""

import json
from pathlib import Path

import numpy as np
import pytest

from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.pipeline import simulate
from foretide.simulation.routes import RouteChange
from foretide.simulation.scenario import Scenario
from foretide.simulation.workers import Outage, Slowdown

RECORDED = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))
SEEDS = (1, 2, 7)


def diamond(**options):
    """A fork, a join, a gain below and one above 1, and a loop."""
    operators = (
        Operator("in", 100.0),
        Operator("left", 60.0, service_scv=0.5),
        Operator("right", 40.0, service_scv=2.0),
        Operator("out", 200.0, splits=True),
    )
    flows = (
        Flow("in", "left", 1.4),
        Flow("in", "right", 0.6),
        Flow("left", "out"),
        Flow("right", "out", 2.0),
        Flow("out", "left", 0.1),
    )
    workers = {"in": 2, "left": 3, "right": 2, "out": 2}
    return Scenario(Network(operators, flows, {"in": 50.0}), workers, **{"duration": 60.0, "warmup": 5.0, **options})


COSTS = BatchCosts(6, fixed_cost=0.2, task_cost=0.01, trigger=0.5)
SCENARIOS = {
    "pipeline": diamond(),
    "pipeline, disturbed": diamond(
        slowdowns=(Slowdown(0, 10.0, 30.0, 0.3, "left"), Slowdown(1, 20.0, 30.0, 0.0, "out")),
        outages=(Outage(0, 15.0, 20.0, "in"), Outage(2, 30.0, 40.0, "left"), Outage(0, 40.0, 45.0, "right")),
        routes={"right": (RouteChange((3.0, 1.0)), RouteChange((0.0, 1.0), since=39.0))},
    ),
    "micro-batch": diamond(batching=COSTS),
    "micro-batch, limited": diamond(batching=BatchCosts(2, 0.3, 0.01, work_per_row=0.02), limit=40),
    "micro-batch, disturbed": diamond(
        batching=COSTS,
        slowdowns=(Slowdown(0, 10.0, 30.0, 0.2), Slowdown(1, 20.0, 30.0, 0.5, "left")),
        outages=(Outage(2, 15.0, 20.0), Outage(3, 22.0, 27.0, "out")),
        routes={"left": (RouteChange((2.0, 1.0, 0.0), spread="even"), RouteChange((1.0, 1.0, 1.0), since=30.0))},
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", SEEDS)
def test_results_of_a_seed_do_not_change(name, seed):
    result = simulate(SCENARIOS[name], np.random.default_rng(seed)).as_dict()
    del result["timeline"]
    assert _flat(result) == pytest.approx(_flat(RECORDED[f"{name}, seed {seed}"]), rel=1e-9, nan_ok=True)


def _flat(value, path=""):
    """Numbers by path, so that pytest can compare them within a tolerance."""
    if isinstance(value, dict):
        return {key: number for name, each in value.items() for key, number in _flat(each, f"{path}/{name}").items()}
    if isinstance(value, list):
        return {key: number for i, each in enumerate(value) for key, number in _flat(each, f"{path}/{i}").items()}
    return {} if isinstance(value, str) or value is None else {path: value}
