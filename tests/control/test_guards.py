"""Each guard by itself, and all of them in a row."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.worlds import SETUP, observed, world
from foretide.control import guards
from foretide.control.actions.registry import (
    Quarantine,
    QuarantineHost,
    Release,
    SetAdmission,
    SetExecutors,
    SetReplicas,
    SetSplit,
)
from foretide.control.decisions.decision import Wish
from foretide.control.guards import ORDERS, ROLLBACK, DailyWindow, GuardSettings, guard
from foretide.control.memory import BlockedAction, ControlMemory, DecidedAction, WantedAmount
from foretide.control.world.world import Request
from foretide.errors import SettingsError

SETTINGS = GuardSettings()
LONG_AGO = ControlMemory(started=0.0)


def wish(action, policy="p"):
    return Wish(policy, action, "because")


def done(action, at, *, batch=None):
    return DecidedAction(action, at, None if batch is None else at, batch)


def kept(settings, action, memory=LONG_AGO, policy="p", at=10_000.0, **more):
    left, marks = guard(settings, [wish(action, policy)], memory, world(at, **more))
    return (left[0].action if left else None), [mark.guard for mark in marks]


def test_bounds_clamp_to_the_pool_the_cluster_and_the_settings():
    assert kept(SETTINGS, SetReplicas("parse", 99), seen=observed(parse=12))[0] == SetReplicas("parse", 16)
    tight = GuardSettings(min_replicas=2, max_replicas=6)
    assert kept(tight, SetReplicas("parse", 16)) == (SetReplicas("parse", 6), ["bounds"])
    assert kept(tight, SetReplicas("parse", 1))[0] == SetReplicas("parse", 2)
    assert kept(SETTINGS, SetExecutors(20)) == (SetExecutors(8), ["bounds"])
    assert kept(GuardSettings(min_rows=10), SetAdmission("read", 2)) == (SetAdmission("read", 10), ["bounds"])


def test_what_cannot_be_steered_is_stopped():
    assert kept(SETTINGS, SetReplicas("elsewhere", 3))[0] is None
    fixed = replace(SETUP, executors=None)
    assert kept(SETTINGS, SetExecutors(3), setup=fixed) == (None, ["bounds"])


def test_a_wish_that_its_bounds_turn_into_what_is_in_force_is_stopped():
    assert kept(GuardSettings(max_replicas=4), SetReplicas("parse", 9)) == (None, ["bounds"])


def test_cooldown_is_per_target_and_longer_before_giving_back():
    memory = ControlMemory(0.0, (done(SetReplicas("parse", 4), 9_970.0),))
    assert kept(SETTINGS, SetReplicas("parse", 8), memory)[0] == SetReplicas("parse", 8)
    assert kept(SETTINGS, SetReplicas("parse", 3), memory) == (None, ["cooldown"])
    assert kept(SETTINGS, SetReplicas("count", 3), memory)[0] == SetReplicas("count", 3)
    assert kept(SETTINGS, SetReplicas("parse", 8), memory, at=9_975.0) == (None, ["cooldown"])


def test_taking_out_a_worker_waits_for_no_cooldown_but_letting_it_in_does():
    memory = ControlMemory(0.0, (done(Release("1"), 9_999.0, batch=9_999),))
    assert kept(SETTINGS, Quarantine("1"), memory, batch=9_999)[0] == Quarantine("1")
    memory = ControlMemory(0.0, (done(Quarantine("1"), 9_999.0),))
    out = observed(quarantined=frozenset("1"))
    assert kept(SETTINGS, Release("1"), memory, seen=out) == (None, ["cooldown"])


def test_nothing_follows_a_change_that_is_not_observed_yet():
    pending = (Request(SetReplicas("parse", 6), 3, 9_000.0),)
    assert kept(SETTINGS, SetReplicas("parse", 8), requested=pending) == (None, ["unobserved"])
    assert kept(SETTINGS, SetReplicas("parse", 8), policy=ORDERS, requested=pending)[0] == SetReplicas("parse", 8)


def test_a_change_settles_for_some_batches():
    settings = GuardSettings(settle_batches=3, cooldown=0)
    memory = ControlMemory(0.0, (done(SetReplicas("parse", 4), 9_000.0, batch=50),))
    assert kept(settings, SetReplicas("parse", 8), memory, batch=52) == (None, ["settling"])
    assert kept(settings, SetReplicas("parse", 8), memory, batch=53)[0] == SetReplicas("parse", 8)


def test_the_last_workers_stay_whoever_wishes_what():
    wishes = [wish(QuarantineHost("h0")), wish(Quarantine("2")), wish(Quarantine("3"), ORDERS)]
    left, marks = guard(SETTINGS, wishes, LONG_AGO, world(10_000.0))
    assert [each.action for each in left] == [QuarantineHost("h0"), Quarantine("2")]
    assert [mark.guard for mark in marks] == ["last workers"]
    pending = (Request(QuarantineHost("h1"), 3, 9_999.0),)
    assert kept(SETTINGS, QuarantineHost("h0"), requested=pending) == (None, ["last workers"])
    assert kept(GuardSettings(min_workers=4), Quarantine("0")) == (None, ["last workers"])


def test_only_what_nobody_wanted_for_a_while_is_given_back():
    wanted = (WantedAmount("edge parse", 9_950.0, 3.0), WantedAmount("edge parse", 9_800.0, 16.0))
    short = GuardSettings(down_window=120)
    memory = ControlMemory(0.0, (), wanted)
    assert kept(short, SetReplicas("parse", 2), memory) == (SetReplicas("parse", 3), ["hysteresis"])
    memory = ControlMemory(0.0, (), (WantedAmount("edge parse", 9_950.0, 4.0),))
    assert kept(short, SetReplicas("parse", 2), memory) == (None, ["hysteresis"])


def test_nothing_is_given_back_before_the_loop_has_watched_for_a_while():
    assert kept(SETTINGS, SetReplicas("parse", 2), ControlMemory(started=9_990.0)) == (None, ["hysteresis"])


def test_steps_are_limited_both_ways():
    gentle = GuardSettings(max_increase=1.5, max_decrease=0.25)
    assert kept(gentle, SetReplicas("parse", 16)) == (SetReplicas("parse", 6), ["largest step"])
    assert kept(gentle, SetReplicas("parse", 1)) == (SetReplicas("parse", 3), ["largest step"])
    limited = observed(admission={"read": 1000})
    assert kept(gentle, SetAdmission("read", 100), seen=limited)[0] == SetAdmission("read", 750)
    assert kept(gentle, SetAdmission("read", None), seen=limited)[0] == SetAdmission("read", None)


def test_changes_that_are_hardly_any_are_left_out():
    many = observed(parse=16)
    assert kept(GuardSettings(deadband=0.1), SetReplicas("parse", 15), seen=many) == (None, ["deadband"])
    assert kept(GuardSettings(deadband=0.1), SetReplicas("parse", 14), seen=many)[0] == SetReplicas("parse", 14)
    even_pair = replace(observed(), routes={"parse": (512.0, 512.0)})
    assert kept(SETTINGS, SetSplit("parse", (1.05, 1.0)), seen=even_pair) == (None, ["deadband"])
    assert kept(SETTINGS, SetSplit("parse", (2, 1)), seen=even_pair)[0] == SetSplit("parse", (2, 1))


def test_the_quota_counts_what_the_same_decision_has_taken():
    settings = GuardSettings(quota=2)
    wishes = [wish(SetReplicas("parse", 8)), wish(SetReplicas("count", 8)), wish(SetExecutors(5))]
    left, marks = guard(settings, wishes, LONG_AGO, world(10_000.0))
    assert [each.action for each in left] == [SetReplicas("parse", 8), SetReplicas("count", 8)]
    assert [mark.guard for mark in marks] == ["quota"]
    old = ControlMemory(0.0, (done(SetExecutors(5), 10_000.0 - 3600), done(SetExecutors(4), 9_999.0)))
    assert kept(settings, SetReplicas("parse", 8), old)[0] == SetReplicas("parse", 8)


def test_excluded_periods_hold_everything_but_orders_and_rollbacks():
    settings = GuardSettings(excluded=(DailyWindow(82_800, 3_600),))
    assert kept(settings, SetReplicas("parse", 8), at=86_400.0 * 3 + 10) == (None, ["excluded"])
    assert kept(settings, Quarantine("1"), at=86_400.0 * 3 - 10) == (None, ["excluded"])
    assert kept(settings, SetReplicas("parse", 8), policy=ORDERS, at=86_400.0)[0] == SetReplicas("parse", 8)
    assert kept(settings, SetReplicas("parse", 8), policy=ROLLBACK, at=86_400.0)[0] == SetReplicas("parse", 8)
    assert kept(settings, SetReplicas("parse", 8), at=86_400.0 + 3_600)[0] == SetReplicas("parse", 8)


def test_what_made_things_worse_is_blocked_and_so_is_going_further():
    memory = ControlMemory(0.0, blocked=(BlockedAction(SetReplicas("parse", 3), freed_capacity=True, until=10_100.0),))
    assert kept(SETTINGS, SetReplicas("parse", 3), memory) == (None, ["blocked"])
    assert kept(SETTINGS, SetReplicas("parse", 2), memory) == (None, ["blocked"])
    assert kept(SETTINGS, SetReplicas("parse", 8), memory)[0] == SetReplicas("parse", 8)
    memory = ControlMemory(0.0, blocked=(BlockedAction(Quarantine("1"), freed_capacity=False, until=10_100.0),))
    assert kept(SETTINGS, Quarantine("1"), memory)[0] is None
    assert kept(SETTINGS, Quarantine("2"), memory)[0] == Quarantine("2")


@pytest.mark.parametrize(
    "bad",
    [
        *({"min_replicas": 0}, {"max_replicas": 0}, {"cooldown": -1}, {"max_increase": 1}, {"max_decrease": 0}),
        *(
            {"deadband": 1},
            {"quota": 0},
            {"settle_batches": -1},
            {"down_window": -1},
            {"min_rows": 0},
            {"min_workers": 0},
        ),
    ],
)
def test_settings_out_of_bounds_are_refused_by_name(bad):
    with pytest.raises(SettingsError, match=next(iter(bad))):
        GuardSettings(**bad)
    with pytest.raises(SettingsError):
        DailyWindow(-1, 5)


wanted_replicas = st.integers(1, 40)


@given(wanted_replicas, st.integers(1, 16), st.integers(1, 16), st.floats(1.01, 9), st.floats(0.01, 1))
def test_whatever_is_wished_for_the_result_keeps_to_every_bound(wanted, now, most, up, down):
    settings = GuardSettings(max_replicas=most, max_increase=up, max_decrease=down, deadband=0)
    action, _ = kept(settings, SetReplicas("parse", wanted), seen=observed(parse=now))
    if action is None or wanted == now:  # what is in force never comes before the guards
        return
    assert 1 <= action.replicas <= 16
    assert action.replicas <= max(math.ceil(now * up), 1)
    assert action.replicas >= math.ceil(now * (1 - down))
    assert action.replicas <= most or action.replicas < now
    assert action.replicas != now


def test_guards_are_named_in_words():
    assert [guards._name(each) for each in guards.GUARDS][:3] == ["held by a person", "blocked", "excluded"]


def test_a_split_of_a_pool_that_is_no_longer_there_is_stopped_even_when_it_takes_a_decision_back():
    three = replace(observed(), routes={"parse": (342.0, 341.0, 341.0)})
    assert kept(SETTINGS, SetSplit("parse", (1.0, 3.0)), seen=three, policy=ROLLBACK) == (None, ["bounds"])
    fitting = SetSplit("parse", (1.0, 3.0, 1.0))
    assert kept(SETTINGS, fitting, seen=three, policy=ROLLBACK) == (fitting, [])


def test_what_a_person_holds_is_left_alone_and_the_guard_names_who():
    held = {"edge parse": "split 3:1, set by ada@here"}
    left, (mark,) = guard(
        SETTINGS, [wish(SetReplicas("parse", 8)), wish(SetReplicas("count", 8))], LONG_AGO, world(10_000.0, held=held)
    )
    assert [each.action for each in left] == [SetReplicas("count", 8)]
    assert (mark.guard, mark.reason) == ("held by a person", "split 3:1, set by ada@here")
    assert kept(SETTINGS, SetReplicas("parse", 8), policy=ROLLBACK, held=held) == (None, ["held by a person"])
    assert kept(SETTINGS, SetReplicas("parse", 8), policy=ORDERS, held=held)[0] == SetReplicas("parse", 8)
