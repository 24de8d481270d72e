"""Events that people announce."""

from datetime import UTC, datetime

import pytest

from foretide.errors import ForecastError, SettingsError
from foretide.forecasting.events import announced_at, factor_at, parse_event
from foretide.settings.forecasts import ForecastSettings

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC).timestamp()


def test_an_event_has_a_begin_a_length_and_a_factor():
    event = parse_event("2026-11-27 12:00+00:00 1h 30 min x2.5", "me@here")
    assert (event.start, event.seconds, event.factor) == (NOON, 5400.0, 2.5)
    assert event.words == "2026-11-27 12:00+00:00 1h 30 min x2.5, announced by me@here"
    local = parse_event("2026-11-27 12:00 1h x3")
    assert datetime.fromtimestamp(local.start).isoformat() == "2026-11-27T12:00:00"  # noqa: DTZ006 local on purpose


@pytest.mark.parametrize(
    "text", ["", "tomorrow 1h x3", "2026-11-27 18:00 1h", "2026-11-27 18:00 x3", "2026-11-27 18:00 1h x0",
             "2026-13-01 18:00 1h x3", "2026-11-27 18:00 0s x3", "9999-12-31 23:59+00:00 1 parsec x3"],
)  # fmt: skip
def test_what_is_no_event_is_refused_with_an_example(text):
    with pytest.raises(ForecastError, match="2026-11-27 18:00 1h x3"):
        parse_event(text)
    with pytest.raises(SettingsError, match=r"forecasts\.events"):
        ForecastSettings(events=(text,))


def test_events_that_overlap_multiply():
    events = (parse_event("2026-11-27 12:00+00:00 1h x3"), parse_event("2026-11-27 12:30+00:00 1h x2"))
    assert [factor_at(events, NOON + minutes * 60) for minutes in (-1, 0, 30, 60, 90)] == [1, 3, 6, 2, 1]
    assert announced_at(events, NOON - 1) is None
    assert announced_at(events, NOON + 3599).count("; ") == 1
