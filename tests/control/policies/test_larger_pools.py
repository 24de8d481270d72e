"""A restart with a larger pool is wished for when the pool is too small for long, there are cores, and it pays."""

from dataclasses import replace

import pytest

from control.worlds import SETUP, loaded, observed
from foretide.control.actions.registry import Restart
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.control.world.setup import OperatorSetup

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
