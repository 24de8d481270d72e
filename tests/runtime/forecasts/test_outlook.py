"""One outlook from seconds to a week: seasons, history that is handed in, trained models, events, restarts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from foretide.errors import ForecastError
from foretide.forecasting.events import parse_event
from foretide.forecasting.load_history import LOAD, Earlier
from foretide.forecasting.saved import save_model, train
from foretide.forecasting.series import Series
from foretide.metrics.metric import Sample
from foretide.runtime.forecasts.handed_in import forecast_service
from foretide.runtime.forecasts.service import ForecastService
from foretide.settings.forecasts import LONGER, ForecastSettings
from runtime.forecasts.test_service import Clock, after_fits

KEY = (LOAD, "requests")
SETTINGS = ForecastSettings(spouts=("requests",), workers=False, models=("seasonal last value", "ewma", "ridge"))
DAY, HOUR = 86_400.0, 3600.0
NOW = 20_776 * DAY + 9 * HOUR + 30


def load_at(at):
    """A wave every day, lower at weekends."""
    weekend = 0.5 if int(at // DAY) % 7 in (2, 3) else 1.0
    return weekend * (500.0 + 400.0 * math.sin(2 * math.pi * at / DAY))


def before(now, step, seconds, noise=10.0):
    rng = np.random.default_rng(7)
    at = np.arange(now - seconds, now, step)
    values = [max(load_at(each) + rng.normal(0, noise), 0.0) for each in at]
    return Earlier(tuple(zip(at.tolist(), values, strict=True)), step)


def outlook(service, at):
    return {point.seconds: point for point in service.forecasts(at).by_series[KEY].points}


def seen(service, clock, now, seconds=3):
    """The service after some seconds of load, all that is known of the present."""
    for second in range(seconds):
        clock.now = now + second
        service.see([Sample(LOAD, "requests", clock.now, load_at(clock.now))])
        service.turn()
    clock.now += 1.2
    service.turn()
    return service


@pytest.fixture(scope="module", name="two_days")
def fitted_to_two_days_of_minutes(tmp_path_factory):
    """A service that was handed two days of minutes and has fitted them; and its folder."""
    folder, clock = tmp_path_factory.mktemp("models"), Clock(NOW)
    history = {"requests": before(NOW, 60.0, 2 * DAY)}
    service = ForecastService(SETTINGS, lambda: history, folder, clock=clock)
    after_fits(service, 2)  # of minutes and of hours
    return seen(service, clock, NOW), folder


def test_after_two_days_that_were_handed_in_the_day_is_foreseen_at_once(two_days):
    service, at = two_days[0], NOW + 3.2
    points = outlook(service, at)
    assert max(points) > 7 * DAY
    for ahead in (1800.0, HOUR):
        assert points[ahead].mean == pytest.approx(load_at(at + ahead), rel=0.1)
        assert abs(load_at(at + ahead) - load_at(at)) > 0.3 * abs(points[ahead].mean - load_at(at + ahead))
        assert points[ahead].record.error < points[ahead].record.naive  # so it is trusted from the first moment
    assert points[ahead].by != "last value"


def test_of_each_time_the_finest_step_that_reaches_it_speaks(two_days):
    seconds = list(outlook(two_days[0], NOW + 3.2))
    assert seconds == [*SETTINGS.horizons, *(each for step in LONGER for each in step.horizons)]


def test_a_restart_forgets_neither_days_nor_what_they_were_good_for(two_days):
    service, folder = two_days
    service.close()
    again = ForecastService(SETTINGS, folder=folder, clock=Clock(NOW + 4.2))
    again.turn()
    assert again.problems == []
    assert outlook(again, NOW + 4.3) == outlook(service, NOW + 4.3)


def test_after_two_weeks_of_hours_the_week_is_foreseen():
    clock = Clock(NOW)
    history = {"requests": before(NOW, HOUR, 15 * DAY)}
    service = seen(after_fits(ForecastService(SETTINGS, lambda: history, clock=clock)), clock, NOW)
    points = outlook(service, NOW + 3.2)
    for ahead in (8 * HOUR, 16 * HOUR, 172 * HOUR):
        assert points[ahead].mean == pytest.approx(load_at((NOW + ahead) // HOUR * HOUR), rel=0.2), ahead


def test_memory_is_bounded_in_every_step():
    service = ForecastService(SETTINGS, clock=Clock(0.0))
    service.turn()
    for each in service.forecasters:
        assert each.settings.steps(each.settings.max_history) <= 7200


# ---- events


def test_an_announced_event_is_in_the_forecasts_of_its_time_with_who_announced_it():
    begin = "1970-01-01 00:01:40+00:00"
    service = ForecastService(SETTINGS, clock=Clock(), events=(parse_event(f"{begin} 20s x3", "me@here"),))
    service.see([Sample(LOAD, "requests", float(second), 100.0) for second in range(60)])
    service.turn()
    points = outlook(service, 59.5)
    assert {seconds: round(point.mean) for seconds, point in points.items()} == {
        1.0: 100, 3.0: 100, 10.0: 100, 30.0: 100, 40.5: 300, 59.5: 300, 60.0: 300,
    }  # fmt: skip
    assert points[40.5].announced == f"{begin} 20s x3, announced by me@here"
    assert points[30.0].announced is None
    assert points[60.0].quantiles[0.9] > points[30.0].quantiles[0.9]


def test_models_learn_the_load_without_the_event():
    event = parse_event("1970-01-01 00:01:40+00:00 20s x3")
    service = ForecastService(SETTINGS, clock=Clock(), events=(event,))
    usual = [300.0 if event.covers(second) else 100.0 for second in range(115)]
    service.see([Sample(LOAD, "requests", float(second), rate) for second, rate in enumerate(usual)])
    service.turn()
    assert set(service.loads.loads["requests"].values) == {100.0}
    points = outlook(service, 114.5)
    assert (round(points[3.0].mean), round(points[10.0].mean)) == (300, 100)


# ---- what is handed to a pipeline


def test_a_trained_model_is_asked_and_the_imported_history_is_learnt(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path))
    at = np.arange(NOW - 3 * DAY, NOW, 300.0)
    series = Series("load", tuple(load_at(each) for each in at), 300.0, float(at[-1]))
    save_model(tmp_path / "model", *train(series, horizons=(1, 12)))
    settings = replace(SETTINGS, model=str(tmp_path / "model"), longer=())
    service = forecast_service("shop", settings, None, None)
    service.turn()
    assert service.problems == []
    last = service._loads[1].loads["requests"].steps.last
    points = outlook(service, last * 300.0 + 301.0)
    assert list(points) == [300.0, HOUR]
    assert points[HOUR].record.error < points[HOUR].record.naive
    with pytest.raises(ForecastError, match="one source"):
        forecast_service("shop", replace(settings, spouts=("a", "b")), None, None)


def test_a_history_of_other_sources_is_refused_before_anything_starts(tmp_path):
    file = tmp_path / "range.json"
    file.write_text('{"result": [{"metric": {"subject": "others"}, "values": [[1, "2"]]}]}')
    with pytest.raises(ForecastError, match=r"others.*requests"):
        forecast_service("shop", replace(SETTINGS, history=(str(file),)), None, None)
