"""The cycle as a whole: pure, deterministic, honest about failure, and able to go back."""

import copy
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.worlds import even, loaded, observed, world
from foretide.control.actions.registry import Quarantine, Release, SetExecutors, SetReplicas
from foretide.control.decisions.decision import Decision, Wish, from_json, to_json
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.decisions.explain import explain, heading
from foretide.control.guards import GuardSettings
from foretide.control.step import Control, step
from foretide.control.world.setup import Target
from foretide.errors import ControlError, SettingsError

FREE = GuardSettings(cooldown=0, cooldown_down=0, down_window=0, settle_batches=0, deadband=0, quota=10_000)


@dataclass(frozen=True)
class Wants:
    """Always wishes the same actions; counts its cycles."""

    actions: tuple = ()
    name: str = "wants"

    def start(self):
        return 0

    def wish(self, state, world):
        return state + 1, [Wish(self.name, action, "as always") for action in self.actions]


@dataclass(frozen=True)
class Breaks:
    name: str = "breaks"

    def start(self):
        return "untouched"

    def wish(self, state, world):
        raise RuntimeError("no luck")


def test_a_wish_becomes_a_request_and_is_not_repeated_until_it_is_observed():
    control = Control((Wants((SetReplicas("parse", 6),)),), FREE)
    state, first = step(control, control.start(), world(1000.0))
    assert first.actions == (SetReplicas("parse", 6),)
    assert [request.action for request in state.requested] == [SetReplicas("parse", 6)]
    state, second = step(control, state, world(1005.0))
    assert second.actions == () == second.wishes
    state, third = step(control, state, world(1010.0, seen=observed(parse=6)))
    assert third.actions == ()
    assert state.requested == ()
    assert state.memory.decided[0].observed_at == 1010.0


def test_what_is_in_force_already_is_never_proposed():
    control = Control((Wants((SetReplicas("parse", 4), SetExecutors(4))),), FREE)
    _, decision = step(control, control.start(), world())
    assert decision.idle


def test_a_request_that_is_never_observed_is_reported_and_may_be_made_again():
    control = Control((Wants((SetReplicas("parse", 6),)),), FREE, EvaluationSettings(request_timeout=30))
    state, _ = step(control, control.start(), world(1000.0))
    state, quiet = step(control, state, world(1030.0))
    assert quiet.idle
    state, again = step(control, state, world(1031.0))
    assert [effect.outcome for effect in again.effects_of_earlier] == ["never observed"]
    assert again.actions == (SetReplicas("parse", 6),)


def test_the_order_of_policies_decides_and_the_loser_is_shown():
    first, second = Wants((SetReplicas("parse", 6),), "first"), Wants((SetReplicas("parse", 9),), "second")
    _, decision = step(Control((first, second), FREE), Control((first, second)).start(), world())
    assert decision.actions == (SetReplicas("parse", 6),)
    assert [(c.winner, c.loser.policy) for c in decision.contests] == [("first", "second")]


def test_a_policy_that_wants_what_is_in_force_still_beats_those_after_it():
    first, second = Wants((SetReplicas("parse", 4),), "first"), Wants((SetReplicas("parse", 9),), "second")
    control = Control((first, second), FREE)
    _, decision = step(control, control.start(), world())
    assert decision.actions == ()
    assert decision.contests[0].winner == "first"


def test_orders_go_before_every_policy():
    control = Control((Wants((SetReplicas("parse", 9),)),), FREE)
    _, decision = step(control, control.start(), world(orders=(SetReplicas("parse", 2),)))
    assert decision.actions == (SetReplicas("parse", 2),)
    assert decision.chosen[0].policy == "orders"


def test_a_policy_that_raises_does_not_stop_the_others_and_shows():
    control = Control((Breaks(), Wants((Quarantine("1"),))), FREE)
    state, decision = step(control, control.start(), world())
    assert decision.actions == (Quarantine("1"),)
    assert decision.problems == ("policy 'breaks' failed: RuntimeError: no luck",)
    assert state.policies == {"breaks": "untouched", "wants": 1}


def test_advice_is_the_same_decision_and_asks_for_nothing():
    acting = Control((Wants((SetReplicas("parse", 6),)),), FREE)
    advising = replace(acting, mode="advise")
    state, advice = step(advising, advising.start(), world())
    _, decision = step(acting, acting.start(), world())
    assert advice == replace(decision, mode="advise")
    assert state.requested == ()
    assert state.evaluations.open == ()
    assert "nothing was changed" in heading(advice)


def test_two_policies_of_one_name_are_refused():
    with pytest.raises(ControlError, match="share a name"):
        Control((Wants(), Wants()))


def evaluated(
    action,
    before_ms,
    after_ms,
    *,
    seen_before,
    seen_after,
    target=None,
    load_after=1000.0,
    speed_after=1000.0,
    within_batch=False,
):
    """Act at 1000 s, in force at 1010 s; latency and speed before and after. All decisions."""
    wants = [Wish("once", action, "", within_batch=within_batch)]

    @dataclass(frozen=True)
    class Once:
        name: str = "once"

        def start(self):
            return None

        def wish(self, state, world):
            return None, wants if 1000 <= world.at < 1090 else []

    control = Control((Once(),), replace(FREE, down_window=0), EvaluationSettings(window=60))
    state, decisions = control.start(), []
    for at in range(900, 1200, 10):
        late = at > 1000
        # what is rolled back is observed at once
        rolled = any(wish.policy == "rollback" for decision in decisions for wish in decision.chosen)
        now = seen_after if late and not rolled else seen_before
        seen = loaded(
            load_after if late else 1000.0,
            at=float(at),
            seen=now,
            latency_p99_ms=after_ms(at) if late else before_ms,
            processed_rows_per_second=speed_after if late else 1000.0,
            target=target or Target(),
        )
        state, decision = step(control, state, seen)
        decisions.append(decision)
    return decisions


def chosen(decisions):
    return [(wish.policy, wish.action) for decision in decisions for wish in decision.chosen]


def outcomes(decisions):
    return [effect.outcome for decision in decisions for effect in decision.effects_of_earlier]


FEWER = {"seen_before": observed(parse=4), "seen_after": observed(parse=2)}


def test_giving_back_too_much_is_rolled_back_once_and_blocked():
    decisions = evaluated(SetReplicas("parse", 2), 500.0, lambda _: 4000.0, **FEWER, target=Target(latency=1.0))
    assert chosen(decisions) == [("once", SetReplicas("parse", 2)), ("rollback", SetReplicas("parse", 4))]
    assert "worse" in outcomes(decisions)
    after = [mark.guard for decision in decisions for mark in decision.guards]
    assert set(after) == {"blocked"}
    texts = [part.text for decision in decisions for part in explain(decision)]
    assert any("made things worse: latency_p99_ms went from 500 to 4,000 ms" in text for text in texts)


def test_giving_back_within_the_target_stays():
    decisions = evaluated(SetReplicas("parse", 2), 500.0, lambda _: 900.0, **FEWER, target=Target(latency=1.0))
    assert chosen(decisions) == [("once", SetReplicas("parse", 2))]
    assert outcomes(decisions) == ["no clear change"]


def test_more_load_is_no_reason_to_blame_a_decision():
    decisions = evaluated(
        SetReplicas("parse", 2), 500.0, lambda _: 4000.0, **FEWER, target=Target(latency=1.0), load_after=2000.0
    )
    assert outcomes(decisions) == ["unclear"]
    assert len(chosen(decisions)) == 1


MORE = {"seen_before": observed(parse=4), "seen_after": observed(parse=8)}


def test_a_backlog_that_is_worked_off_does_not_undo_what_helps():
    decisions = evaluated(SetReplicas("parse", 8), 500.0, lambda at: 4000.0 - 10 * (at - 1000), **MORE)
    assert len(chosen(decisions)) == 1


def test_more_replicas_that_slow_everything_down_are_undone():
    decisions = evaluated(
        SetReplicas("parse", 8), 500.0, lambda at: 1000.0 + 10 * (at - 1000), **MORE, speed_after=500.0
    )
    assert chosen(decisions)[1] == ("rollback", SetReplicas("parse", 4))


OUT = {"seen_before": observed(), "seen_after": observed(quarantined=frozenset("1"))}


@pytest.mark.parametrize(("within_batch", "undone"), [(False, [("rollback", Release("1"))]), (True, [])])
def test_what_was_done_within_a_late_batch_is_not_judged_by_the_latency_before_it(within_batch, undone):
    """The batch that it has shortened would have been the first one to show the harm."""
    decisions = evaluated(
        Quarantine("1"),
        500.0,
        lambda at: 1000.0 + 10 * (at - 1000),
        **OUT,
        speed_after=500.0,
        within_batch=within_batch,
    )
    assert chosen(decisions)[1:2] == undone
    assert outcomes(decisions)[0] == ("unclear" if within_batch else "worse")


def test_an_effect_says_how_long_it_took_to_be_in_force():
    decisions = evaluated(SetReplicas("parse", 8), 500.0, lambda _: 100.0, **MORE)
    effect = next(effect for decision in decisions for effect in decision.effects_of_earlier)
    assert (effect.outcome, effect.in_force_after, effect.before, effect.after) == ("better", 10.0, 500.0, 100.0)
    told = next(decision for decision in decisions if decision.chosen).with_effect(effect)
    assert from_json(Decision, to_json(told)).effect == effect


def test_settings_of_evaluations_out_of_bounds_are_refused():
    with pytest.raises(SettingsError):
        EvaluationSettings(window=0)


rates = st.lists(st.tuples(st.floats(1, 5000), st.integers(1, 16)), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(rates)
def test_the_same_input_gives_the_same_output_and_nothing_is_changed_in_place(turns):
    control = Control((Wants((SetReplicas("parse", 6), Quarantine("2"))),))
    state = control.start()
    for turn, (rate, replicas) in enumerate(turns):
        seen = loaded(rate, at=1000.0 + 30 * turn, seen=replace(observed(), routes={"parse": even(replicas)}))
        kept = copy.deepcopy((state, seen))
        one, two = step(control, state, seen), step(control, state, seen)
        assert one == two
        assert (state, seen) == kept
        state = one[0]


def test_a_replay_advises_on_every_world_of_a_recording():
    from foretide.control.history import replay

    control = Control((Wants((SetReplicas("parse", 6),)),))
    decisions = list(replay(control, [world(1000.0 + 5 * turn) for turn in range(10)]))
    assert [decision.id for decision in decisions] == list(range(1, 11))
    assert {decision.mode for decision in decisions} == {"advise"}
    assert [decision.at for decision in decisions if decision.chosen] == [1000.0, 1010.0, 1020.0, 1030.0, 1040.0]
