"""Figures of a report, against what can be worked out by hand."""

import pytest

from foretide.control.history import RecordedWorld
from foretide.control.world.setup import Observed, Setup, Target
from foretide.reports.summary import executors_over_time, shared_target, summarize, value_at
from foretide.status.run_record import Forecast, RunRecord

LATENCY = tuple((10.0 * step, 1000.0 * step) for step in range(1, 6))  # 1 s after 10 s, 2 s after 20 s, ...


def run(setups=(), **more):
    return RunRecord("shop", 0.0, 50.0, {"latency_p99_ms": LATENCY}, setups=tuple(setups), rows=2_000_000, **more)


def setup(at, workers="01", target=None, **observed):
    seen = Observed(executors=dict.fromkeys(workers, "h"), **observed)
    return RecordedWorld(at, Setup("shop"), target or Target(), seen)


def test_time_above_the_target_counts_from_the_measurement_before():
    found = summarize(run([setup(0.0, target=Target(2.5))]))
    assert found.missed == (30.0, 40.0)
    assert (found.median_latency, found.worst_latency) == (3.0, 5.0)
    assert [each.share_missed for each in found.targets] == [0.75]


def test_a_target_that_changed_is_judged_in_its_own_time_each():
    found = summarize(run([setup(0.0, target=Target(9.0)), setup(30.0, target=Target(1.0))]))
    assert [(each.record.target.latency, each.record.missed) for each in found.targets] == [(9.0, 0), (1.0, 3)]


def test_a_run_without_a_target_is_judged_by_that_of_the_others_if_they_agree():
    plain, one, other = run(), run([setup(0.0, target=Target(2.0))]), run([setup(0.0, target=Target(3.0))])
    assert shared_target([plain, one]) == Target(2.0)
    assert shared_target([plain, one, other]) is None
    (judged,) = summarize(plain, shared_target([plain, one])).targets
    assert (judged.borrowed, judged.record.missed) == (True, 3)
    assert summarize(plain).missed is None


def test_workers_that_have_just_started_are_not_judged():
    young = setup(0.0, target=Target(0.5), young=frozenset("01"))
    found = summarize(run([young, setup(35.0, target=Target(0.5))]))
    assert found.targets[0].record.measurements == 2


def test_cost_counts_executors_over_time_and_what_fewer_of_them_saved():
    found = summarize(run([setup(0.0, "01"), setup(20.0, "0"), setup(40.0, "0", quarantined=frozenset("0"))])).cost
    assert found.executor_seconds == 50.0 + 20.0
    assert (found.most, found.saved_seconds, found.out_seconds) == (2, 30.0, 10.0)
    assert found.per_million_rows == 35.0
    assert found.cpu_seconds is None


def test_processor_time_is_that_of_all_workers_between_samples():
    def worker(percent):
        return {f"worker_cpu_{kind}_percent": ((0.0, percent), (10.0, percent)) for kind in ("user", "system")}

    assert summarize(run(workers={"0": worker(50.0), "1": worker(25.0)})).cost.cpu_seconds == pytest.approx(15.0)


def test_executors_over_time_changes_where_one_came_or_went():
    assert executors_over_time(run([setup(0.0, "0"), setup(20.0, "01")])) == ((0.0, 1.0), (20.0, 2.0), (50.0, 0.0))


def test_forecasts_are_compared_with_what_came_and_with_the_last_value():
    load = tuple((float(at), 100.0 + at) for at in range(0, 51, 5))
    forecasts = (Forecast(20.0, 10.0, 120.0, 130.0, "ridge"), Forecast(40.0, 30.0, 112.0, 120.0, "ridge"))
    found = summarize(run(load=load, forecasts=forecasts)).forecasts
    assert found.count == 2
    assert found.error == pytest.approx((0 + 28 / 140) / 2)
    assert found.last_value == pytest.approx((10 / 120 + 10 / 140) / 2)
    assert (found.ahead, found.models, found.below_high) == (10.0, ("ridge",), 0.5)


def test_a_forecast_beyond_the_end_is_not_compared():
    forecasts = (Forecast(60.0, 50.0, 1.0, None, "ridge"),)
    assert summarize(run(load=((0.0, 1.0), (5.0, 1.0)), forecasts=forecasts)).forecasts is None


def test_values_between_measurements_are_on_a_line_and_unknown_in_a_pause():
    points = ((0.0, 0.0), (10.0, 10.0), (500.0, 0.0))
    assert [value_at(points, at) for at in (-1.0, 4.0, 10.0, 200.0, 500.0, 501.0)] == [None, 4.0, None, None, 0.0, None]
    assert [value_at(points, at, after=False) for at in (9.0, 25.0, 200.0)] == [0.0, 10.0, None]
