"""The control loop on a simulated query in real time: a hog, a step of the load, the best allocation."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from foretide.control.actions.registry import Quarantine, SetAdmission, SetReplicas, SetSplit
from foretide.control.simulation.pipeline import SimulatedPipeline, simulate_pipeline
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.errors import ControlError
from foretide.queueing.network import Flow, Network, Operator
from foretide.queueing.sojourn import expected_tuple_latency
from foretide.settings.settings import Settings
from foretide.simulation.batches import RowLoad

OPERATORS = (Operator("read", 1e5, 0.2), Operator("parse", 500.0), Operator("count", 1000.0, 0.5))
POOLS = {"read": 2, "parse": 8, "count": 8}
HOG = SlowExecutor("1", 8.0, 20.3, 50.0)


def scenario(parse=4, count=4, operators=OPERATORS, **options):
    network = Network(operators, (Flow("read", "parse"), Flow("parse", "count")), {"read": 1.0})
    replicas = {"parse": parse, "count": count}
    return ControlScenario(network, POOLS, replicas, executors=4, cores_per_executor=8, **options)


def run(control, made, rates, target=None, seed=1, **more):
    return simulate_pipeline(control, made, RowLoad(rates), rng=np.random.default_rng(seed), target=target, **more)


def in_real_time(target=None, policies=None):
    return Settings().for_query(target or Target(), real_time=True).to_control(policies)


# ---- the simulated query itself


def test_a_steady_pipeline_takes_as_long_as_queues_of_their_own_should():
    made = scenario(4, 3)
    report = run(Control(), made, [1200.0] * 120)
    operators = tuple(replace(operator, own_queues=True) for operator in OPERATORS)
    network = replace(made.network, operators=operators, external={"read": 1200.0})
    model = expected_tuple_latency(network, {"read": 2, "parse": 4, "count": 3})
    assert report.mean_latency(10) == pytest.approx(model, rel=0.1)


def test_what_came_in_has_left_or_is_in_flight():
    query = SimulatedPipeline(scenario(3, 2), RowLoad([700.0] * 20), np.random.default_rng(3))
    came = left = 0
    while (second := query.run()) is not None:
        came += query.snapshot().value("input_rows")
        left += len(second.latencies)
    waiting = sum(query.snapshot().value("in_flight", name) for name in ("parse", "count"))
    assert came == left + waiting + query.snapshot().value("lag", "read")


def test_what_a_pipeline_cannot_do_is_refused():
    query = SimulatedPipeline(scenario(), RowLoad([1.0]), np.random.default_rng(0))
    with pytest.raises(ControlError, match="cannot let spout"):
        query.perform(SetAdmission("read", 5))
    loop = Network((Operator("a", 1.0),), (Flow("a", "a", 0.5),), {"a": 1.0})
    with pytest.raises(ControlError, match="loops"):
        SimulatedPipeline(ControlScenario(loop, {"a": 1}), RowLoad([1.0]), np.random.default_rng(0))


# ---- dynamic grouping


@pytest.mark.parametrize("seed", range(3))
def test_a_hog_on_a_worker_is_bypassed_within_two_reports_and_latency_is_back(seed):
    made = scenario(slow_executors=(HOG,))
    off = run(Control(), made, [800.0] * 80, seed=seed)
    on = run(in_real_time(policies=["bypass"]), made, [800.0] * 80, seed=seed)
    splits = [each for each in on.chosen(SetSplit) if each[0] < 50]
    assert splits[0][0] == 22.0  # the second report after it began
    usual = on.latency(0.99, 5, 20)
    assert on.latency(0.99, 25, 50) < 1.5 * usual
    assert off.latency(0.99, 25, 50) > 100 * usual
    assert on.chosen(Quarantine) == []
    back = [action for at, action in on.chosen(SetSplit) if at > 50]
    assert {action.edge for action in back} == {"parse", "count"}
    assert on.seconds[-1].shares["parse"] == pytest.approx((0.25,) * 4 + (0.0,) * 4)


def test_a_replica_on_a_slow_worker_is_replaced_by_a_task_elsewhere():
    made = scenario(parse=2, count=1, slow_executors=(replace(HOG, executor="2", end=100.0),))
    report = run(in_real_time(policies=["bypass"]), made, [300.0] * 60)
    (_, action), *_ = report.chosen(SetSplit)
    assert action.edge == "parse"
    assert [round(weight) for weight in action.weights] == [1, 0, 1, 0, 0, 0, 0, 0]  # the second one is on worker 2
    assert 0 < action.weights[1] < 0.02
    assert report.latency(0.99, 25) < 1.5 * report.latency(0.99, 5, 20)


@pytest.mark.parametrize("seed", range(3))
def test_a_noisy_second_moves_nothing(seed):
    noise = tuple(SlowExecutor(str(turn % 4), 6.0, 10.0 * turn, 10.0 * turn + 0.7) for turn in range(1, 8))
    made = scenario(slow_executors=noise)
    assert run(in_real_time(policies=["bypass"]), made, [800.0] * 90, seed=seed).decisions == ()


def test_a_machine_that_slows_all_workers_makes_none_suspect():
    made = scenario(slow_executors=tuple(SlowExecutor(str(i), 2.5, 10.0, 40.0) for i in range(4)))
    assert run(in_real_time(policies=["bypass"]), made, [400.0] * 60).decisions == ()


def test_a_worker_with_slow_sources_goes_at_the_next_batch_if_the_target_is_missed():
    operators = (Operator("read", 800.0, 0.2), *OPERATORS[1:])
    made = scenario(operators=operators, slow_executors=(replace(HOG, end=1e9),), batch_seconds=60.0)
    report = run(in_real_time(policies=["bypass"]), made, [500.0] * 110, target=Target(latency=0.1))
    ((at, action),) = report.chosen(Quarantine)
    assert action == Quarantine("1")
    assert 30 <= at < 40
    assert report.latency(0.99, 45, 60) > 1.0
    assert report.latency(0.99, 90) < 0.1


# ---- pa-sps and drs


def test_replicas_follow_a_load_that_doubles_and_one_that_is_forecast():
    load = [800.0] * 30 + [1600.0] * 60
    control = in_real_time()
    off, on = run(Control(), scenario(3, 2), load), run(control, scenario(3, 2), load)
    assert [policy.name for policy in control.policies] == ["bypass", "replicas", "hot_keys"]
    assert on.chosen(SetReplicas)[0][0] <= 33
    assert on.latency(0.99, 45) < 2 * on.latency(0.99, 5, 30) < off.latency(0.99, 45) / 50

    def told(world):
        rate = load[min(int(world.at) + 5, len(load) - 1)]
        return Forecasts({("arrival_rate", "read"): Forecast("told", (ForecastPoint(5.0, rate),))})

    ahead = run(control, scenario(3, 2), load, forecast=told)
    assert ahead.chosen(SetReplicas)[0][0] <= 30
    assert ahead.latency(0.99, 30, 40) < on.latency(0.99, 30, 40) / 3


def test_drs_holds_a_target_while_the_load_doubles_and_tells_how_far_off_its_model_is():
    target = Target(latency=0.04, quantile="p99")
    control = in_real_time(target)
    assert [policy.name for policy in control.policies] == ["bypass", "processors", "hot_keys"]
    report = run(control, scenario(3, 2), [800.0] * 30 + [1600.0] * 60, target)
    assert report.chosen(SetReplicas)[0][0] <= 33
    assert report.latency(0.99, 40) < 0.04
    wishes = [wish for decision in report.decisions for wish in decision.chosen]
    assert all(wish.expected.metric == "latency_p99_ms" and wish.expected.value < 40 for wish in wishes)
    assert all("times the mean" in wish.reason and "the model says" in wish.reason for wish in wishes)


TOPOLOGIES = {
    "a heavy bolt first": (Operator("parse", 200.0, 1.0), Operator("count", 700.0, 0.3)),
    "a heavy bolt last": (Operator("parse", 900.0, 2.0), Operator("count", 250.0, 1.0)),
    "even bolts of different variation": (Operator("parse", 350.0, 0.1), Operator("count", 350.0, 3.0)),
}


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_drs_finds_the_best_allocation_or_one_within_5_percent(name):
    operators, rates, budget = (OPERATORS[0], *TOPOLOGIES[name]), [500.0] * 90, 10
    taken = {}
    for parse, count in itertools.product(range(1, 9), repeat=2):
        stable = 500 / operators[1].service_rate < 0.97 * parse and 500 / operators[2].service_rate < 0.97 * count
        if parse + count == budget and stable:
            taken[parse, count] = run(Control(), scenario(parse, count, operators), rates).mean_latency(10)
    assert len(taken) >= 3
    worst = max(taken, key=taken.get)
    target = Target(latency=10.0, budget=budget + POOLS["read"])
    control = in_real_time(target, ["processors"])
    report = run(control, scenario(*worst, operators), rates, target)
    found = tuple(sum(share > 0 for share in report.seconds[-1].shares[edge]) for edge in ("parse", "count"))
    assert sum(found) <= budget
    assert taken[found] <= 1.05 * min(taken.values())
