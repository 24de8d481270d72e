"""The control loop on simulated queries, recorded once: the same loads give the same batches and decisions."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.predictors import Predictions, last_value

from foretide.control.guards import GuardSettings
from foretide.control.policies.admission import Admission, AdmissionSettings
from foretide.control.policies.baselines import Reactive, Static
from foretide.control.policies.bypass import Bypass
from foretide.control.policies.processors import Processors
from foretide.control.policies.replicas import Replicas
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.simulation.simulate import simulate_control
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

RECORDED = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))


def make_scenario(parse=4, count=4, **options):
    operators = (Operator("read", 1e6), Operator("parse", 500.0), Operator("count", 1000.0))
    network = Network(operators, (Flow("read", "parse"), Flow("parse", "count")), {"read": 1.0})
    costs = BatchCosts(16, fixed_cost=0.2, task_cost=0.001, trigger=1.0)
    pools = {"read": 4, "parse": 16, "count": 16}
    return ControlScenario(network, pools, {"parse": parse, "count": count}, **{"costs": costs, **options})


STEPS = [500.0] * 150 + [1500.0] * 150 + [300.0] * 100
NOISE = np.random.default_rng(2).gamma(4.0, 200.0, 600).tolist()
SLOW = (SlowExecutor("1", 6.0, 100.0, 300.0),)
TUNED = Control((Admission(AdmissionSettings(tuner="latency", period=20.0)),), GuardSettings(cooldown=0))


def runs():
    return {
        "static": lambda: simulate_control(Control((Static(),)), make_scenario(8, 8), RowLoad(STEPS)),
        "replicas": lambda: simulate_control(
            Control((Replicas(),)),
            make_scenario(),
            RowLoad(STEPS),
            forecast=Predictions(last_value, RowLoad(STEPS), make_scenario()),
        ),
        "reactive": lambda: simulate_control(Control((Reactive(),)), make_scenario(8, 8), RowLoad(NOISE), period=3.0),
        "processors": lambda: simulate_control(
            Control((Processors(),)),
            make_scenario(4, 4, executors=1, executor_range=(1, 8), cores_per_executor=2),
            RowLoad([1200.0] * 400),
            target=Target(2.0, 0.4),
        ),
        "admission": lambda: simulate_control(
            TUNED, make_scenario(2, 2), RowLoad([900.0] * 300), target=Target(latency=2.0)
        ),
        "a slow worker, static": lambda: simulate_control(
            Control((Static(),)), make_scenario(8, 8, slow_executors=SLOW), RowLoad([1000.0] * 400)
        ),
        "a slow worker, bypass": lambda: simulate_control(
            Control((Bypass(),)), make_scenario(8, 8, slow_executors=SLOW), RowLoad([1000.0] * 500), period=5.0
        ),
    }


def figures(report):
    return {
        "batches": len(report.batches),
        "processed": report.processed,
        "mean latency": report.mean_latency(),
        "p99": report.latency(0.99),
        "replica seconds": report.replica_seconds,
        "executor seconds": report.executor_seconds,
    }


@pytest.mark.parametrize("name", runs())
def test_a_simulation_does_not_change(name):
    report, recorded = runs()[name](), RECORDED[name]
    assert [len(decision.actions) for decision in report.decisions] == recorded["actions"]
    assert [decision.at for decision in report.decisions] == pytest.approx(recorded["at"], rel=1e-6)
    assert figures(report) == pytest.approx(recorded["figures"], rel=1e-6)
