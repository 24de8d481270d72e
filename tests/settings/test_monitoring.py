"""How a pipeline is monitored: defaults that hold together, and refusals."""

import math

import pytest

from foretide.errors import SettingsError
from foretide.metrics.alarm_rules import DEFAULT_RULES, AlarmRule
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.snapshot import Fading, Window
from foretide.settings.run import SMOOTHED, MonitorSettings


def test_what_planning_reads_is_smoothed_by_default():
    settings = MonitorSettings()
    assert set(settings.smoothing) == set(SMOOTHED) <= set(CATALOGUE)
    made = [make() for make in settings.smoothing.values()]
    assert all(isinstance(smoother, Fading) for smoother in made)
    assert len({id(smoother) for smoother in made}) == len(made)
    assert settings.rules == DEFAULT_RULES


def test_values_within_bounds_are_accepted():
    MonitorSettings(
        store="",
        retention=0,
        time_every=1,
        workers_every=0,
        machines_every=0.5,
        smoothing={"capacity": Window},
        rules=(),
        webhook="https://example.org/alarms",
        prometheus_port=0,
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"smoothing": {"capasity": Fading, "lagg": Fading}},
            "monitoring.smoothing: capasity, lagg not in the catalogue of metrics",
        ),
        ({"time_every": 0}, "monitoring.time_every must be at least 1, got 0"),
        ({"retention": -1}, "monitoring.retention must be at least 0, got -1"),
        ({"tasks_every": -0.1}, "monitoring.tasks_every must be at least 0, got -0.1"),
        ({"workers_every": math.nan}, "monitoring.workers_every must be a finite number, got nan"),
        ({"machines_every": -5}, "monitoring.machines_every must be at least 0, got -5"),
        (
            {"webhook": "example.org/alarms"},
            "monitoring.webhook must begin with http:// or https://",
        ),
        ({"webhook": "file:///etc/passwd"}, "monitoring.webhook must begin"),
        ({"webhook": ""}, "monitoring.webhook must begin"),
        ({"prometheus_port": -1}, "monitoring.prometheus_port must be between 0 and 65535, got -1"),
        ({"prometheus_port": 65536}, "monitoring.prometheus_port must be between 0 and 65535, got 65536"),
        (
            {"rules": (AlarmRule("mine", "capacity", above=1), AlarmRule("mine", "lag", above=1))},
            "monitoring.rules must have different names, got mine more than once",
        ),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_the_bounds(wrong, said):
    with pytest.raises(SettingsError, match=said):
        MonitorSettings(**wrong)
