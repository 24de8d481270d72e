"""Latency targets."""

import pytest

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
