"""The policy that plans joins: what it wishes for, and when it wishes for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foretide.control.actions.registry import SetExecutors, SetJoinPlan
from foretide.control.decisions.decision import Decision, Wish, from_json, to_json
from foretide.control.policies.hot_keys import HotKeys, HotKeySettings
from foretide.control.world.setup import Observed, OperatorSetup, Setup
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts, World
from foretide.errors import CodecError, SettingsError
from foretide.joins.placement.salts import tail_partition
from foretide.joins.plan import NO_PLAN, JoinCost, JoinerFigures, JoinPlan, JoinView, KeyGrid, KeyLoad, TailLoad
from foretide.joins.settings import JoinSettings, ScalingSettings
from foretide.metrics.snapshot import Snapshot

HOT = (KeyLoad(13, 1000.0, 1000.0), KeyLoad(14, 10.0, 10.0))
EVEN = tuple(KeyLoad(key, 10.0, 10.0) for key in range(40))
TAIL = (TailLoad(250.0, 250.0),) * 4


def a_view(**changes):
    return JoinView(**({"name": "clicks", "partitions": 4, "windows": 1, "keys": HOT, "tail": TAIL} | changes))


def a_world(view=None, **changes):
    joins = {} if view is None else {view.name: view}
    return World(Setup("q", **changes), Snapshot(0.0, "q"), Observed(executors={"0": "h"}), joins=joins)


def wishes(view, settings=None):
    policy = HotKeys(settings or HotKeySettings())
    return policy.wish(policy.start(), a_world(view))[1]


def test_a_hot_key_is_split_and_the_reason_says_what_it_brings():
    (wish,) = wishes(a_view())
    assert isinstance(wish.action, SetJoinPlan)
    assert len(set(wish.action.plan.grids[13].cells)) > 1
    assert "for the keys of the last window LI would be" in wish.reason
    assert "split: 13 into" in wish.reason
    assert "LI of join 'clicks' at" in wish.expected.words


def test_what_is_foreseen_goes_before_what_was_seen_unless_the_settings_say_otherwise():
    view = a_view(forecast=EVEN, forecast_tail=TAIL)
    assert all(13 not in wish.action.plan.grids for wish in wishes(view))
    (wish,) = wishes(view, HotKeySettings(choice="last-window"))
    assert 13 in wish.action.plan.grids


def test_a_reactive_choice_waits_until_balance_is_lost():
    settings = HotKeySettings(choice="reactive", planning=JoinSettings(reactive_above=100.0))
    assert wishes(a_view(), settings) == []
    assert wishes(a_view(), HotKeySettings(choice="reactive"))


def test_a_left_join_copies_no_left_rows():
    (wish,) = wishes(a_view(how="left"))
    assert {grid.shape[1] for grid in wish.action.plan.grids.values()} == {1}


@pytest.mark.parametrize(
    "changes",
    [{"windows": 0}, {"pending": JoinPlan({})}, {"problem": "batches are missing"}, {"keys": ()}],
)
def test_nothing_is_wished_for_without_a_new_window_or_while_a_change_is_under_way(changes):
    assert wishes(a_view(**changes)) == []


def test_a_window_is_planned_for_once():
    policy = HotKeys()
    state, first = policy.wish(policy.start(), a_world(a_view()))
    _, again = policy.wish(state, a_world(a_view()))
    assert (len(first), again) == (1, [])


def test_where_there_is_no_join_the_policy_is_silent():
    assert wishes(None, HotKeySettings(scale=True)) == []


def test_a_busy_worker_is_joined_by_another_one():
    figures = {"inbound_queuing_time_ms": 10.0, "tuple_execution_time_ms": 1.0, "inbound_tuples_per_second": 100.0}
    known = {(f"worker_{name}", "0"): (value, 0.0) for name, value in figures.items()}
    known["worker_cpu_user_percent", "0"] = (95.0, 0.0)
    world = World(
        Setup("q", executors=(1, 3)),
        Snapshot(0.0, "q", known),
        Observed(executors={"0": "h"}),
        joins={"clicks": a_view(windows=0)},
    )
    policy = HotKeys(HotKeySettings(scale=True))
    (wish,) = policy.wish(policy.start(), world)[1]
    assert wish.action == SetExecutors(2)
    assert "1 units of cores and memory more, which needs a new session" in wish.reason
    assert "one more joiner" in wish.reason
    small = HotKeys(HotKeySettings(scale=True, scaling=ScalingSettings(max_units=1.0)))
    (wish,) = small.wish(small.start(), world)[1]
    assert wish.reason == "0 is busy with all that a machine offers: one more joiner"
    silent = HotKeys()
    assert silent.wish(silent.start(), world)[1] == []


def test_a_joiner_whose_memory_is_full_of_state_is_joined_by_another_one():
    figures = {"inbound_queuing_time_ms": 10.0, "tuple_execution_time_ms": 1.0}
    known = {(f"worker_{name}", worker): (value, 0.0) for name, value in figures.items() for worker in "01"}
    known |= {
        ("worker_inbound_tuples_per_second", worker): (rate, 0.0) for worker, rate in (("0", 100.0), ("1", 100.0))
    }

    def wished(megabytes):
        world = World(
            Setup("q", executors=(1, 3)),
            Snapshot(0.0, "q", known),
            Observed(executors={"0": "h", "1": "h"}),
            joins={"clicks": a_view(windows=0, state_rows=1000, state_bytes=megabytes << 20)},
        )
        policy = HotKeys(HotKeySettings(scale=True, scaling=ScalingSettings(max_units=1.0)))
        return [wish.action for wish in policy.wish(policy.start(), world)[1]]

    assert wished(0) == [SetExecutors(1)], "nothing is held, so one executor can be spared"
    assert wished(900) == [], "450 of 1,024 megabytes each"
    assert wished(1700) == [SetExecutors(3)]


def test_a_joiner_is_judged_by_the_tasks_of_its_joins_alone():
    """All that the executors do beside the join takes equally long; the tasks of the join do not."""
    figures = {"inbound_queuing_time_ms": 10.0, "tuple_execution_time_ms": 1.0, "inbound_tuples_per_second": 100.0}
    known = {(f"worker_{name}", worker): (value, 0.0) for name, value in figures.items() for worker in "01"}

    def reasons(joiners):
        world = World(
            Setup("q", executors=(1, 3)),
            Snapshot(0.0, "q", known),
            Observed(executors={"0": "h", "1": "h"}),
            joins={"clicks": a_view(windows=0, joiners=joiners, state_rows=1000, state_bytes=900 << 20)},
        )
        policy = HotKeys(HotKeySettings(scale=True, scaling=ScalingSettings(max_units=1.0)))
        return [wish.reason for wish in policy.wish(policy.start(), world)[1]]

    assert reasons({}) == []
    assert reasons({"0": JoinerFigures(1000, 0.1, 1.0), "1": JoinerFigures(1000, 0.1, 1.0)}) == []
    assert "1 lags" in reasons({"0": JoinerFigures(500, 0.1, 1.0), "1": JoinerFigures(1500, 0.9, 1.0)})[0]


def test_the_measured_size_of_a_row_decides_how_many_fit_into_an_instance():
    settings = HotKeySettings(planning=JoinSettings(variant="paper", memory=1.0, max_keys=64), min_saving=0.0)
    together = [key for key in range(99) if tail_partition(key, 4) == 0][:2]
    keys = tuple(KeyLoad(key, 9000.0, 9000.0) for key in together)
    small = wishes(a_view(keys=keys), settings)
    large = wishes(a_view(keys=keys, state_rows=10, state_bytes=10 << 20), settings)
    assert [len(wish.action.plan.grids) for wish in (*small, *large)] == [2, 1]


def test_the_rows_of_the_next_window_follow_the_forecast_of_the_load():
    """The cost of pairs grows with the square of the load, so splitting pays once more load is forecast."""
    cost = JoinCost(task=0.5, row=1e-3, pair=1e-6, cores=4)
    view = a_view(keys=(KeyLoad(13, 100.0, 100.0),), tail=(TailLoad(50.0, 50.0),) * 4, cost=cost)
    setup = Setup("q", (OperatorSetup("read", spout=True),), cores_per_executor=4)

    def wished(expected, choice="forecast"):
        policy = HotKeys(HotKeySettings(min_saving=0.2, choice=choice))
        state = policy.start()
        for at in (0.0, 10.0, 20.0):
            figures = {("arrival_rate", "read"): (100.0, at)}
            ahead = (
                {} if expected is None else {("arrival_rate", "read"): Forecast("m", (ForecastPoint(15.0, expected),))}
            )
            joins = {"clicks": replace(view, windows=int(at == 20.0))}
            world = World(
                setup, Snapshot(at, "q", figures), Observed(executors={"0": "h"}), Forecasts(ahead), joins=joins
            )
            state, found = policy.wish(state, world)
        return found

    assert wished(None) == wished(100.0) == []
    (wish,) = wished(400.0)
    assert "and 4.00 times their rows as the load is forecast" in wish.reason
    assert wished(400.0, "last-window") == []


def test_a_plan_is_in_force_once_it_is_observed_and_can_be_undone_and_kept():
    plan = JoinPlan({-7: KeyGrid(((0, 1), (2, 3)))}, imbalance=0.5)
    action = SetJoinPlan("clicks", plan)
    before = Observed(joins={"clicks": NO_PLAN})
    assert not action.in_force(before)
    assert action.in_force(Observed(joins={"clicks": JoinPlan(plan.grids)}))
    assert action.undo(before) == SetJoinPlan("clicks", NO_PLAN)
    assert action.undo(Observed()) is None
    assert action.describe() == "place 1 key of join 'clicks': -7 as 2 x 2"
    assert SetJoinPlan("clicks", NO_PLAN).describe() == "leave all keys of join 'clicks' to the hash"
    decision = Decision(1, 0.0, "q", chosen=(Wish("hot_keys", action, "skew"),))
    assert from_json(Decision, to_json(decision)).actions == (action,)
    with pytest.raises(CodecError, match="Give rows of one length"):
        from_json(Decision, to_json(decision).replace("[0,1]", "[0]"))


def test_values_out_of_bounds_are_refused():
    for wrong in ({"min_saving": 1}, {"hot_above": -0.1}, {"choice": "guess"}):
        with pytest.raises(SettingsError, match=f"hot_keys.{next(iter(wrong))} must be"):
            HotKeySettings(**wrong)


def test_while_no_key_is_hot_nothing_is_planned_and_a_plan_in_force_is_given_up_only_once_all_is_calm():
    def view(rows, **changes):
        return a_view(keys=(KeyLoad(13, rows, rows),), tail=(TailLoad(25.0, 25.0),) * 4, **changes)

    plan = JoinPlan({13: KeyGrid(((0, 1), (2, 3)))})
    assert wishes(view(4.0)) == [], "a third more load on one partition is no hot key"
    assert wishes(view(4.0), HotKeySettings(hot_above=0.1, planning=JoinSettings(max_keys=64, min_gain=0.01))) != []
    assert wishes(view(30.0)) != []
    (wish,) = wishes(view(1.0, plan=plan))
    assert wish.action == SetJoinPlan("clicks", NO_PLAN)
    assert wish.reason == "no key is hot any more: by the hash alone LI would be 0.06"
    assert wishes(view(5.0, plan=plan)) == [], "neither hot nor calm: it stays as it is"


@pytest.mark.parametrize(("cores", "task", "is_split"), [(4, 0.0, True), (1, 0.0, False), (4, 30.0, False)])
def test_keys_are_split_only_where_that_saves_time(cores, task, is_split):
    """Not on one core, which is busy with all rows anyway, nor where tasks cost little beside what is fixed."""
    policy = HotKeys()
    view = a_view(cost=JoinCost(task, 25e-6, 1e-6))
    _, wished = policy.wish(policy.start(), a_world(view, cores_per_executor=cores))
    assert bool(wished) == is_split
    if is_split:
        assert "By what its tasks have cost, the join takes 73 % less time." in wished[0].reason
    eager = HotKeys(HotKeySettings(min_saving=0.0))
    assert eager.wish(eager.start(), a_world(view, cores_per_executor=cores))[1]


def test_tasks_that_cost_nothing_are_no_reason_to_split():
    assert wishes(a_view(cost=JoinCost(0.0, 0.0, 0.0))) == []


def test_a_plan_that_costs_more_than_it_saves_is_given_up():
    plan = JoinPlan({13: KeyGrid(((0, 1), (2, 3)))})
    policy = HotKeys()
    view = a_view(cost=JoinCost(0.0, 25e-6, 0.0), plan=plan)
    (wish,) = policy.wish(policy.start(), a_world(view))[1]
    assert wish.action == SetJoinPlan("clicks", NO_PLAN)
    assert wish.reason == "split keys cost more than they save: the join would take 50 % more time"


def test_a_plan_in_force_that_is_good_enough_stays():
    (wish,) = wishes(a_view())
    assert wishes(a_view(plan=wish.action.plan)) == []
