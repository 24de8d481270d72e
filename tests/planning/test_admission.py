"""Max-spout-pending: Storm's state machine rule by rule, and a tuner that holds a latency target."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import ModelError
from foretide.planning.admission import LatencyTuner, Observation, ProgressTuner, TunerMove, TunerStep

INCREASE, DECREASE, NO_CHANGE = TunerMove.INCREASE, TunerMove.DECREASE, TunerMove.NO_CHANGE


def play(tuner, limit: int, *progress: float) -> list[tuple[TunerMove, int]]:
    state, seen = tuner.start(limit), []
    for value in progress:
        state, verdict = tuner.step(state, Observation(value))
        seen.append((verdict.action, verdict.limit))
    return seen


class TestStormsStateMachine:
    def test_the_first_call_increases(self):
        assert play(ProgressTuner(), 100, 0.0) == [(INCREASE, 125)]

    def test_after_increase_lower_progress_decreases_by_a_quarter_at_least(self):
        assert play(ProgressTuner(), 100, 1000, 900)[-1] == (DECREASE, 93)

    def test_a_larger_drop_decreases_by_the_drop(self):
        assert play(ProgressTuner(), 100, 1000, 400)[-1] == (DECREASE, 50)

    def test_after_increase_higher_progress_increases(self):
        assert play(ProgressTuner(), 100, 1000, 1200)[-1] == (INCREASE, 157)

    def test_after_increase_similar_progress_restores_the_earlier_value(self):
        assert play(ProgressTuner(), 100, 1000, 1200, 1210)[-1] == (NO_CHANGE, 125)

    def test_after_decrease_higher_progress_increases(self):
        assert play(ProgressTuner(), 100, 1000, 500, 800)[-1] == (INCREASE, 78)

    @pytest.mark.parametrize("progress", [500, 490, 100])
    def test_after_decrease_anything_else_holds(self, progress):
        assert play(ProgressTuner(), 100, 1000, 500, progress)[-1] == (NO_CHANGE, 62)

    def test_after_no_change_higher_increases_and_lower_decreases(self):
        held = (1000, 1000)
        assert play(ProgressTuner(), 100, *held)[-1] == (NO_CHANGE, 100)
        assert play(ProgressTuner(), 100, *held, 1200)[-1] == (INCREASE, 125)
        assert play(ProgressTuner(), 100, *held, 800)[-1] == (DECREASE, 75)

    def test_five_turns_of_no_change_increase(self):
        turns = play(ProgressTuner(), 100, *[1000] * 8)
        assert [action for action, _ in turns] == [INCREASE, *[NO_CHANGE] * 5, INCREASE, NO_CHANGE]
        assert [limit for _, limit in turns] == [125, *[100] * 5, 125, 100]

    def test_the_count_of_turns_starts_anew_after_a_change(self):
        turns = play(ProgressTuner(), 100, *[1000] * 5, 1200, *[1200] * 6)
        actions = [action for action, _ in turns]
        assert actions == [INCREASE, *[NO_CHANGE] * 4, INCREASE, *[NO_CHANGE] * 5, INCREASE]

    def test_no_progress_at_all_never_closes_the_source(self):
        turns = play(ProgressTuner(), 4, 1000, 0.0, 0.0, 0.0, 0.0)
        assert turns[1] == (DECREASE, 1)
        assert all(limit >= 1 for _, limit in turns)

    def test_small_limits_do_go_up(self):
        assert play(ProgressTuner(), 1, 10, 20, 30)[-1] == (INCREASE, 4)

    @given(st.integers(1, 10_000), st.lists(st.floats(0, 1e9), max_size=40))
    def test_always_within_bounds_and_repeatable(self, limit, progress):
        tuner = ProgressTuner(min_limit=2, max_limit=5_000)
        turns = play(tuner, limit, *progress)
        assert all(2 <= limit <= 5_000 for _, limit in turns)
        assert turns == play(tuner, limit, *progress)

    def test_finds_the_knee_of_a_source(self):
        # Progress rises with the limit up to 400 in flight; beyond, more only waits.
        tuner = ProgressTuner()
        state, limits = tuner.start(10), []
        for _ in range(60):
            state, verdict = tuner.step(state, Observation(progress=1000.0 * min(state.limit, 400)))
            limits.append(verdict.limit)
        assert all(300 <= limit <= 800 for limit in limits[30:])


@pytest.mark.parametrize("bad", [{"progress": -1.0}, {"progress": 1.0, "latency": float("nan")}])
def test_observations_that_make_no_sense(bad):
    with pytest.raises(ModelError):
        Observation(**bad)


class TestLatencyTuner:
    def run(self, tuner, start, *, noise, capacity=1000.0, base=0.05, turns=80, demand=1e9):
        """A source whose latency follows Little's law once its limit exceeds what the network holds."""
        rng = random.Random(3)
        state, seen = tuner.start(start), []
        for _ in range(turns):
            pending = min(state.limit, demand)
            latency = max(base, pending / capacity) * rng.uniform(1 - noise, 1 + noise)
            seen.append((state.limit, latency))
            state, _ = tuner.step(state, Observation(capacity, latency, pending))
        return seen

    @pytest.mark.parametrize("start", [10, 400, 50_000])
    @pytest.mark.parametrize("noise", [0.0, 0.08])
    def test_settles_below_the_target_and_near_it(self, start, noise):
        seen = self.run(LatencyTuner(target=0.5), start, noise=noise)
        late = [latency for _, latency in seen[30:]]
        assert sum(latency > 0.5 for latency in late) <= 0.05 * len(late)
        assert sum(late) / len(late) > 0.35

    def test_follows_a_capacity_that_halves(self):
        tuner = LatencyTuner(target=0.5)
        state = tuner.start(450)
        missed = 0
        for _ in range(20):
            latency = state.limit / 500.0
            missed += latency > 0.5
            state, _ = tuner.step(state, Observation(500.0, latency, state.limit))
        assert missed <= 3
        assert 195 <= state.limit <= 250

    def test_does_not_grow_a_limit_that_does_not_bind(self):
        seen = self.run(LatencyTuner(target=0.5), 1000, noise=0.0, demand=40)
        assert {limit for limit, _ in seen} == {1000}

    def test_says_so_when_only_capacity_helps(self):
        tuner = LatencyTuner(target=0.5, min_limit=10)
        _, verdict = tuner.step(tuner.start(10), Observation(1.0, latency=3.0, pending=10))
        assert (verdict.limit, verdict.action) == (10, NO_CHANGE)
        assert "more capacity is needed" in verdict.reason

    def test_one_bad_reading_does_not_starve_the_query(self):
        tuner = LatencyTuner(target=0.5)
        state, verdict = tuner.step(tuner.start(1000), Observation(1.0, latency=500.0))
        assert verdict.limit == 500
        _, held = tuner.step(state, Observation(1.0, latency=500.0))
        assert (held.limit, held.action) == (500, NO_CHANGE)

    def test_holds_without_a_measurement(self):
        tuner = LatencyTuner(target=0.5)
        assert tuner.step(tuner.start(9), Observation(1.0))[1].action is NO_CHANGE

    def test_refuses_a_target_that_makes_no_sense(self):
        with pytest.raises(ModelError):
            LatencyTuner(target=0.0)


class TestLimitsThatAreNotInForce:
    """What a guard, or somebody else, made of the last step."""

    def stepped(self, tuner, limit, *observations):
        state = tuner.start(limit)
        for seen in observations:
            state, _ = tuner.step(state, seen)
        return state

    def test_an_increase_that_was_stopped_is_no_change_and_what_was_learnt_is_kept(self):
        tuner = ProgressTuner()
        state = tuner.resume(self.stepped(tuner, 100, Observation(1000)), 100, 100)
        assert (state.limit, state.action, state.progress) == (100, NO_CHANGE, 1000)
        assert tuner.step(state, Observation(1010))[1].limit == 100  # nothing was tried, so nothing is tried again
        assert tuner.step(state, Observation(1200))[1] == TunerStep(125, INCREASE, "progress rose: tries more")
        assert tuner.step(state, Observation(500))[1].limit == 50

    def test_an_increase_that_a_guard_made_smaller_is_taken_back_to_where_it_began(self):
        tuner = ProgressTuner()
        state = tuner.resume(self.stepped(tuner, 100, Observation(1000)), 100, 110)
        assert (state.limit, state.action) == (110, INCREASE)
        assert tuner.step(state, Observation(1010))[1].limit == 100

    def test_what_was_carried_out_is_left_as_it_is(self):
        tuner = ProgressTuner()
        state = self.stepped(tuner, 100, Observation(1000))
        assert tuner.resume(state, 100, 125) == state

    @pytest.mark.parametrize("limit", [50, 300])
    def test_a_limit_of_somebody_else_is_a_new_start(self, limit):
        tuner = ProgressTuner()
        assert tuner.resume(self.stepped(tuner, 100, Observation(1000)), 100, limit) == tuner.start(limit)

    def test_a_cut_that_was_stopped_leaves_no_queue_to_drain(self):
        tuner = LatencyTuner(target=0.5)
        missed = Observation(1000, latency=0.8, pending=1000)
        cut = self.stepped(tuner, 1000, missed)
        assert tuner.resume(cut, 1000, 500) == cut
        assert tuner.step(tuner.resume(cut, 1000, 500), missed)[1].action is NO_CHANGE
        assert tuner.step(tuner.resume(cut, 1000, 700), missed)[1].action is NO_CHANGE
        assert tuner.step(tuner.resume(cut, 1000, 1000), missed)[1].limit == 500
