import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.runtime.monitoring.tuple_latency import latency
from foretide.spark.sources.registry import source_port, source_range
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.requests import RequestLines

SOURCE = source_port(Replay(RequestLines(1), Curve.steps([(2, 50), (1, 0), (3, 200)]), flush=60))
PLAN = SOURCE.plan
ORIGIN = 1_700_000_000.25


def taken(first, last):
    return source_range({"row": first}, {"row": last, "origin_ms": int(ORIGIN * 1000)}, {}, last - first)


def by_sorting(first, last, finished, share):
    """The least latency that this share of the rows stayed within."""
    late = sorted(finished - ORIGIN - due for due in PLAN.due_seconds(first, last))
    return late[max(1, math.ceil(share * len(late))) - 1]


@settings(deadline=None)
@given(st.integers(0, PLAN.total_rows - 1), st.integers(1, 300), st.integers(0, 100))
def test_a_quantile_is_exactly_what_sorting_all_rows_gives(first, count, percent):
    last = min(first + count, PLAN.total_rows)
    finished = ORIGIN + 8.5
    expected = by_sorting(first, last, finished, Fraction(percent, 100))
    assert latency(SOURCE, taken(first, last), finished, percent / 100) == pytest.approx(expected, abs=1e-6)


def test_the_whole_batch_stays_within_the_latency_of_its_first_row():
    assert latency(SOURCE, taken(0, 100), ORIGIN + 3, 1.0) == pytest.approx(3 - 1 / 50)
    assert latency(SOURCE, taken(0, 100), ORIGIN + 3, 0.0) == pytest.approx(1.0)


def test_a_first_batch_without_a_start_begins_at_row_0():
    first = source_range({}, {"row": 10, "origin_ms": int(ORIGIN * 1000)}, {}, 10)
    assert latency(SOURCE, first, ORIGIN + 3, 0.5) == latency(SOURCE, taken(0, 10), ORIGIN + 3, 0.5)


@pytest.mark.parametrize(
    "nothing",
    [taken(5, 5), source_range({}, {"logOffset": 1}, {}, 9), source_range({}, {"row": 3}, {}, 3)],
)
def test_a_batch_without_rows_or_a_source_without_due_times_has_no_latency(nothing):
    assert latency(SOURCE, nothing, ORIGIN, 0.5) is None
