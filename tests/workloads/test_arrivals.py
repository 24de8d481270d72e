import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import WorkloadError
from foretide.workloads.curve import Curve
from foretide.workloads.randomness import ARRIVALS_BLOCK

CURVE = Curve.steps([(10, 50), (3, 0), (20, 300)]).with_poisson_arrivals(seed=5)


def test_a_poisson_curve_has_as_many_rows_in_all_in_ascending_order_within_its_time():
    due = CURVE.due_times(0, CURVE.total_rows)
    assert len(due) == CURVE.total_rows == 6500
    assert (np.diff(due) >= 0).all()
    assert due[0] >= 0
    assert due[-1] <= CURVE.duration


def test_gaps_between_arrivals_are_exponential():
    curve = Curve.constant(100, 400).with_poisson_arrivals(seed=1)
    gaps = np.diff(curve.due_times(0, 40_000))
    assert gaps.mean() == pytest.approx(0.01, rel=0.01)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(1.0, abs=0.03)
    assert np.mean(gaps > 0.01) == pytest.approx(np.exp(-1), abs=0.01)


@settings(deadline=None)
@given(st.integers(0, 6500), st.integers(0, 6500))
def test_any_range_is_the_same_however_it_is_cut(one, other):
    first, last = sorted((one, other))
    assert (CURVE.due_times(first, last) == CURVE.due_times(0, 6500)[first:last]).all()


@settings(deadline=None)
@given(st.floats(-1, 40))
def test_rows_due_and_due_times_agree(elapsed):
    due = CURVE.due_times(0, 6500)
    assert CURVE.rows_due(elapsed) == np.count_nonzero(due <= elapsed)


@pytest.mark.parametrize("total", [1, ARRIVALS_BLOCK - 1, ARRIVALS_BLOCK, ARRIVALS_BLOCK + 1])
def test_short_streams_have_all_their_rows(total):
    curve = Curve.constant(total, 1).with_poisson_arrivals(seed=2)
    assert curve.rows_due(1.0) == total
    assert curve.rows_due(curve.due_times(0, 1)[0]) >= 1


def test_endless_curves_may_be_random_too():
    curve = Curve.constant(1000).with_poisson_arrivals(seed=3)
    assert curve.rows_due(10.0) == pytest.approx(10_000, rel=0.05)
    assert Curve.from_json(curve.to_json()) == curve


def test_a_seed_that_is_none_is_refused():
    with pytest.raises(WorkloadError, match="poisson"):
        Curve.constant(1, 1).with_poisson_arrivals(seed=-1)
