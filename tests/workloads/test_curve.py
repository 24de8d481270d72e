import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import WorkloadError
from foretide.workloads.curve import MAX_COUNT, Curve
from foretide.workloads.traces import load_trace

rates = st.one_of(st.just(0.0), st.floats(1e-3, 1e6))
segments = st.lists(st.tuples(st.floats(1e-6, 1e3), rates), min_size=1, max_size=8)


@st.composite
def curves(draw):
    pairs = draw(segments)
    endless = draw(st.booleans()) and pairs[-1][1] > 0
    return Curve(tuple(s for s, _ in pairs), tuple(r for _, r in pairs), endless=endless)


def length(curve):
    return sum(curve.seconds) * (2 if curve.endless else 1)


@settings(deadline=None)
@given(curves(), st.floats(0, 1.2))
def test_rows_due_and_due_times_agree_at_any_moment(curve, share):
    elapsed = share * length(curve)
    due = curve.rows_due(elapsed)
    if due:
        assert curve.due_times(due - 1, due)[0] <= elapsed
    if curve.total_rows is None or due < curve.total_rows:
        assert curve.due_times(due, due + 1)[0] > elapsed


@settings(deadline=None)
@given(curves(), st.data())
def test_a_row_is_due_at_its_due_time_and_not_just_before(curve, data):
    rows = curve.rows_due(length(curve))
    if rows == 0:
        return
    row = data.draw(st.integers(0, rows - 1))
    moment = float(curve.due_times(row, row + 1)[0])
    assert curve.rows_due(moment) > row
    assert curve.rows_due(math.nextafter(moment, -math.inf)) <= row


@settings(deadline=None)
@given(curves(), st.lists(st.floats(-0.1, 1.2), min_size=2, max_size=5))
def test_rows_due_never_falls(curve, shares):
    counts = [curve.rows_due(share * length(curve)) for share in sorted(shares)]
    assert counts == sorted(counts)


@settings(deadline=None)
@given(curves())
def test_due_times_rise_and_end_within_the_curve(curve):
    rows = min(curve.rows_due(length(curve)), 1000)
    times = curve.due_times(0, rows)
    assert times.shape == (rows,)
    assert (np.diff(times) >= 0).all()
    assert ((times > 0) & (times <= curve.duration)).all()


@settings(deadline=None)
@given(curves())
def test_json_loses_nothing(curve):
    assert Curve.from_json(curve.to_json()) == curve


def test_a_finite_curve_ends():
    curve = Curve.steps([(10, 2), (5, 0), (10, 4)])
    assert (curve.duration, curve.total_rows) == (25.0, 60)
    assert [curve.rows_due(t) for t in (-1, 0, 0.49, 0.5, 10, 15, 15.25, 25, 99, math.inf)] == [
        *(0, 0, 0, 1, 20, 20, 21, 60, 60, 60),
    ]
    assert [curve.rate_at(t) for t in (-1, 0, 9.9, 10, 15, 25, math.inf)] == [0, 2, 2, 0, 4, 0, 0]


def test_an_endless_curve_goes_on():
    curve = Curve.constant(8)
    assert (curve.duration, curve.total_rows) == (math.inf, None)
    assert [curve.rows_due(t) for t in (0, 0.125, 1, 1e6)] == [0, 1, 8, 8_000_000]
    assert [curve.rate_at(t) for t in (-1, 0, 1, 1e6, math.inf)] == [0, 8, 8, 8, 8]
    assert curve.due_times(79, 81).tolist() == [10.0, 10.125]


@pytest.mark.parametrize("elapsed", [math.inf, 1e300, MAX_COUNT])
def test_an_endless_curve_has_no_count_beyond_what_floats_can_tell(elapsed):
    with pytest.raises(WorkloadError, match="earlier moment"):
        Curve.constant(8).rows_due(elapsed)


def test_a_row_at_the_border_belongs_to_the_segment_that_completes_it():
    curve = Curve.steps([(1, 1.5), (10, 0), (1, 1.5)])
    np.testing.assert_allclose(curve.due_times(0, 3), [1 / 1.5, 11 + 0.5 / 1.5, 12])


def test_rounding_loses_no_row():
    assert Curve.steps([(0.1, 10)] * 10).total_rows == 10
    assert Curve.constant(1 / 3, 3).total_rows == 1
    assert Curve.steps([(0.1, 10)] * 10).rows_due(1.0) == 10


def test_a_curve_without_rows_is_allowed():
    curve = Curve.constant(0, 5)
    assert (curve.total_rows, curve.rows_due(3), curve.due_times(0, 0).size) == (0, 0, 0)


def test_from_trace_keeps_shape_and_mean():
    curve = Curve.from_trace("taxi", seconds=600, mean_rate=50, first=48, samples=336)
    assert len(curve.rates) == 336
    assert curve.duration == pytest.approx(600)
    assert curve.total_rows == 30_000
    assert np.corrcoef(curve.rates, load_trace("taxi").values[48:384])[0, 1] == pytest.approx(1)


def test_from_trace_takes_all_samples_by_default():
    curve = Curve.from_trace("tweets-ko", seconds=3600, mean_rate=10, first=100)
    assert len(curve.rates) == load_trace("tweets-ko").values.size - 100
    assert curve.total_rows == 36_000


def test_ramp_goes_evenly_and_has_the_mean_of_its_ends():
    up, down = Curve.ramp(0, 100, 10), Curve.ramp(100, 0, 10)
    np.testing.assert_allclose(up.rates, range(1, 100, 2))
    np.testing.assert_allclose(down.rates, up.rates[::-1])
    assert up.total_rows == down.total_rows == 500


def test_sawtooth_repeats_and_is_cut_at_the_end():
    curve = Curve.sawtooth(10, 50, period=4, seconds=10)
    assert curve.duration == pytest.approx(10)
    assert [curve.rows_due(t) for t in (4.001, 8.001)] == [120, 240]
    assert [curve.rate_at(t) for t in (0, 3.999, 4.001, 7.999, 8.001)] == pytest.approx([11, 49, 11, 49, 11])


@settings(deadline=None)
@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_sawtooth_lasts_as_long_as_it_should(period, seconds):
    assert Curve.sawtooth(1, 2, period, seconds).duration == pytest.approx(seconds)


def test_a_fluctuating_rate_stays_in_its_range_and_changes_as_often_as_told():
    curve = Curve.fluctuating(7, 500, 1500, every=600, seconds=3000)
    assert curve.seconds == (600.0,) * 5
    assert all(500 <= rate <= 1500 for rate in curve.rates)
    assert len(set(curve.rates)) == 5
    assert curve == Curve.fluctuating(7, 500, 1500, every=600, seconds=3000)
    assert curve.rates != Curve.fluctuating(8, 500, 1500, every=600, seconds=3000).rates


def test_a_fluctuating_rate_fills_its_range_and_ends_on_time():
    curve = Curve.fluctuating(1, 0, 100, every=1, seconds=1999.5)
    assert curve.duration == pytest.approx(1999.5)
    np.testing.assert_allclose(np.quantile(curve.rates, [0.1, 0.5, 0.9]), [10, 50, 90], atol=4)
    assert Curve.fluctuating(1, 30, 30, every=9, seconds=5).rates == (30.0,)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    "make",
    [
        lambda: Curve((), ()),
        lambda: Curve((1,), (1, 2)),
        lambda: Curve((0,), (1,)),
        lambda: Curve((-1,), (1,)),
        lambda: Curve((NAN,), (1,)),
        lambda: Curve((INF,), (1,)),
        lambda: Curve((1,), (-1,)),
        lambda: Curve((1,), (NAN,)),
        lambda: Curve((1,), (INF,)),
        lambda: Curve((1,), (1e-12,)),
        lambda: Curve((1e8,), (1e9,)),
        lambda: Curve("12", "34"),
        lambda: Curve(((1, 2), 3), (1, 1)),
        lambda: Curve((1,), (True,)),
        lambda: Curve((1,), (0,), endless=True),
        lambda: Curve((1,), (1,), endless="no"),
        lambda: Curve.constant(0),
        lambda: Curve.constant("fast"),
        lambda: Curve.constant(1, 0),
        lambda: Curve.steps([]),
        lambda: Curve.steps([(1, 2, 3)]),
        lambda: Curve.steps([1]),
        lambda: Curve.ramp(0, NAN, 10),
        lambda: Curve.ramp(-1, 5, 10),
        lambda: Curve.ramp(0, 5, 0),
        lambda: Curve.ramp(0, 5, 10, pieces=0),
        lambda: Curve.ramp(0, 5, 10, pieces=2.5),
        lambda: Curve.sawtooth(0, INF, 1, 10),
        lambda: Curve.sawtooth(0, 1, 0, 10),
        lambda: Curve.sawtooth(0, 1, 1e-9, 1e9),
        lambda: Curve.fluctuating(-1, 0, 1, 1, 10),
        lambda: Curve.fluctuating(1, 2, 1, 1, 10),
        lambda: Curve.fluctuating(1, 0, 1, 0, 10),
        lambda: Curve.fluctuating(1, 0, 1, 1e-9, 1e9),
        lambda: Curve.from_trace("taxis", seconds=1, mean_rate=1),
        lambda: Curve.from_trace("taxi", seconds=NAN, mean_rate=1),
        lambda: Curve.from_trace("taxi", seconds=1, mean_rate=-1),
        lambda: Curve.from_trace("taxi", seconds=1, mean_rate=1, first=10_320),
        lambda: Curve.from_trace("taxi", seconds=1, mean_rate=1, first=-1),
        lambda: Curve.from_trace("taxi", seconds=1, mean_rate=1, samples=0),
        lambda: Curve.from_trace("taxi", seconds=1, mean_rate=1, first=1, samples=10_320),
        lambda: Curve.constant(1).rows_due(NAN),
        lambda: Curve.constant(1).rate_at(NAN),
        lambda: Curve.constant(1).rows_due("soon"),
        lambda: Curve.constant(1).due_times(-1, 5),
        lambda: Curve.constant(1).due_times(5, 4),
        lambda: Curve.constant(1).due_times(0, 1.5),
        lambda: Curve.constant(1, 10).due_times(0, 11),
        lambda: Curve.from_json("{"),
        lambda: Curve.from_json("[1]"),
        lambda: Curve.from_json("{}"),
        lambda: Curve.from_json('{"seconds": [1], "rates": [1], "colour": 1}'),
        lambda: Curve.from_json('{"seconds": [1], "rates": [NaN]}'),
        lambda: Curve.from_json('{"seconds": 1, "rates": 1}'),
        lambda: Curve.from_json('{"seconds": ["1"], "rates": [1]}'),
    ],
)
def test_bad_input_is_refused_with_advice(make):
    with pytest.raises(WorkloadError, match=r"(give|choose|ask|must be)|Give"):
        make()


def test_a_slice_of_nothing_cannot_be_scaled():
    values = load_trace("tweets-ko").values
    silent = int(np.flatnonzero(values == 0)[0])
    with pytest.raises(WorkloadError, match="all 0"):
        Curve.from_trace("tweets-ko", seconds=1, mean_rate=1, first=silent, samples=1)
