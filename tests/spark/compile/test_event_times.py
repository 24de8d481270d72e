"""What a batch reported of its event times. Spark hands it over as a row; a dict answers the same questions."""

import pytest

from foretide.metrics.batch import EventTimes
from foretide.spark.compile.event_times import read_event_times


def test_event_times_are_told_at_each_level():
    read = read_event_times({"tuples": 4, "mean": 2.5, "at": [1.0, 1.1, 2.0]})
    assert read == EventTimes(4, 2.5, {0.01: 1.0, 0.05: 1.1, 0.5: 2.0})


@pytest.mark.parametrize(
    "nothing", [{"tuples": 0, "mean": None, "at": None}, {"tuples": None, "mean": None, "at": None}]
)
def test_a_batch_without_tuples_has_no_event_times(nothing):
    assert read_event_times(nothing) is None


def test_other_levels_than_were_asked_for_are_no_answer():
    with pytest.raises(ValueError):
        read_event_times({"tuples": 4, "mean": 2.5, "at": [1.0, 2.0]})
