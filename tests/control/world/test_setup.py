"""Latency targets, and setups in which a person holds something."""

from dataclasses import replace

import pytest

from control.worlds import SETUP, loaded, observed
from foretide.control.guards import GuardSettings
from foretide.control.policies.replicas import Replicas
from foretide.control.step import Control, step
from foretide.control.world.setup import Latency, Target
from foretide.errors import ControlError, DurationError, SettingsError


@pytest.mark.parametrize("quantile", ["p99", "p95", "p50", "mean"])
def test_each_quantile_makes_its_target(quantile):
    assert Latency(**{quantile: "1500 ms"}) == Target(1.5, quantile=quantile)
    assert Latency(**{quantile: 2}, relaxed="1 s", budget=4) == Target(2.0, 1.0, quantile, 4)


@pytest.mark.parametrize(
    ("given", "words"), [({}, "exactly one of p99, p95, p50, mean, got none"), ({"p99": 1, "mean": 2}, "got p99, mean")]
)
def test_exactly_one_quantile_is_given(given, words):
    with pytest.raises(ControlError, match=words):
        Latency(**given)


def test_what_no_target_can_be_made_of_is_refused():
    with pytest.raises(DurationError, match="'soon' is not a duration"):
        Latency(p99="soon")
    with pytest.raises(SettingsError, match=r"target.relaxed must be less than target.latency \(1 s\), got 2 s"):
        Latency(p99="1 s", relaxed="2 s")
    with pytest.raises(SettingsError, match=r"target.budget must be at least 1, got 0"):
        Latency(p99="1 s", budget=0)
    with pytest.raises(SettingsError, match=r"target.relaxed must be at least 0, got -1"):
        Target(relaxed=-1)


def test_policies_see_what_a_person_holds_as_fixed():
    setup = SETUP.with_held({"edge parse", "spout read", "target"}, observed(parse=3))
    assert list(setup.by_edge) == ["count"]
    assert setup.by_name["parse"].pool == 3
    assert setup.can_admit == frozenset()
    assert SETUP.with_held((), observed()) is SETUP


def test_the_loop_plans_around_what_a_person_holds():
    seen = loaded(rate=4000.0, service_ms=4.0)
    control = Control((Replicas(),), GuardSettings(cooldown=0, settle_batches=0))
    _, free = step(control, control.start(), seen)
    assert {action.target for action in free.actions} == {"edge parse", "edge count"}
    fixed = replace(seen, setup=SETUP.with_held({"edge parse"}, seen.observed), held={"edge parse": "by ada"})
    _, decision = step(control, control.start(), fixed)
    assert {action.target for action in decision.actions} == {"edge count"}
