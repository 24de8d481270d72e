"""Actions as values: what they act on, whether they are in force, and the way back."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.worlds import WORKERS, even, observed
from foretide.control.actions.registry import (
    ACTIONS,
    Action,
    Quarantine,
    QuarantineHost,
    Release,
    ReleaseHost,
    Restart,
    SetAdmission,
    SetExecutors,
    SetReplicas,
    SetSplit,
)
from foretide.control.decisions.decision import Wish
from foretide.control.step import arbitrate
from foretide.control.world.setup import Observed
from foretide.errors import ActionError
from foretide.routing.ring import apportion


def test_every_kind_of_action_has_a_name_of_its_own_and_says_what_it_costs():
    assert len(ACTIONS) == len(get_args(Action))
    assert all(action.cost.words for action in ACTIONS.values())


@given(st.lists(st.floats(0, 10), min_size=1, max_size=12).filter(lambda weights: sum(weights) > 0.1))
def test_a_split_is_in_force_once_the_ring_has_its_slots(weights):
    weights = [weight if weight > 0.01 else 0.0 for weight in weights]
    ring = apportion(weights, 1024)
    assert SetSplit("parse", tuple(weights)).in_force(Observed(routes={"parse": tuple(map(float, ring))}))


def test_a_different_split_is_not_in_force():
    assert not SetSplit("parse", (2, 1)).in_force(Observed(routes={"parse": (512, 512)}))
    assert not SetSplit("parse", (2, 1)).in_force(Observed())
    assert not SetSplit("parse", (2, 1)).in_force(Observed(routes={"parse": (2, 1, 0)}))


def test_replicas_are_in_force_when_just_the_first_tasks_get_tuples():
    assert SetReplicas("parse", 4).in_force(observed(parse=4))
    assert not SetReplicas("parse", 3).in_force(observed(parse=4))
    assert not SetReplicas("parse", 2).in_force(Observed(routes={"parse": (1, 0, 1)}))
    assert SetReplicas("parse", 2).in_force(Observed(routes={"parse": (3, 1, 0)}))


def test_the_way_back_is_what_is_in_force_now():
    now = observed(parse=4, admission={"read": 500})
    assert SetReplicas("parse", 8).undo(now) == SetReplicas("parse", 4)
    assert SetReplicas("parse", 8).undo(Observed(routes={"parse": (0, 1)})) == SetSplit("parse", (0, 1))
    assert SetSplit("parse", even(2)).undo(now) == SetSplit("parse", even(4))
    assert SetExecutors(2).undo(now) == SetExecutors(4)
    assert SetAdmission("read", 900).undo(now) == SetAdmission("read", 500)
    assert Quarantine("1").undo(now) == Release("1")
    assert Release("1").undo(observed(quarantined=frozenset("1"))) == Quarantine("1")
    assert QuarantineHost("h0").undo(now) == ReleaseHost("h0")
    assert Restart("new pools", pools={"parse": 32}).undo(now) is None


def test_a_host_is_out_when_all_its_workers_are():
    half, whole = observed(quarantined=frozenset("0")), observed(quarantined=frozenset("01"))
    assert not QuarantineHost("h0").in_force(half)
    assert QuarantineHost("h0").in_force(whole)
    assert not ReleaseHost("h0").in_force(half)
    assert ReleaseHost("h1").in_force(whole)


def test_a_worker_that_is_gone_needs_no_quarantine():
    assert Quarantine("9").in_force(observed())


def test_a_restart_is_in_force_once_everything_it_was_for_is_so():
    restart = Restart("too few", state_partitions=8, pools={"parse": 32}, order="b")
    assert not restart.in_force(Observed(state_partitions=8, pools={"parse": 32}))
    assert not restart.in_force(Observed(state_partitions=8, pools={"parse": 32}, restart_order="a"))
    assert not restart.in_force(Observed(state_partitions=8, pools={"parse": 4}, restart_order="b"))
    assert restart.in_force(Observed(state_partitions=8, pools={"parse": 32}, restart_order="b"))
    assert "8 state partitions and a pool of 32 behind 'parse'" in restart.describe()


def test_a_restart_for_a_limit_is_in_force_once_a_batch_had_it():
    restart = Restart("fewer", admission={"read": 50, "other": None})
    assert not restart.in_force(Observed(admission={"read": 100}))
    assert restart.in_force(Observed(admission={"read": 50}))
    assert "with 50 rows a batch of 'read' and no limit of 'other': fewer" in restart.describe()


@pytest.mark.parametrize(
    "make",
    [
        lambda: SetSplit("parse", ()),
        lambda: SetSplit("parse", (0.0, 0.0)),
        lambda: SetSplit("parse", (1.0, -1.0)),
        lambda: SetReplicas("parse", 0),
        lambda: SetExecutors(0),
        lambda: SetAdmission("read", 0),
        lambda: Restart("for nothing"),
        lambda: Restart("no tasks", pools={"parse": 0}),
        lambda: Restart("no rows", admission={"read": 0}),
    ],
)
def test_an_action_that_makes_no_sense_cannot_be_made(make):
    with pytest.raises(ActionError):
        make()


def test_amounts_can_be_read_and_changed():
    now = observed(parse=4)
    assert SetReplicas("parse", 9).amount_now(now) == 4
    assert SetAdmission("read", 9).amount_now(now) == float("inf")
    assert SetExecutors(3).with_amount(5.0) == SetExecutors(5)
    assert SetAdmission("read", 3).with_amount(float("inf")) == SetAdmission("read", None)
    assert Quarantine("1").with_amount(5.0) == Quarantine("1")
    assert SetReplicas("parse", 3).frees_capacity(now)
    assert not SetReplicas("parse", 5).frees_capacity(now)
    assert not SetAdmission("read", 1).frees_capacity(now)


def test_the_first_wish_for_a_target_wins_and_the_loser_is_named():
    first, second = Wish("processors", SetReplicas("parse", 3), ""), Wish("bypass", SetSplit("parse", (1, 0)), "")
    elsewhere = Wish("bypass", Quarantine("1"), "")
    standing, contests = arbitrate([first, second, elsewhere], observed())
    assert standing == [first, elsewhere]
    assert [(each.winner, each.loser, each.over) for each in contests] == [("processors", second, "edge parse")]


def agree(*actions):
    standing, _ = arbitrate([Wish("p", action, "") for action in actions], observed())
    return len(standing) == len(actions)


def test_a_restart_goes_alone_and_a_host_includes_its_workers():
    assert WORKERS["1"] == "h0"
    assert not agree(Restart("x", state_partitions=2), Quarantine("1"))
    assert not agree(SetExecutors(2), Restart("x", state_partitions=2))
    assert not agree(QuarantineHost("h0"), Release("1"))
    assert not agree(Release("1"), QuarantineHost("h0"))
    assert agree(QuarantineHost("h0"), Quarantine("2"))
    assert agree(Quarantine("0"), Quarantine("1"), SetReplicas("parse", 2), SetExecutors(3))


def test_who_wishes_for_the_same_has_not_lost():
    both = [Wish("a", Quarantine("1"), ""), Wish("b", Quarantine("1"), "")]
    assert arbitrate(both, observed()) == (both[:1], [])
