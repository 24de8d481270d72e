"""Trouble that announces itself: with a net's foresight `Bypass` acts before it, rules on what is measured after it."""

import numpy as np
import pytest
from benchmarks.generators.announced import Trouble, reading, troubles

from foretide.control.actions.registry import Quarantine, QuarantineHost, SetReplicas
from foretide.control.policies.baselines import Reactive, Static
from foretide.control.policies.bypass import Bypass, BypassSettings
from foretide.control.policies.prediction_error import PredictionError, PredictionErrorSettings
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.simulation.simulate import simulate_control
from foretide.control.step import Control
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.forecasting.settings import TrainingBudget, WorkerNetSettings
from foretide.forecasting.worker_forecaster import WorkerForecaster
from foretide.forecasting.worker_frames import MachineFrame
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

pytestmark = pytest.mark.soak  # trains a net; test_simulate has the same with a forecast made by hand

TIME, DISK = "worker_tuple_execution_time_ms", "worker_disk_read_bytes_per_second"
PERIOD, LEARNT = 5.0, 1200.0
NET = WorkerNetSettings(
    targets=(TIME,), process_features=frozenset(), horizon=4, hidden=8, first_training=1 << 30, retrain_every=0,
    budget=TrainingBudget(seeds=1, epochs=12),
)  # fmt: skip
TROUBLE = Trouble("1", 6.0, 100.0, 150.0, 15.0)


def make_scenario(found):
    operators = (Operator("read", 1e6), Operator("parse", 500.0), Operator("count", 1000.0))
    network = Network(operators, (Flow("read", "parse"), Flow("parse", "count")), {"read": 1.0})
    slow = tuple(SlowExecutor(each.worker, each.factor, each.start, each.end) for each in found)
    costs = BatchCosts(16, fixed_cost=0.2, task_cost=0.001, trigger=1.0)
    return ControlScenario(
        network,
        {"read": 4, "parse": 16, "count": 16},
        {"parse": 8, "count": 8},
        costs=costs,
        slow_executors=slow,
    )


def frames_of(found, seed):
    """Makes a frame of a world: times as measured, and what is read from the disk."""
    rng = np.random.default_rng(seed)

    def frame(world):
        times = {worker: world.snapshot.value(TIME, worker, within=PERIOD) for worker in world.observed.in_service}
        known = {worker: value for worker, value in times.items() if value is not None}
        return MachineFrame({}, {w: {TIME: t, DISK: reading(rng, found, w, world.at)} for w, t in known.items()})

    return frame


@pytest.fixture(scope="module", name="state")
def of_a_net_that_has_seen_trouble():
    found = troubles(1, LEARNT, ["0", "1", "2", "3"])
    frame, frames = frames_of(found, 1), []

    def watch(world):
        frames.append(frame(world))
        return Forecasts()

    simulate_control(
        Control((Static(),)), make_scenario(found), RowLoad([1000.0] * int(LEARNT)), period=PERIOD, forecast=watch
    )
    net = WorkerForecaster(1, NET)
    net.learn(frames)
    net.retrain()
    return net.state()


def by_net(state, said):
    """Foresees by the net, and notes what was measured and foreseen of the worker in trouble."""
    net, frame = WorkerForecaster(0, NET), frames_of([TROUBLE], 7)
    net.restore(state)

    def forecast(world):
        seen = frame(world)
        net.learn([seen])
        ahead = {worker: targets[TIME].mean for worker, targets in net.forecast(NET.horizon).items()}
        if "1" in ahead:
            said.append((world.at, seen.workers["1"][TIME], ahead["1"]))
        points = {
            worker: tuple(ForecastPoint((far + 1) * PERIOD, float(value)) for far, value in enumerate(means))
            for worker, means in ahead.items()
        }
        return Forecasts({(TIME, worker): Forecast("net", each) for worker, each in points.items()})

    return forecast


def unchanged(world):
    times = {worker: world.snapshot.value(TIME, worker) for worker in world.observed.in_service}
    return Forecasts({(TIME, w): Forecast("last value", (ForecastPoint(PERIOD, t),)) for w, t in times.items() if t})


def under(policy, forecast=None):
    return simulate_control(
        Control((policy,)), make_scenario([TROUBLE]), RowLoad([1000.0] * 150), period=PERIOD, forecast=forecast
    )


def first_act(report):
    """Seconds from the trouble to the first thing done about it; infinite if nothing is."""
    kinds, announced = (Quarantine, QuarantineHost, SetReplicas), TROUBLE.start - TROUBLE.lead
    acts = [
        (decision.at - TROUBLE.start, action)
        for decision in report.decisions
        for action in decision.actions
        if isinstance(action, kinds) and decision.at >= announced
    ]
    return acts[0] if acts else (float("inf"), None)


def test_what_is_foreseen_of_a_worker_rises_before_what_is_measured_does(state):
    said = []
    under(Static(), by_net(state, said))
    quiet = [(value, ahead) for at, value, ahead in said if at < TROUBLE.start - TROUBLE.lead]
    announced = [(value, ahead) for at, value, ahead in said if TROUBLE.start - 10 < at < TROUBLE.start]
    usual = np.mean([value for value, _ in quiet])
    assert announced
    assert all(value < 1.1 * usual for value, _ in announced)  # nothing to be measured yet
    assert all(max(ahead) > 2 * usual for _, ahead in announced)
    assert np.mean([max(ahead) > 2 * usual for _, ahead in quiet]) < 0.1


def test_bypass_with_that_foresight_acts_before_rules_that_wait_for_the_threshold(state):
    foreseen = under(Bypass(), by_net(state, []))
    at, action = first_act(foreseen)
    rule = PredictionError(PredictionErrorSettings(metric=TIME, scope="worker"))
    others = {
        "bypass, measured only": under(Bypass(BypassSettings(horizon=None))),
        "paper rule, last value": under(rule, unchanged),
        "reactive": under(Reactive()),
    }
    seconds = {"bypass, net": at} | {name: first_act(report)[0] for name, report in others.items()}
    print(", ".join(f"{name}: {when:+.1f} s" for name, when in seconds.items()))
    assert action == Quarantine("1")
    assert at < 0
    assert all(when > 0 for name, when in seconds.items() if name != "bypass, net")
    after = TROUBLE.start
    assert all(foreseen.latency(0.99, after) < 0.6 * other.latency(0.99, after) for other in others.values())
