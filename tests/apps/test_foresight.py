"""What `foretide demo foresight` notes of its forecasts for the picture; the runs themselves need Spark."""

from types import SimpleNamespace

import pytest

from foretide.apps import foresight
from foretide.apps.foresight import FORESEEN_SECONDS, SPOUT, Wave, _Run
from foretide.control.world.world import Forecast, ForecastPoint
from foretide.settings.forecasts import ForecastSettings


@pytest.fixture
def run(monkeypatch):
    """A run that began at 1000, with a forecast of 1 s and of 10 s ahead."""
    monkeypatch.setattr(foresight, "origin_of", lambda _: 1000.0)
    points = tuple(ForecastPoint(at, 50.0, {0.1: 40.0 + at, 0.9: 60.0 + at}) for at in (1.0, FORESEEN_SECONDS))
    found = {("arrival_rate", SPOUT): Forecast("ridge", points)}
    controller = SimpleNamespace(forecast=lambda metric, subject: found.get((metric, subject)))
    return _Run("forecasts on", None, Wave().curve(), 1, controller)


def test_the_forecast_of_each_second_is_noted_for_the_time_that_it_is_about(run):
    for now in (1000.0, 1000.1, 1000.9, 1001.0, 1002.5):
        run.look_ahead(now)
    assert run.foreseen == [(10.0, 50.0, 70.0), (11.0, 50.0, 70.0), (12.5, 50.0, 70.0)]


def test_where_nothing_is_forecast_nothing_is_noted(run):
    run.controller = SimpleNamespace(forecast=lambda *_: None)
    run.look_ahead(1000.0)
    run.controller = None
    run.look_ahead(1001.0)
    assert run.foreseen == []


def test_what_is_drawn_is_among_the_horizons_of_live_forecasts():
    assert FORESEEN_SECONDS in ForecastSettings().horizons
