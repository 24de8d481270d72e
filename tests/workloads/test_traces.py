from datetime import UTC, datetime

import numpy as np
import pytest

from foretide.errors import WorkloadError
from foretide.workloads.traces import TRACES, load_trace


@pytest.mark.parametrize("name", TRACES)
def test_every_trace_can_be_read(name):
    trace = load_trace(name)
    assert trace.name == name
    assert trace.values.dtype == np.float64
    assert trace.values.size > 10_000
    assert np.isfinite(trace.values).all()
    assert (trace.values >= 0).all()


def test_periods_units_and_values_are_those_recorded():
    tweets, taxi = load_trace("tweets-aapl"), load_trace("taxi")
    assert (tweets.period_seconds, tweets.unit, tweets.values.size) == (300.0, "tweets", 15902)
    assert (taxi.period_seconds, taxi.unit, taxi.values.size) == (1800.0, "passengers", 10320)
    assert tweets.values[:2].tolist() == [104, 100]
    assert taxi.values.max() == 39197


@pytest.mark.parametrize(("name", "end"), [("taxi", "2015-01-31T23:30"), ("tweets-aapl", "2015-04-23T02:47:53")])
def test_the_time_of_the_last_value_is_known(name, end):
    assert load_trace(name).last_at == datetime.fromisoformat(end).replace(tzinfo=UTC).timestamp()


def test_values_are_read_only_and_shared():
    assert load_trace("taxi") is load_trace("taxi")
    with pytest.raises(ValueError, match="read-only"):
        load_trace("taxi").values[0] = 1


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(WorkloadError, match=r"'taxis'.*tweets-aapl, .*, taxi"):
        load_trace("taxis")
