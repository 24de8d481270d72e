"""A restart with a larger pool is wished for when the pool is too small for long, there are cores, and it pays."""

from dataclasses import replace

import numpy as np
import pytest

from control.worlds import SETUP, loaded, observed
from foretide.control.actions.registry import Restart
from foretide.control.policies.batch_allocation import BatchPlanner
from foretide.control.policies.larger_pools import short_of_target
from foretide.control.policies.processors import Processors, ProcessorSettings
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.control.simulation.query import SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.world.setup import OperatorSetup, Target
from foretide.control.world.world import World
from foretide.queueing.learned_batches import BatchObservation, StageObservation, learn
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

SMALL = replace(
    SETUP,
    operators=(
        OperatorSetup("read", pool=4, spout=True),
        OperatorSetup("parse", pool=2, edge="parse"),
        OperatorSetup("count", pool=4, stateful=True),
    ),
    can_enlarge=True,
)
POOLS = {"routes": {"parse": (1.0, 1.0)}, "pools": {"parse": 2}, "state_partitions": 4}


def wished(setup=SMALL, rate=3000.0, plans=3, settings=None, seen=None):
    """The restarts that are wished for in some plans in a row, and the state after them."""
    policy = Replicas(settings or ReplicaSettings(period=10.0, sudden_change=None))
    state, restarts = policy.start(), []
    for number in range(plans):
        at = 1000.0 + 10 * number
        state, wishes = policy.wish(state, loaded(rate, at=at, setup=setup, seen=seen or observed(**POOLS)))
        restarts += [wish for wish in wishes if isinstance(wish.action, Restart)]
    return restarts, state


def test_a_pool_that_stays_too_small_is_made_larger_once():
    restarts, _ = wished(plans=20)
    assert len(restarts) == 1
    (wish,) = restarts
    assert set(wish.action.pools) == {"parse"}
    assert 2 < wish.action.pools["parse"] <= 32  # the cores of eight executors
    assert wish.action.state_partitions is None
    assert "'parse' takes" in wish.reason
    assert "a restart costs 30 s" in wish.reason


def test_two_plans_are_not_enough():
    assert wished(plans=2)[0] == []


@pytest.mark.parametrize(
    "setup",
    [
        replace(SMALL, can_enlarge=False),
        replace(SMALL, executors=None, cores_per_executor=1),  # four workers with a core each: state is next
    ],
)
def test_nothing_is_wished_for_that_cannot_be_changed_or_would_not_help(setup):
    few = observed(**POOLS, executors={"0": "h0", "1": "h0"})
    assert wished(setup, seen=few)[0] == []


def test_a_pool_that_is_large_enough_stays():
    assert wished(rate=100.0)[0] == []


def test_it_has_to_pay():
    assert wished(settings=ReplicaSettings(period=10.0, sudden_change=None, restart_horizon=20.0))[0] == []
    assert wished(settings=ReplicaSettings(period=10.0, sudden_change=None, restart_horizon=None))[0] == []


def test_state_partitions_too():
    (wish,) = wished(replace(SMALL, can_enlarge=False, can_repartition=True))[0]
    assert wish.action.pools == {}
    assert wish.action.state_partitions > 4


def test_what_a_restart_took_is_its_cost_from_then_on():
    restarts, state = wished()
    policy = Replicas(ReplicaSettings(period=10.0, sudden_change=None))
    pools = restarts[0].action.pools
    after = observed(routes={"parse": (1.0,) * pools["parse"]}, pools=pools, state_partitions=4)
    state, _ = policy.wish(state, loaded(3000.0, at=1065.0, setup=SMALL, seen=after))
    assert state.pools.seconds == 45.0


ASKING = Network((Operator("read", 1e6, 0.0), Operator("ask", 100.0, 0.5)), (Flow("read", "ask"),), {"read": 1.0})


def wished_for_a_target(latency, pool=2, settings=None, **changes):
    """The restarts for a query that waits in two tasks while six executors may be had, and 150 rows/s come."""
    costs = BatchCosts(1, fixed_cost=0.35)
    described = ControlScenario(
        ASKING, {"read": 2, "ask": pool}, {}, costs, executors=6, executor_range=(1, 6), cores_per_executor=1
    )
    query = SimulatedQuery(described, RowLoad([150.0] * 60), np.random.default_rng(4))
    policy = Processors(settings or ProcessorSettings())
    state, wishes = policy.start(), []
    while query.run() is not None:
        setup = replace(described.setup(), **{"can_enlarge": True, **changes})
        seen = World(setup, query.snapshot(), query.observed(), target=Target(latency=latency))
        state, found = policy.wish(state, seen)
        wishes += [wish for wish in found if isinstance(wish.action, Restart)]
    return wishes


def test_pools_that_are_too_small_for_a_target_are_made_larger_once():
    (wish,) = wished_for_a_target(1.8)
    assert set(wish.action.pools) == {"ask"}
    assert 2 < wish.action.pools["ask"] <= 6
    assert "a p99 latency of 1.8 s takes" in wish.reason
    assert "which has 2" in wish.reason
    assert "a restart costs 30 s" in wish.reason


@pytest.mark.parametrize(
    ("latency", "changes"),
    [
        (60.0, {}),  # the pool is large enough for the target
        (1.8, {"can_enlarge": False}),
        (1.8, {"pool": 6}),
        (1.8, {"settings": ProcessorSettings(restart_horizon=20.0)}),  # it would not pay
        (1.8, {"settings": ProcessorSettings(restart_horizon=None)}),
    ],
)
def test_there_is_no_restart_for_a_target_that_is_held_or_that_no_restart_helps(latency, changes):
    assert wished_for_a_target(latency, **changes) == []


def test_state_partitions_too_are_counted_as_tasks_for_a_target():
    setup = replace(SETUP, operators=(OperatorSetup("count", pool=2, stateful=True),), can_repartition=True)
    rows = [60.0 + 10 * number for number in range(8)]
    batches = [
        BatchObservation(number, n, 0.3 + n / 100, 2, {"count": StageObservation(n, 2, n / 50, n / 100)})
        for number, n in enumerate(rows)
    ]  # 20 ms a row in two tasks, and 0.3 s
    seen = replace(loaded(60.0, setup=setup), target=Target(latency=1.0))
    found = short_of_target(BatchPlanner(learn(batches), seen, 60.0), 600.0)
    assert found["count"].tasks > 2
    assert found["count"].waiting > 0
