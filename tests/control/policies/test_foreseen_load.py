"""Executors by a trusted forecast: kept over a dip before a peak, and asked for as long before a rise as one needs."""

import numpy as np

from foretide.control.actions.registry import SetExecutors
from foretide.control.guards import GuardSettings
from foretide.control.policies.processors import Processors, ProcessorSettings
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.simulation.simulate import simulate_control
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

ASKING = Network((Operator("read", 1e6, 0.0), Operator("ask", 100.0, 0.5)), (Flow("read", "ask"),), {"read": 1.0})
NO_WAITING = GuardSettings(cooldown_down=0, down_window=0)
"""What is given back is given back at once, so that only forecasts keep executors."""


def knowing(load):
    """A forecast of the load as it will be, a minute ahead."""

    def forecast(world):
        points = tuple(
            ForecastPoint(float(ahead), load[min(int(world.at) + ahead, len(load) - 1)]) for ahead in range(1, 61)
        )
        return Forecasts({("arrival_rate", "read"): Forecast("known", points)})

    return forecast


def asked_for(load, *, foreseen, delay=5.0, executors=2, **settings):
    """When how many executors were asked for."""
    costs = BatchCosts(1, fixed_cost=0.35, task_cost=0.02)
    limits = {"executor_range": (1, 6), "cores_per_executor": 1, "executor_delay": delay}
    scenario = ControlScenario(ASKING, {"read": 2, "ask": 6}, {}, costs, executors=executors, **limits)
    report = simulate_control(
        Control((Processors(ProcessorSettings(**settings)),), NO_WAITING),
        scenario,
        RowLoad(load),
        rng=np.random.default_rng(3),
        target=Target(latency=4.0),
        forecast=knowing(load) if foreseen else None,
    )
    return [
        (decision.at, wish.action.count, wish.reason)
        for decision in report.decisions
        for wish in decision.chosen
        if isinstance(wish.action, SetExecutors)
    ]


def test_executors_stay_over_a_dip_before_a_foreseen_peak():
    dip = [240.0] * 150 + [100.0] * 22 + [240.0] * 60

    def in_the_dip(*, foreseen):
        return [count for at, count, _ in asked_for(dip, foreseen=foreseen, executors=4) if 150 <= at < 172]

    assert min(in_the_dip(foreseen=False)) < 4
    assert in_the_dip(foreseen=True) == []


def test_executors_are_asked_for_before_a_foreseen_rise_as_long_as_they_take_to_come():
    rise = [120.0] * 120 + [240.0] * 60
    [(late, _, _)] = asked_for(rise, foreseen=False)
    [(at, count, reason)] = asked_for(rise, foreseen=True, lead=5.0)
    assert late >= 120
    assert 110 <= at < 120
    assert count == 4
    assert "in 5 s 240 tuples/s are expected (known, trusted for" in reason


def test_what_the_first_executors_took_to_come_is_how_long_before_the_next_ones_are_asked_for():
    twice = [120.0] * 80 + [240.0] * 50 + [120.0] * 90 + [240.0] * 50
    asked = [(at, count) for at, count, _ in asked_for(twice, foreseen=True, delay=15.0, lead=5.0)]
    more = [at for (_, before), (at, count) in zip([(0.0, 2), *asked], asked, strict=False) if count > before]
    first, second = more[:2]
    assert 80 - first < 10
    assert 220 - second >= 15
