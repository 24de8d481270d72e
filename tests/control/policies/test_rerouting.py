"""Bypass by ratio in real time: who counts as slow, what its tasks still get, and how it gets its share back."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from control.worlds import SETUP, observed, world
from foretide.control.actions.registry import Quarantine, SetReplicas, SetSplit
from foretide.control.guards import GuardSettings
from foretide.control.policies.bypass import Bypass, BypassSettings
from foretide.control.policies.splits import scale
from foretide.control.policies.worker_records import WorkerRecord
from foretide.control.policies.worker_shares import compare_tasks, split_without, waiting_for_cores
from foretide.control.step import Control, step
from foretide.control.world.setup import OperatorSetup, Target, shares
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts, Request
from foretide.metrics.from_batch import SLOWNESS
from foretide.metrics.snapshot import Snapshot

POOL = 8
PLACES = tuple(str(task % 4) for task in range(POOL))
LIVE = replace(
    SETUP,
    mode="pipeline",
    operators=(OperatorSetup("read", 2, spout=True), OperatorSetup("parse", POOL, edge="parse")),
    flows=(("read", "parse"),),
    cores_per_executor=8,
)
EVEN = (1.0,) * 4 + (0.0,) * 4


def seen(at=1000.0, weights=EVEN, slow=1.0, rows=200, worker="1", **more):
    """A second in which the tuples of one worker's tasks took `slow` times as long."""
    total = sum(weights)
    got = [round(rows * 4 * weight / total) for weight in weights]
    busy = [2.0 * count * (slow if PLACES[task] == worker else 1.0) for task, count in enumerate(got)]
    tasks = {
        "task_rows": {f"parse/{task}": count for task, count in enumerate(got)},
        "task_busy_ms": {f"parse/{task}": took for task, took in enumerate(busy)},
        "utilization": {"parse": 0.4},
    }
    route = observed(routes={"parse": weights}, placements={"parse": PLACES})
    return world(at, seen=more.pop("seen", route), setup=LIVE, **{**tasks, **more})


def drive(turns, policy=None, start=1000.0, **more):
    """Each turn says how slow worker 1 is; splits are in force at once. What was decided in each."""
    policy = policy or Bypass()
    state, weights, wished = policy.start(), EVEN, []
    for turn, slow in enumerate(turns):
        state, wishes = policy.wish(state, seen(start + turn, weights, slow, **more))
        for wish in wishes:
            if isinstance(wish.action, SetSplit):
                weights = wish.action.weights
        wished.append([wish.action for wish in wishes])
    return wished


def test_tasks_of_an_edge_are_compared_whatever_they_do():
    found = compare_tasks(seen(slow=5.0), since={})
    assert found["1"].ratio == pytest.approx((10 + 0.05) / (2 + 0.05))
    assert found["0"].ratio == pytest.approx(1.0)
    assert "take 10 ms, the same on its peers 2" in found["1"].description


def test_few_tuples_and_old_ones_say_nothing():
    assert compare_tasks(seen(rows=4), since={}) == {}
    late = replace(seen(), snapshot=Snapshot(1005.0, "q", seen().snapshot.figures))
    assert compare_tasks(late, since={}) == {}
    assert "1" not in compare_tasks(seen(), since={"1": 1000.0})


def test_the_second_report_in_a_row_moves_the_share_and_one_alone_does_not():
    assert drive([5.0, 1.0, 5.0, 1.0]) == [[], [], [], []]
    first, second, third = drive([5.0, 5.0, 5.0])
    assert (first, third) == ([], [])
    (split,) = second
    assert shares(split.weights)[1] <= 0.005
    assert split.weights[4] == 1.0  # a task of worker 0 that had nothing takes its place


def crowded(wait):
    """Metrics of workers that each have a third of a core, and wait for one."""
    return {
        "worker_cpu_wait_percent": dict.fromkeys("0123", wait),
        "worker_cpu_user_percent": dict.fromkeys("0123", 33.0),
    }


def test_where_every_worker_waits_for_cores_what_slows_one_must_last_longer():
    noise = [5.0] * 7 + [1.0] + [5.0] * 7
    assert any(drive(noise, **crowded(wait=60.0)))
    assert not any(drive(noise, **crowded(wait=600.0)))
    assert any(drive([5.0] * 8, **crowded(wait=600.0)))


def test_where_every_worker_waits_for_cores_but_one_much_longer_that_one_is_taken_for_slow_at_once():
    used = {
        "worker_cpu_user_percent": dict.fromkeys("0123", 33.0),
        "worker_cpu_system_percent": dict.fromkeys("0123", 0.0),
    }
    alone = {"worker_cpu_wait_percent": {"0": 600.0, "1": 3_000.0, "2": 600.0, "3": 600.0}}
    assert any(drive([5.0, 5.0], **alone, **used))
    alike = {"worker_cpu_wait_percent": {"0": 2_800.0, "1": 3_000.0, "2": 2_600.0, "3": 2_900.0}}
    assert not any(drive([5.0] * 7, **alike, **used))


def test_a_slow_worker_keeps_what_it_can_do():
    (split,) = drive([2.0, 2.0])[-1]
    ratio = (4 + 0.05) / (2 + 0.05)
    assert split.weights == pytest.approx((1.0, 1 / ratio, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0))


def test_a_bad_worker_keeps_what_it_can_do_if_the_others_cannot_carry_it():
    busy = {"utilization": {"parse": 2.9}}
    state, _ = Bypass().wish({}, seen(slow=5.0, **busy))
    _, (wish,) = Bypass().wish(state, seen(1001.0, slow=5.0, **busy))
    ratio = (10 + 0.05) / (2 + 0.05)
    assert wish.action.weights == pytest.approx((1.0, 1 / ratio, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0))


def test_the_time_that_a_bad_worker_wastes_is_no_work_that_others_have_to_carry():
    busy = {"utilization": {"parse": 2.0}}  # most of it on the bad worker
    state, _ = Bypass().wish({}, seen(slow=5.0, **busy))
    _, (wish,) = Bypass().wish(state, seen(1001.0, slow=5.0, **busy))
    assert 0 < shares(wish.action.weights)[1] < 0.01


def test_others_that_are_busy_but_can_still_do_it_keep_the_stream_from_a_bad_worker():
    """At 85 % without the slow worker, a share for it would make the slowest tuples slower, not faster."""
    busy = {"utilization": {"parse": 0.85 * 6 / 4 / 0.5}}
    state, _ = Bypass().wish({}, seen(slow=5.0, **busy))
    _, (wish,) = Bypass().wish(state, seen(1001.0, slow=5.0, **busy))
    assert 0 < shares(wish.action.weights)[1] < 0.01


THREE = (1.0, 1.0, 1.0)
NEARLY_OUT = (1.0, 0.01, 1.0)


def surge(weights, busy, slow=4.5, at=1000.0, **more):
    """A second of a stream over three workers, a task each; worker 1 is slow, the others are `busy`."""
    got = [round(1000 * share) for share in shares(weights)]
    tasks = {
        "task_rows": {f"parse/{task}": count for task, count in enumerate(got)},
        "task_busy_ms": {f"parse/{task}": count * (slow if task == 1 else 1.0) for task, count in enumerate(got)},
        "utilization": {"parse": busy},
    }
    workers = {"0": "h0", "1": "h0", "2": "h1"}
    route = observed(routes={"parse": weights}, placements={"parse": ("0", "1", "2")}, executors=workers)
    setup = replace(LIVE, operators=(LIVE.operators[0], OperatorSetup("parse", 3, edge="parse")))
    return world(at, seen=route, setup=setup, **tasks, **more)


def known_slow(ratio=4.5):
    return {"1": WorkerRecord("rerouted", 990.0, shares={"parse": THREE}, rerouted=990.0, ratio=ratio)}


@pytest.mark.parametrize("busy", [0.5, 0.82, 0.9])
def test_a_surge_that_the_others_can_take_gives_a_slow_worker_nothing_back(busy):
    assert Bypass().wish(known_slow(), surge(NEARLY_OUT, busy))[1] == []


def test_an_overload_gives_a_slow_worker_what_it_can_do_as_queues_grow_without_it():
    _, (wish,) = Bypass().wish(known_slow(), surge(NEARLY_OUT, 1.05))
    assert shares(wish.action.weights) == pytest.approx((0.45, 0.1, 0.45), abs=0.001)


def test_a_slow_worker_that_can_do_next_to_nothing_stays_out_of_an_almost_overloaded_stream():
    gets = [len(Bypass().wish(known_slow(ratio), surge(NEARLY_OUT, 0.98, slow=ratio))[1]) for ratio in (4.5, 40.0)]
    assert gets == [1, 0]


def test_a_share_is_taken_away_as_soon_as_the_others_can_do_without_it():
    with_share = (1.0, 1 / 4.5, 1.0)
    taken = {}
    for load in (0.85, 0.96):  # of two tasks, which is nine tenths of it for three that share it
        _, wishes = Bypass().wish(known_slow(), surge(with_share, 0.9 * load))
        taken[load] = [shares(wish.action.weights)[1] < 0.01 for wish in wishes]
    assert taken == {0.85: [True], 0.96: []}


def test_a_worker_that_is_about_to_be_taken_out_gets_nothing_back_until_it_is():
    """Its own quarantine uses up the room for workers with next to nothing; it is not in service any longer."""
    leaving = (Request(Quarantine("1"), 30, 999.0),)
    assert Bypass().wish(known_slow(), surge(NEARLY_OUT, 0.5, requested=leaving))[1] == []


def test_a_forecast_alone_leaves_it_more_than_next_to_nothing():
    looks = Forecasts(
        {
            (SLOWNESS, worker): Forecast("net", (ForecastPoint(15.0, 9.0 if worker == "1" else 1.0),))
            for worker in "0123"
        }
    )
    usual = {SLOWNESS: dict.fromkeys("0123", 1.0), "forecasts": looks}
    state, _ = Bypass().wish({}, seen(**usual))
    _, (wish,) = Bypass().wish(state, seen(1001.0, **usual))
    assert wish.action.weights[1] == pytest.approx(1 / 2.5, rel=0.01)


def foreseen(right, slow_from=60, ahead=15):
    """When the loop splits away from worker 1, which is slow from a second on, and what its tuples cost then.

    Each second a net says how slow each worker will be: the truth if it is `right`, else that worker 1 will be slow in
    ten of every twenty seconds.
    """
    control = Control((Bypass(BypassSettings(horizon=float(ahead))),))
    state, weights = control.start(), EVEN
    for turn in range(slow_from + 10):
        then, now = turn + ahead, 5.0 if turn >= slow_from else 1.0
        expected = 5.0 if (then >= slow_from if right else then % 20 >= 10) else 1.0
        looks = Forecasts(
            {(SLOWNESS, each): Forecast("net", (ForecastPoint(float(ahead), expected if each == "1" else 1.0),))
             for each in "0123"}
        )  # fmt: skip
        measured = {SLOWNESS: {each: now if each == "1" else 1.0 for each in "0123"}}
        state, decision = step(control, state, seen(1000.0 + turn, weights, now, forecasts=looks, **measured))
        if decision.actions:
            return turn, decision.actions[0].weights
    return None


def test_a_trusted_forecast_of_slowness_moves_the_split_before_what_is_measured_does():
    turn, weights = foreseen(right=True)
    assert turn == 60 - 15 + 1  # the second report in a row that expects it
    assert weights[1] == pytest.approx(1 / 2.5, rel=0.01)


def test_a_forecast_that_was_wrong_before_moves_nothing():
    turn, weights = foreseen(right=False)
    assert turn == 61
    assert weights[1] < 0.1


def test_a_worker_gets_its_share_back_when_its_few_tuples_say_that_it_is_healthy():
    wished = drive([5.0] * 10 + [1.0] * 10)
    assert wished[2:13] == [[]] * 11
    assert [SetSplit("parse", EVEN)] in wished[13:16]


def cpu(waits, used=10.0):
    """The percent of a core that the threads of each worker had, and waited for."""
    workers = ("0", "1", "2", "3")
    return {
        "worker_cpu_user_percent": dict.fromkeys(workers, used * 0.8),
        "worker_cpu_system_percent": dict.fromkeys(workers, used * 0.2),
        "worker_cpu_wait_percent": dict(zip(workers, waits, strict=True)),
    }


def test_the_shares_that_it_had_in_another_pool_are_not_given_back():
    rerouted = WorkerRecord("rerouted", 900.0, shares={"parse": EVEN}, rerouted=900.0, ratio=5.0)
    less = (1.0, 0.1, *EVEN[2:])
    assert [wish.action for wish in Bypass().wish({"1": rerouted}, seen(weights=less))[1]] == [SetSplit("parse", EVEN)]
    assert Bypass().wish({"1": rerouted}, seen(weights=(1.0,) * 3))[1] == []


def test_a_worker_whose_core_others_use_does_not_get_its_share_back_however_soon_few_tuples_are_done():
    assert any(drive([4] * 2 + [1] * 12, **cpu([1, 1, 1, 1]))[2:])
    assert not any(drive([4] * 2 + [1] * 12, **cpu([1, 40, 1, 1]))[2:])


def test_a_busy_machine_makes_no_core_busier_than_the_others():
    assert waiting_for_cores(seen(**cpu([40, 42, 38, 40]))) == pytest.approx(dict.fromkeys("0123", 1.0), abs=0.1)
    assert waiting_for_cores(seen(**cpu([0, 40, 0, 0])))["1"] == pytest.approx(51 / 11)
    assert waiting_for_cores(seen()) == {}


def test_each_relapse_doubles_the_time_for_which_it_must_be_healthy():
    cycle = [5.0] * 5 + [1.0] * 30
    wished = drive(cycle * 3)
    back = [turn % 35 - 4 for turn, actions in enumerate(wished) if actions == [SetSplit("parse", EVEN)]]
    assert back == [5, 10, 20]


def test_the_split_of_somebody_else_is_corrected_at_once():
    state = {}
    for turn in range(2):
        state, wishes = Bypass().wish(state, seen(1000.0 + turn, slow=5.0))
    assert wishes
    even = (1.0,) * 6 + (0.0,) * 2  # tasks 1 and 5 are on worker 1
    _, (wish,) = Bypass().wish(state, seen(1002.0, even, slow=5.0))
    assert [weight > 0.5 for weight in wish.action.weights] == [True, False, True, True, True, False, True, True]


def test_tasks_whose_worker_is_not_known_stand_in_last():
    places = ("0", "1", "2", "3", None, None, "2", None)
    route = observed(routes={"parse": EVEN}, placements={"parse": places})
    lost = split_without(seen(seen=route), "parse", {"1": 0.0, "3": 0.0}, 0.004, EVEN)
    assert lost == pytest.approx((1.0, 0.008, 1.0, 0.008, 1.0, 0.0, 1.0, 0.0))


def test_it_waits_for_no_cooldown():
    control = Control((Bypass(),), GuardSettings(cooldown=600.0, down_window=600.0))
    state = control.start()
    weights, chosen = EVEN, []
    for turn, slow in enumerate([2.0, 2.0, 5.0, 5.0]):
        state, decision = step(control, state, seen(1000.0 + turn, weights, slow))
        chosen.append(decision.actions)
        weights = decision.actions[0].weights if decision.actions else weights
    assert [len(actions) for actions in chosen] == [0, 1, 1, 0]


def quarantined(target, turns=14, **more):
    policy, state, wished = Bypass(BypassSettings(quarantine_after=10.0)), {}, []
    for turn in range(turns):
        state, wishes = policy.wish(state, seen(1000.0 + turn, slow=5.0, target=target, **more))
        wished += [wish.action for wish in wishes if isinstance(wish.action, Quarantine)]
    return wished


def test_quarantine_follows_only_if_the_target_is_still_missed():
    goal = Target(latency=0.1)
    assert Quarantine("1") in quarantined(goal, latency_p99_ms=200.0)
    assert quarantined(goal, turns=10, latency_p99_ms=200.0) == []
    assert quarantined(goal, latency_p99_ms=50.0) == []


def test_without_a_target_quarantine_follows_if_all_its_tasks_together_are_slow():
    assert quarantined(Target()) == []
    usual = {SLOWNESS: {"0": 1.0, "1": 3.0, "2": 1.0, "3": 1.0}}
    assert Quarantine("1") in quarantined(Target(), **usual)


def test_no_worker_is_slow_compared_with_those_that_get_next_to_nothing():
    policy = Bypass()
    slow = {worker: WorkerRecord("rerouted", 1000.0, ratio=5.0, rerouted=1000.0) for worker in ("0", "2", "3")}
    state = {**slow, "1": WorkerRecord("watched", 1000.0, strikes=1)}
    state, _ = policy.wish(state, seen(1001.0, slow=5.0))
    assert (state["1"].phase, state["1"].strikes) == ("watched", 1)


@pytest.mark.parametrize("few", [replace(LIVE, cores_per_executor=3), replace(LIVE, slots=25)])
def test_no_worker_goes_whose_slots_are_needed(few):
    view = replace(seen(slow=5.0, target=Target(latency=0.1), latency_p99_ms=900.0), setup=few)
    state = {}
    for turn in range(14):
        at = replace(view, snapshot=Snapshot(1000.0 + turn, "q", figures_at(view, 1000.0 + turn)))
        state, wishes = Bypass().wish(state, at)
        assert not any(isinstance(wish.action, Quarantine) for wish in wishes)


def figures_at(view, at):
    return {key: (value, at) for key, (value, _) in view.snapshot.figures.items()}


@given(
    st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=POOL, max_size=POOL),
    st.dictionaries(st.sampled_from("0123"), st.sampled_from([0.0, 0.2, 0.5]), min_size=1, max_size=3),
    st.floats(0.001, 0.05),
)
def test_a_split_keeps_tuples_from_slow_workers_and_the_number_of_tasks_where_it_can(weights, factors, probe):
    assume(any(weights))
    route = observed(routes={"parse": tuple(weights)}, placements={"parse": PLACES})
    new = split_without(seen(seen=route), "parse", factors, probe, tuple(weights))
    if new is None:
        return
    assert min(new) >= 0
    idle = [PLACES[task] for task, weight in enumerate(new) if weight > 0 and weights[task] == 0]
    assert not set(idle) & set(factors)  # nothing new is given to a slow worker
    bypassed = [share for task, share in enumerate(shares(new)) if factors.get(PLACES[task]) == 0]
    assert sum(bypassed) <= probe + 1e-9
    free = sum(1 for task, weight in enumerate(weights) if weight == 0 and PLACES[task] not in factors)
    lost = sum(1 for task, weight in enumerate(weights) if weight > 0 and factors.get(PLACES[task]) == 0)
    full = sum(1 for task, weight in enumerate(new) if weight > 0 and factors.get(PLACES[task], 1.0) > 0)
    assert full == sum(weight > 0 for weight in weights) - lost + min(lost, free)


def test_replicas_are_added_beside_a_bypassed_task_and_none_is_given_back():
    weights = (1.0, 0.01, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    view = seen(weights=weights)
    assert view.replicas("parse") == 4
    assert scale(view, "parse", 5) == SetSplit("parse", (1.0, 0.01, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0))
    assert scale(view, "parse", 4) is None
    assert scale(view, "parse", 2) is None
    assert scale(seen(), "parse", 2) == SetReplicas("parse", 2)


def test_where_placements_are_not_known_a_worker_is_taken_out_as_in_micro_batches():
    times = {"worker_tuple_execution_time_ms": {"0": 1, "1": 4, "2": 0.9, "3": 1}}
    _, wishes = Bypass().wish({}, world(setup=LIVE, **times))
    assert [wish.action for wish in wishes] == [Quarantine("1")]
