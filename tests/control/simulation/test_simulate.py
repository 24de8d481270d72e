"""The control loop on a simulated query: steps, noise, ramps, slow workers. No oscillation, no overshoot."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.predictors import (
    Predictions,
    last_value,
    moving_average,
    perfect,
    replica_error,
    throughput_degradation,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foretide.control.actions.registry import Quarantine, Release, SetAdmission, SetExecutors, SetReplicas
from foretide.control.decisions.decision import Decision, from_json, to_json
from foretide.control.guards import GuardSettings
from foretide.control.policies.admission import Admission, AdmissionSettings
from foretide.control.policies.baselines import Reactive, Static
from foretide.control.policies.bypass import Bypass, BypassSettings
from foretide.control.policies.processors import Processors
from foretide.control.policies.replicas import Replicas
from foretide.control.simulation.query import SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.simulation.simulate import simulate_control
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.errors import ControlError, ModelError
from foretide.queueing.batches import batch_model
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad
from foretide.simulation.routes import RouteChange
from foretide.simulation.rows import run_batches
from foretide.simulation.scenario import Scenario

COSTS = BatchCosts(16, fixed_cost=0.2, task_cost=0.001, trigger=1.0)
POOLS = {"read": 4, "parse": 16, "count": 16}


def make_scenario(parse: int = 4, count: int = 4, **options):
    operators = (Operator("read", 1e6), Operator("parse", 500.0), Operator("count", 1000.0))
    network = Network(operators, (Flow("read", "parse"), Flow("parse", "count")), {"read": 1.0})
    return ControlScenario(network, POOLS, {"parse": parse, "count": count}, **{"costs": COSTS, **options})


def of_kind(report, kind):
    return [
        (decision.at, wish.action)
        for decision in report.decisions
        for wish in decision.chosen
        if isinstance(wish.action, kind)
    ]


# ---- the simulated query itself


def test_batches_settle_down_to_what_the_model_says():
    costs = BatchCosts(16, fixed_cost=0.2, task_cost=0.001)
    scenario = make_scenario(6, 4, costs=costs)
    report = simulate_control(Control(), scenario, RowLoad([900.0] * 200))
    even = Network(
        tuple(replace(each, service_scv=0.0) for each in scenario.network.operators),
        scenario.network.flows,
        scenario.network.external,
    )
    steady = batch_model(even, costs, {"read": 4, "parse": 6, "count": 4}, POOLS).steady(900.0)
    last = report.batches[-5]
    assert last.run.commit - last.run.start == pytest.approx(steady.length, rel=0.02)
    assert last.rows == pytest.approx(steady.rows, rel=0.02)
    assert report.latency(0.5, start=100) == pytest.approx(steady.mean_latency, rel=0.03)


def test_without_control_rows_at_random_are_those_of_a_plain_simulation():
    operators = (Operator("read", 50_000.0), Operator("parse", 500.0, service_scv=2.0))
    network, pools = Network(operators, (Flow("read", "parse"),), {"read": 600.0}), {"read": 2, "parse": 6}
    costs = BatchCosts(8, fixed_cost=0.2, task_cost=0.001)
    routes = {"parse": (RouteChange.first(4, 6, spread="even"),)}
    scenario = Scenario(network, pools, 60.0, routes=routes, batching=costs)
    plain = run_batches(scenario, np.random.default_rng(5), lambda _: None).batches
    controlled = ControlScenario(network, pools, {"parse": 4}, costs, executors=2, cores_per_executor=4)
    report = simulate_control(Control(), controlled, RowLoad([600.0] * 60), rng=np.random.default_rng(5))
    batches = [(batch.run.start, batch.run.commit, batch.rows) for batch in report.batches]
    assert len(batches) > 50
    assert np.array(batches) == pytest.approx(np.array(plain[: len(batches)]))


def test_rows_at_random_give_much_the_same_as_rows_as_amounts():
    control, load = Control((Replicas(),)), RowLoad([500.0] * 60 + [1500.0] * 60)
    amounts = simulate_control(control, make_scenario(), load)
    rows = simulate_control(control, make_scenario(), load, rng=np.random.default_rng(1))
    again = simulate_control(control, make_scenario(), load, rng=np.random.default_rng(1))
    assert rows.mean_latency() == again.mean_latency()
    assert rows.mean_latency() == pytest.approx(amounts.mean_latency(), rel=0.15)
    assert rows.processed == pytest.approx(amounts.processed, rel=0.02)
    assert rows.batches[-1].replicas == pytest.approx(amounts.batches[-1].replicas, abs=2)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 3000), min_size=5, max_size=60), st.integers(1, 16), st.integers(1, 16))
@example([0.0, 357.5, 1096.2645463427054, 0.0, 1.0], 5, 4)
@example([0.0, 357.5, 1096.2645463427054, 0.0, 0.0], 1, 1)
def test_no_row_is_lost_or_doubled_whatever_the_load(rates, parse, count):
    load = RowLoad(rates)
    query = SimulatedQuery(make_scenario(parse, count), load)
    runs = []
    while (run := query.run()) is not None:
        runs.append(run)
    if runs:
        last = runs[-1].run
        assert math.fsum(run.rows for run in runs) == pytest.approx(load.due(last.start) - last.intake.lag)
        assert last.intake.lag >= 0
    for one, two in itertools.pairwise(runs):
        assert two.run.start >= one.run.commit
        assert two.run.start >= one.run.start + COSTS.trigger - 1e-9
        assert 0 <= two.latencies[0] <= two.latencies[1] + 1e-9


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20), st.floats(0, 1))
def test_a_load_knows_when_each_row_is_due(rates, part):
    load = RowLoad(rates, 2.0)
    row = load.rows * part
    assert load.due(load.when(row)) == pytest.approx(row, abs=1e-6)
    assert load.due(load.seconds + 5) == load.rows


def test_a_limit_on_admission_leaves_rows_waiting():
    query = SimulatedQuery(make_scenario(), RowLoad([1000.0] * 30))
    query.perform(SetAdmission("read", 500))
    run = [query.run() for _ in range(5)][-1]
    assert run.rows == 500
    assert run.run.intake.lag > 0


def test_executors_come_after_a_while():
    query = SimulatedQuery(make_scenario(executor_delay=5.0), RowLoad([100.0] * 30))
    query.run()
    query.perform(SetExecutors(6))
    assert len(query.observed().executors) == 4
    while query.now < 10:
        query.run()
    assert len(query.observed().executors) == 6
    query.perform(SetExecutors(2))
    while query.now < 20:
        query.run()
    assert set(query.observed().executors) == {"0", "1"}


@pytest.mark.parametrize("bad", [{"executors": 0}, {"pools": {"read": 1}}, {"network": Network((Operator("a", 1.0),))}])
def test_a_scenario_that_cannot_run_is_refused(bad):
    good = {"network": make_scenario().network, "pools": POOLS}
    with pytest.raises(ControlError):
        ControlScenario(**{**good, **bad})


@pytest.mark.parametrize(("rates", "step"), [([], 1.0), ([-1.0], 1.0), ([1.0], 0.0), ([math.inf], 1.0)])
def test_a_load_that_cannot_be_is_refused(rates, step):
    with pytest.raises(ModelError):
        RowLoad(rates, step)


# ---- one decision for a step of the load


def replicas_needed(rate: float) -> dict[str, int]:
    """By hand: 80 % of the time, less the spout's, shared out by the square roots of the work."""
    left = 0.8 - rate * 1e-6 / 4
    parse, count = rate / 500, rate / 1000
    roots = math.sqrt(parse) + math.sqrt(count)
    return {"parse": math.ceil(math.sqrt(parse) * roots / left), "count": math.ceil(math.sqrt(count) * roots / left)}


@settings(max_examples=12, deadline=None)
@given(st.integers(300, 800), st.integers(1200, 2000), st.floats(60, 92))
def test_a_step_of_the_load_is_solved_in_one_decision_without_overshooting(low, high, moment):
    load = RowLoad([low if i * 0.1 < moment else high for i in range(2000)], 0.1)
    start = replicas_needed(low)
    report = simulate_control(Control((Replicas(),)), make_scenario(start["parse"], start["count"]), load)
    after = [decision for decision in report.decisions if decision.at > moment]
    assert len(after) == 1
    assert after[0].at < moment + 10
    for action in after[0].actions:
        needed = replicas_needed(high)[action.edge]
        assert needed <= action.replicas <= needed + 1


def test_thresholds_need_more_decisions_for_the_same_step():
    load = RowLoad([300.0] * 300 + [2400.0] * 300)
    start = replicas_needed(300.0)
    predictive = simulate_control(Control((Replicas(),)), make_scenario(start["parse"], start["count"]), load)
    reactive = simulate_control(Control((Reactive(),)), make_scenario(start["parse"], start["count"]), load)
    assert len([d for d in predictive.decisions if d.at > 300]) == 1
    assert len([d for d in reactive.decisions if d.at > 300]) > 1
    assert predictive.latency(0.99, start=300) < reactive.latency(0.99, start=300)


# ---- no oscillation

CURVES = {
    "noise": (np.random.default_rng(1).poisson(800, 3600).astype(float), 6),
    "wild noise": (np.random.default_rng(2).gamma(4.0, 200.0, 3600), 30),
    "steps": (np.repeat([500.0, 1500.0, 500.0, 1500.0, 800.0, 300.0], 600), 30),
    "ramp": (np.linspace(200.0, 2000.0, 3600), 30),
    "sawtooth": (np.tile(np.linspace(400.0, 1600.0, 120), 30), 30),
}


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("policy", [Replicas(), Reactive()], ids=["replicas", "reactive"])
def test_an_hour_of_trouble_takes_few_actions(curve, policy):
    rates, max_actions = CURVES[curve]
    report = simulate_control(Control((policy,)), make_scenario(8, 8), RowLoad(rates.tolist()), period=3.0)
    assert report.actions <= max_actions
    assert report.processed >= 0.99 * report.load.rows


def test_steady_load_ends_in_peace():
    everything = (Bypass(), Processors(), Replicas(), Admission())
    report = simulate_control(
        Control(everything),
        make_scenario(8, 8, executor_range=(1, 8)),
        RowLoad([800.0] * 2000),
        target=Target(3.0, 0.5),
    )
    assert [
        decision.at
        for decision in report.decisions
        if decision.at > 1200
        if "admission" not in [w.policy for w in decision.chosen]
    ] == []


def test_an_hour_of_swings_never_turns_back_within_a_minute():
    load = RowLoad((1000 + 800 * np.sin(np.arange(3600) / 1200 * 2 * np.pi)).tolist())
    forecast = Predictions(last_value, load, make_scenario(8, 8))
    report = simulate_control(Control((Replicas(),)), make_scenario(8, 8), load, forecast=forecast, period=3.0)
    for edge in ("parse", "count"):
        changes = [(at, action.replicas) for at, action in of_kind(report, SetReplicas) if action.edge == edge]
        for (before, first), (middle, second), (after, third) in zip(changes, changes[1:], changes[2:], strict=False):
            turned_up = second < first and third > second
            turned_down = second > first and third < second
            assert after - middle >= (60 if turned_down else 0)
            assert not (turned_up and after - before < 60)


# ---- slow workers


def test_a_slow_worker_goes_within_a_control_period_and_hurts_no_more():
    scenario = make_scenario(8, 8, slow_executors=(SlowExecutor("1", 6.0, 100.0, 390.0),))
    load = RowLoad([1000.0] * 600)
    report = simulate_control(Control((Bypass(),)), scenario, load, period=5.0)
    (out, action), (back, _) = of_kind(report, Quarantine)[0], of_kind(report, Release)[0]
    assert action == Quarantine("1")
    assert 100 < out < 110
    assert len(report.decisions) == 2  # it was well again when it was let in
    assert back > 390
    calm = simulate_control(Control((Static(),)), make_scenario(8, 8), load)
    static = simulate_control(Control((Static(),)), scenario, load)
    assert report.latency(0.99, 112, 390) <= 1.5 * calm.latency(0.99, 112, 390)
    assert static.latency(0.99, 112, 390) >= 4 * report.latency(0.99, 112, 390)
    assert report.processed >= 0.999 * calm.processed


def test_a_worker_that_stays_slow_is_probed_ever_more_rarely():
    scenario = make_scenario(8, 8, slow_executors=(SlowExecutor("1", 6.0, 100.0, 900.0),))
    report = simulate_control(
        Control((Bypass(BypassSettings(first_wait=60.0)),)), scenario, RowLoad([1000.0] * 1500), period=5.0
    )
    out = [at for at, _ in of_kind(report, Quarantine)]
    back = [at for at, _ in of_kind(report, Release)]
    waits = [round(in_again - gone) for gone, in_again in zip(out, back, strict=True)]
    assert waits[0] < 80
    assert all(later > 1.7 * earlier for earlier, later in itertools.pairwise(waits))
    assert all(gone - in_again < 10 for gone, in_again in zip(out[1:], back, strict=False))  # a batch, and it is out
    assert back[-1] > 900


def test_a_forecast_acts_before_the_threshold_does():
    metric = "worker_slowness"
    scenario, load = (
        make_scenario(8, 8, slow_executors=(SlowExecutor("1", 6.0, 100.0, 250.0),)),
        RowLoad([1000.0] * 240),
    )

    def forecast(world):
        """What a model would say to which the disturbance has announced itself."""
        usual = 1.0
        looks = {
            (metric, worker): Forecast(
                "net", (ForecastPoint(15.0, 6 * usual if worker == "1" and world.at > 86 else usual),)
            )
            for worker in world.observed.executors
        }
        return Forecasts(looks)

    predictive = simulate_control(Control((Bypass(),)), scenario, load, period=5.0, forecast=forecast)
    threshold = simulate_control(Control((Bypass(),)), scenario, load, period=5.0)
    assert of_kind(predictive, Quarantine)[0][0] < 100 < of_kind(threshold, Quarantine)[0][0]
    calm = simulate_control(Control((Static(),)), make_scenario(8, 8), load)
    assert predictive.latency(1.0) <= 1.5 * calm.latency(1.0)


def test_advice_touches_nothing():
    scenario = make_scenario(8, 8, slow_executors=(SlowExecutor("1", 6.0, 100.0, 400.0),))
    load = RowLoad([1000.0] * 600)
    advised = simulate_control(Control((Bypass(), Replicas()), mode="advise"), scenario, load)
    static = simulate_control(Control((Static(),)), scenario, load)
    assert advised.actions > 0
    assert [(batch.run.commit, batch.rows) for batch in advised.batches] == [
        (batch.run.commit, batch.rows) for batch in static.batches
    ]


# ---- the others


def test_processors_buy_executors_until_the_target_is_met():
    few = make_scenario(4, 4, executors=1, executor_range=(1, 8), cores_per_executor=2)
    report = simulate_control(Control((Processors(),)), few, RowLoad([1200.0] * 900), target=Target(2.0, 0.4))
    assert of_kind(report, SetExecutors)
    assert report.batches[-1].executors > 1
    assert np.mean([sum(run.latencies) / 2 for run in report.batches[-60:]]) <= 2.0


def test_the_latency_tuner_keeps_batches_short_under_overload():
    overloaded, load = make_scenario(2, 2), RowLoad([900.0] * 900)
    tuned = Control((Admission(AdmissionSettings(tuner="latency", period=20.0)),), GuardSettings(cooldown=0))
    report = simulate_control(tuned, overloaded, load, target=Target(latency=2.0))
    static = simulate_control(Control(), overloaded, load)
    longest = max(run.run.commit - run.run.start for run in report.batches[-50:])
    assert longest < 0.5 * max(run.run.commit - run.run.start for run in static.batches[-50:])


def test_predictors_are_told_the_past_and_nothing_else():
    load, told = RowLoad([100.0 * (1 + i // 30) for i in range(300)]), []

    def spy(history, horizon):
        told.append(list(history))
        return history[-1]

    predictions = Predictions(spy, load, make_scenario())
    simulate_control(Control((Replicas(),)), make_scenario(), load, forecast=predictions)
    assert all(history == [100.0 * (1 + i) for i in range(len(history))] for history in told)
    assert predictions.error == pytest.approx(np.mean([1 / (k + 2) for k in range(9)]))
    sure = Predictions(perfect(load), load, make_scenario())
    simulate_control(Control((Replicas(),)), make_scenario(), load, forecast=sure)
    assert sure.error == pytest.approx(0.0)
    assert moving_average([1.0, 2.0, 3.0], 1, size=2) == 2.5


def test_a_report_has_what_the_papers_tables_have():
    load = RowLoad([500.0] * 300)
    report = simulate_control(Control(), make_scenario(4, 4), load)
    assert report.replica_seconds == pytest.approx(8 * 300, rel=0.02)
    assert report.executor_seconds == pytest.approx(4 * 300, rel=0.02)
    assert throughput_degradation(report) < 0.1
    assert replica_error(report, lambda rate: 8) == 0
    assert replica_error(report, lambda rate: 4) == 1
    assert report.mean_latency() == pytest.approx(report.latency(0.5), rel=0.2)


def test_every_decision_of_a_simulation_survives_json():
    scenario = make_scenario(4, 4, slow_executors=(SlowExecutor("1", 6.0, 60.0, 120.0),))
    control = Control((Bypass(), Replicas()))
    report = simulate_control(control, scenario, RowLoad([500.0] * 120 + [1500.0] * 120))
    assert len(report.decisions) >= 2
    assert all(from_json(Decision, to_json(decision)) == decision for decision in report.decisions)
