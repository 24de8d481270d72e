"""Earlier load that is handed in, whatever it comes from."""

import json
from datetime import UTC, datetime

import pytest

from foretide.errors import ForecastError, StoreError
from foretide.forecasting.load_history import ANY, Earlier, merged, read_history
from foretide.metrics.metric import Sample
from foretide.store.metric_store import MetricStore

NOW = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
WEEK = 7 * 86_400


def test_a_file_with_times_keeps_them_and_an_old_one_is_moved_by_whole_weeks(tmp_path):
    file = tmp_path / "load.csv"
    file.write_text("time,rate\n2026-11-19T23:00:00Z,5\n2026-11-19T23:10:00Z,\n2026-11-19T23:20:00Z,7\n")
    assert read_history(str(file), NOW)[ANY].samples == ((NOW - 3600, 5.0), (NOW - 2400, 7.0))
    later = read_history(str(file), NOW + 5 * WEEK)[ANY]
    assert later.samples == ((NOW - 3600 + 5 * WEEK, 5.0), (NOW - 2400 + 5 * WEEK, 7.0))


def test_a_file_without_times_ends_now_and_needs_its_step(tmp_path):
    file = tmp_path / "load.csv"
    file.write_text("rate\n5\n6\n7\n")
    assert read_history(str(file), NOW, 60.0)[ANY].samples == ((NOW - 120, 5.0), (NOW - 60, 6.0), (NOW, 7.0))
    with pytest.raises(ForecastError, match="no times"):
        read_history(str(file), NOW)


def test_an_answer_of_prometheus_has_a_series_for_each_source(tmp_path):
    file = tmp_path / "range.json"
    series = [
        {"metric": {"subject": name}, "values": [[NOW - 10, str(rate)], [NOW, "NaN"]]}
        for name, rate in (("a", 1), ("b", 2))
    ]
    document = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    file.write_text(json.dumps(document))
    found = read_history(str(file), NOW)
    assert {name: earlier.samples for name, earlier in found.items()} == {
        "a": ((NOW - 10, 1.0),), "b": ((NOW - 10, 2.0),)
    }  # fmt: skip
    for wrong in ("[]", "{}", '{"result": [{}]}', "no json"):
        file.write_text(wrong)
        with pytest.raises(ForecastError, match="range query"):
            read_history(str(file), NOW)


def test_a_store_has_the_load_of_each_source_that_was_measured(tmp_path):
    place = str(tmp_path / "metrics.db")
    with MetricStore.open(place) as store:
        store.write("shop", [Sample("arrival_rate", "lines", NOW + i, float(i)) for i in range(3)])
        store.write("shop", [Sample("cpu.percent", "lines", NOW, 50.0)])
    assert read_history(place, NOW + 3)["lines"] == Earlier(((NOW, 0.0), (NOW + 1, 1.0), (NOW + 2, 2.0)), 1.0)
    with pytest.raises(StoreError):
        read_history(str(tmp_path / "none.db"), NOW)


def test_steps_of_another_length_get_means_or_what_lies_between():
    minutes = Earlier(tuple((60.0 * i, float(i)) for i in range(10)), 60.0)
    assert minutes.in_steps(300.0, 5) == ([2.0, 7.0], 1)
    assert minutes.in_steps(300.0, 1) == ([7.0], 1)
    assert minutes.in_steps(30.0, 3) == ([8.0, 8.5, 9.0], 18)
    assert minutes.in_steps(1.0, 5) is None  # too coarse to say anything of seconds
    gap = Earlier(((0.0, 1.0), (1.0, 1.0), (3.0, 5.0)), 1.0)
    assert gap.in_steps(1.0, 9) == ([1.0, 1.0, None, 5.0], 3)


def test_of_histories_that_overlap_the_later_one_counts():
    one, two = ({"a": Earlier(((0.0, first), (1.0, 1.0)), 1.0)} for first in (3.0, 4.0))
    assert merged([one, two, {"b": one["a"]}]) == {"a": two["a"], "b": one["a"]}
