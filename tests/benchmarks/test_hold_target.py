"""The table of the model's error, on simulated batches; which strategies there are."""

import numpy as np
import pytest
from benchmarks.hold_target import LEARNT, STATICS, STRATEGIES, policies_of, varied
from benchmarks.hold_target_model import WARM_UP, Observing, learnt_from, model_errors

from foretide.control.simulation.query import SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

ASKING = Network((Operator("read", 1e6, 0.0), Operator("ask", 80.0, 0.5)), (Flow("read", "ask"),), {"read": 1.0})


def observed(executors, rates):
    scenario = ControlScenario(
        ASKING,
        {"read": 1, "ask": 6},
        {"ask": executors},
        BatchCosts(1, fixed_cost=0.35),
        executors=executors,
        executor_range=(1, 6),
        cores_per_executor=1,
    )
    query, policy = SimulatedQuery(scenario, RowLoad(rates), np.random.default_rng(2)), Observing()
    state = policy.start()
    while query.run() is not None:
        world = World(scenario.setup(), query.snapshot(), query.observed(), target=Target())
        for _ in range(2):  # a second look at the same batch adds nothing
            state, wishes = policy.wish(state, world)
            assert wishes == []
    assert len({batch.number for batch in state}) == len(state)
    return state


def test_what_one_to_three_executors_showed_is_compared_with_every_batch_of_six():
    learned = learnt_from([observed(count, list(varied(rate, 60).rates)) for count, rate in LEARNT.items()])
    six = observed(6, [120.0] * 60)
    (row,) = model_errors(learned, {"six": six, "nothing": six[:WARM_UP]})
    assert (row["run"], row["batches"]) == ("six", len(six) - WARM_UP)
    assert row["rows/s by the model"] == pytest.approx(row["rows/s measured"], rel=0.15)
    assert row["error of rows/s"].endswith("%")


def test_the_strategies_are_those_that_stay_and_those_that_change_the_executors():
    assert [name for name in STRATEGIES if name in STATICS] == list(STATICS)
    assert [getattr(each, "name", each) for each in policies_of("foretide", 2.0)][-2:] == ["hot_keys", "observing"]
    assert policies_of("reactive", 2.0)[0].name == "reactive executors"
