"""The policy of campaigns with a join wishes one random plan after the other."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foretide.joins.plan import NO_PLAN, JoinView, KeyLoad
from foretide.soak.join_pipeline import JOIN, RandomPlans, random_plan


@dataclass
class Seen:
    """What the policy reads of a world."""

    at: float
    joins: dict
    observed: object = field(default_factory=lambda: Plans({}))


@dataclass
class Plans:
    joins: dict


@given(seed=st.integers(0, 2**32), keys=st.lists(st.integers(-(2**31), 2**31 - 1), unique=True, max_size=8),
       partitions=st.integers(1, 5))  # fmt: skip
def test_a_random_plan_places_some_of_the_keys_on_partitions_that_exist(seed, keys, partitions):
    plan = random_plan(np.random.default_rng(seed), keys, partitions)
    assert set(plan.grids) <= set(keys)
    assert all(0 <= cell < partitions for grid in plan.grids.values() for cell in grid.cells)


def test_a_plan_is_wished_until_it_is_in_force_and_then_another_one():
    view = JoinView(JOIN, partitions=3, keys=tuple(KeyLoad(key, 10.0, 5.0) for key in range(6)))
    policy = RandomPlans()
    state, wishes = policy.wish(policy.start(), Seen(1.0, {JOIN: view}, Plans({JOIN: NO_PLAN})))
    (first,) = wishes
    again, wishes = policy.wish(state, Seen(2.0, {JOIN: view}, Plans({JOIN: NO_PLAN})))
    assert (again, wishes) == (state, [first])
    _, wishes = policy.wish(state, Seen(3.0, {JOIN: view}, Plans({JOIN: state.plan})))
    assert wishes[0].action.plan not in (state.plan, NO_PLAN)


def test_nothing_is_wished_before_keys_were_counted_or_while_a_plan_cannot_be_changed():
    policy, keys = RandomPlans(), (KeyLoad(1, 10.0, 5.0),)
    views = [
        JoinView(JOIN, partitions=3),
        JoinView(JOIN, partitions=3, keys=keys, problem="too few batches were seen"),
        JoinView(JOIN, partitions=3, keys=keys, pending=NO_PLAN),
    ]
    for joins in ({}, *({JOIN: view} for view in views)):
        assert policy.wish(policy.start(), Seen(1.0, joins)) == (None, [])
