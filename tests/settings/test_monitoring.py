"""How a pipeline is monitored: defaults that hold together, and refusals."""

import math

import pytest

from foretide.errors import MonitoringError
from foretide.metrics.alarm_rules import DEFAULT_RULES, AlarmRule
from foretide.metrics.catalogue.registry import CATALOGUE
from foretide.metrics.smoothing import Fading, Window
from foretide.settings.monitoring import SMOOTHED, MonitorSettings


def test_what_planning_reads_is_smoothed_unless_said_otherwise():
    settings = MonitorSettings()
    assert set(settings.smoothing) == set(SMOOTHED) <= set(CATALOGUE)
    made = [make() for make in settings.smoothing.values()]
    assert all(isinstance(smoother, Fading) for smoother in made)
    assert len({id(smoother) for smoother in made}) == len(made)
    assert settings.rules == DEFAULT_RULES


def test_what_makes_sense_is_taken():
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
        ({"smoothing": {"capasity": Fading, "lagg": Fading}}, "cannot smooth capasity, lagg: not in the catalogue"),
        ({"time_every": 0}, "time_every is 0; give 1 to time every tuple"),
        ({"retention": -1}, "retention is -1; give seconds, 0 or more"),
        ({"tasks_every": -0.1}, "tasks_every is -0.1"),
        ({"workers_every": math.nan}, "workers_every is nan"),
        ({"machines_every": -5}, "machines_every is -5"),
        ({"webhook": "example.org/alarms"}, "'example.org/alarms' is no address; give http://"),
        ({"webhook": "file:///etc/passwd"}, "is no address"),
        ({"webhook": ""}, "is no address"),
        ({"prometheus_port": -1}, "no port -1 for Prometheus; give 0 to 65535"),
        ({"prometheus_port": 65536}, "no port 65536"),
        (
            {"rules": (AlarmRule("mine", "capacity", above=1), AlarmRule("mine", "lag", above=1))},
            "several rules are called mine; give each a name of its own",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would_do(wrong, said):
    with pytest.raises(MonitoringError, match=said):
        MonitorSettings(**wrong)
