import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import CodecError, SettingsError
from foretide.soak.schedule import FAULTS, KILLS, LASTING, MIX, Schedule, Step, draw

SEEDS = st.integers(0, 2**32)


@given(seed=SEEDS, seconds=st.floats(0, 600))
def test_a_seed_always_gives_the_same_schedule_and_json_keeps_it(seed, seconds):
    schedule = draw(seed, seconds)
    assert draw(seed, seconds) == schedule
    assert Schedule.from_json(schedule.to_json()) == schedule


@given(seed=SEEDS, seconds=st.floats(0, 600))
def test_the_steps_of_each_lane_fit_into_its_time_and_are_of_its_kinds(seed, seconds):
    schedule = draw(seed, seconds)
    for lane in ("faults", "changes"):
        steps = schedule.lane(lane)
        assert sum(step.after for step in steps) <= seconds + 0.001 * len(steps)
        assert all((step.kind in FAULTS) == (lane == "faults") for step in steps)
    assert len(schedule.lane("faults")) + len(schedule.lane("changes")) == len(schedule.steps)


@given(seed=SEEDS)
def test_only_kinds_that_last_have_a_length_and_only_steps_that_wait_for_a_moment_a_delay(seed):
    for step in draw(seed, 300.0).steps:
        low, high = LASTING.get(step.kind, (0.0, 0.0))
        assert low <= step.seconds <= high
        assert step.delay == 0 or step.moment != "now"


def test_each_kind_comes_about_as_often_as_the_mix_says():
    hours = 40
    kinds = [step.kind for step in draw(5, hours * 3600.0).steps]
    for kind, rate in MIX.items():
        expected = rate * 60 * hours
        assert kinds.count(kind) == pytest.approx(expected, abs=5 * np.sqrt(expected))
    assert set(kinds) >= KILLS


def test_a_schedule_does_not_depend_on_the_order_of_its_mix():
    assert draw(3, 300.0, dict(reversed(MIX.items()))) == draw(3, 300.0)


def test_a_kind_that_is_not_in_the_mix_is_not_drawn():
    assert {step.kind for step in draw(3, 600.0, {"split": 10.0, "kill-jvm": 0.0}).steps} == {"split"}
    assert draw(3, 600.0, {}).steps == ()


@pytest.mark.parametrize(("seed", "seconds"), [(-1, 1.0), (1, -1.0), (1, float("nan")), (1, float("inf"))])
def test_a_schedule_that_cannot_be_drawn_is_refused(seed, seconds):
    with pytest.raises(SettingsError, match="0 or more"):
        draw(seed, seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"seed": 1}',
        Schedule(1, (Step("split", -1.0),)).to_json(),
        Schedule(-1, (Step("split", 1.0),)).to_json(),
        '{"seed": 1, "steps": [{"kind": "kill-moon", "after": 1.0}]}',
    ],
)
def test_what_is_no_schedule_is_refused(text):
    with pytest.raises(CodecError):
        Schedule.from_json(text)
