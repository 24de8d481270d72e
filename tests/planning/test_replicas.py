"""pa-sps eqs 2-7 on DAGs: events are conserved, backlogs counted once, counts rounded up and clamped."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import ModelError
from foretide.planning.replicas import ReplicaFlow, ReplicaInput, plan_replicas


def test_the_papers_figure_4():
    bolts = [ReplicaInput(name, et, pool=8, active=2) for name, et in (("o1", 0.02), ("o2", 0.01), ("o3", 0.04))]
    plans = plan_replicas(bolts, [], dict.fromkeys(("o1", "o2", "o3"), 100.0), interval=1.0)
    assert [plan.replicas for plan in plans.values()] == [2, 1, 4]
    assert [plan.change for plan in plans.values()] == [0, -1, 2]


def test_the_papers_figure_6():
    bolts = [
        ReplicaInput("o1", 0.01, 100),
        ReplicaInput("o2", 0.01, 70),
        ReplicaInput("o3", 0.01, 30),
        ReplicaInput("o4", 0.01, 58),
    ]
    edges = [
        ReplicaFlow("o1", "o2", 70),
        ReplicaFlow("o1", "o3", 30),
        ReplicaFlow("o2", "o4", 28),
        ReplicaFlow("o3", "o4", 30),
    ]
    plans = plan_replicas(bolts, edges, {"o1": 100.0}, 1.0)
    assert [plan.received for plan in plans.values()] == pytest.approx([100, 70, 30, 58])


def test_a_backlog_flows_on_along_the_fractions_and_is_counted_once():
    # 50 wait at o1, which sends 40 % to o2, which passes everything to o3 together with o1's other 60 %.
    bolts = [
        ReplicaInput("o1", 0.01, 100, queued=50),
        ReplicaInput("o2", 0.01, 40, queued=7),
        ReplicaInput("o3", 0.01, 100),
    ]
    edges = [ReplicaFlow("o1", "o2", 40), ReplicaFlow("o1", "o3", 60), ReplicaFlow("o2", "o3", 40)]
    plans = plan_replicas(bolts, edges, {}, 1.0)
    # By the printed eq 7 (theta_p of the whole input) o3 would get 50 * 1 + 27 * 0.4 = 60.8.
    assert [plan.backlog for plan in plans.values()] == pytest.approx([50, 27, 57])


@given(
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
    st.floats(0.0, 1e5),
    st.lists(st.floats(0.0, 1e4), min_size=5, max_size=5),
)
def test_events_are_conserved_on_a_diamond(shares, entering, queues):
    # s splits to l and r; both pass a share on to the end; nothing multiplies.
    to_left, left_on, right_on = shares
    names = ["s", "l", "r", "j", "alone"]
    bolts = [ReplicaInput(n, 0.01, 1000.0, queued=q) for n, q in zip(names, queues, strict=True)]
    edges = [
        ReplicaFlow("s", "l", 1000 * to_left),
        ReplicaFlow("s", "r", 1000 * (1 - to_left)),
        ReplicaFlow("l", "j", 1000 * left_on),
        ReplicaFlow("r", "j", 1000 * right_on),
    ]
    plans = plan_replicas(bolts, edges, {"s": entering}, 30.0)
    assert plans["l"].received + plans["r"].received == pytest.approx(entering)
    reach = to_left * left_on + (1 - to_left) * right_on
    assert plans["j"].received == pytest.approx(entering * reach, abs=1e-6)
    waiting = queues[3] + queues[1] * left_on + queues[2] * right_on + queues[0] * reach
    assert plans["j"].backlog == pytest.approx(waiting, abs=1e-6)
    assert plans["alone"].backlog == queues[4]


@given(st.floats(0.0, 1e6), st.floats(1e-6, 1.0), st.floats(0.0, 1e6), st.integers(1, 64), st.integers(1, 64))
def test_rounded_up_then_clamped(events, execution_time, queued, pool, active):
    [plan] = plan_replicas(
        [ReplicaInput("b", execution_time, 1.0, queued, pool, active)], [], {"b": events}, 30.0
    ).values()
    assert 1 <= plan.replicas <= pool
    assert plan.replicas >= min(plan.exact * (1 - 1e-6), pool)
    assert plan.replicas - 1 < max(plan.exact, 1)
    assert plan.short == (math.ceil(plan.exact * (1 - 1e-9)) > pool)
    assert plan.change == plan.replicas - active


def test_whole_replicas_are_not_rounded_up_by_rounding_errors():
    [plan] = plan_replicas([ReplicaInput("b", 0.1, pool=9)], [], {"b": 90.0 * (1 + 1e-15)}, 3.0).values()
    assert plan.replicas == 3


def test_operators_that_multiply_and_several_sources():
    bolts = [ReplicaInput("a", 0.1, 10), ReplicaInput("b", 0.1, 10), ReplicaInput("c", 0.1, 520, pool=99)]
    plans = plan_replicas(bolts, [ReplicaFlow("a", "c", 500), ReplicaFlow("b", "c", 20)], {"a": 2.0, "b": 3.0}, 1.0)
    assert plans["c"].received == pytest.approx(2 * 50 + 3 * 2)


def test_a_predecessor_that_processed_nothing_is_legal():
    bolts = [ReplicaInput("a", 0.1, processed=0.0, queued=10.0), ReplicaInput("b", 0.1, pool=9)]
    assert plan_replicas(bolts, [ReplicaFlow("a", "b")], {"a": 20.0}, 1.0)["b"].replicas == 3
    told = plan_replicas(bolts, [ReplicaFlow("a", "b", idle_fraction=0.0)], {"a": 20.0}, 1.0)
    assert (told["b"].received, told["b"].backlog, told["b"].replicas) == (0.0, 0.0, 1)


def test_every_problem_is_listed():
    bolts = [ReplicaInput("a", -1.0), ReplicaInput("a", 0.1, pool=0)]
    with pytest.raises(ModelError) as caught:
        plan_replicas(bolts, [ReplicaFlow("a", "x", -1.0)], {"y": -2.0}, 0.0)
    assert len(caught.value.problems) == 8


def test_a_loop_is_refused():
    bolts = [ReplicaInput("a", 0.1), ReplicaInput("b", 0.1)]
    with pytest.raises(ModelError, match="form a loop"):
        plan_replicas(bolts, [ReplicaFlow("a", "b"), ReplicaFlow("b", "a")], {"a": 1.0}, 1.0)
