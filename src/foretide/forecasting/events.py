"""Events that a person announces: from when, for how long, and the load then over the usual one.

`2026-11-27 18:00 1h x3` is an hour of three times the usual load. The time is a local one, unless it has an offset such
as `+02:00`. An event is known in advance: it multiplies the forecasts for its time, and while it lasts models learn the
load without it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from foretide.durations import parse_duration
from foretide.errors import DurationError, ForecastError
from foretide.formatting import shorten

_FORM = re.compile(r"\s*(\S+(?:\s+\d{1,2}:\S+)?)\s+(\S(?:.*\S)?)\s+x\s*(\d+(?:\.\d*)?|\.\d+)\s*", re.ASCII)
_LARGEST = 1000.0


@dataclass(frozen=True, slots=True)
class Event:
    """A part of time in which the load is a multiple of the usual one.

    Attributes:
        start: In seconds since 1970.
        seconds: How long it lasts.
        factor: The load over the usual one.
        words: As it was announced, and by whom.
    """

    start: float
    seconds: float
    factor: float
    words: str

    def covers(self, at: float) -> bool:
        """Whether it is on at a time."""
        return self.start <= at < self.start + self.seconds


def parse_event(text: str, who: str | None = None) -> Event:
    """The event of a text.

    >>> parse_event("2026-11-27T18:00+00:00 90 min x3", "me").words
    '2026-11-27T18:00+00:00 90 min x3, announced by me'

    Raises:
        ForecastError: The text has another form, or a part of it is out of bounds.
    """
    found, event = _FORM.fullmatch(text), None
    said = text.strip() if who is None else f"{text.strip()}, announced by {who}"
    with suppress(ValueError, OverflowError, OSError, DurationError):
        event = None if found is None else Event(_seconds(found[1]), parse_duration(found[2]), float(found[3]), said)
    if event is None or not (event.seconds > 0 and 0 < event.factor <= _LARGEST and math.isfinite(event.start)):
        form = "an event must be a time, a length and a factor above 0, such as '2026-11-27 18:00 1h x3'"
        raise ForecastError(f"{form}, got {shorten(text)}")
    return event


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).astimezone().timestamp()


def problems_of(texts: Iterable[str]) -> Iterator[str]:
    """What is wrong with the texts of events, one sentence each."""
    for text in texts:
        try:
            parse_event(text)
        except ForecastError as error:
            yield f"events: {error}"


def factor_at(events: Sequence[Event], at: float) -> float:
    """The load at a time over the usual one."""
    return math.prod(event.factor for event in events if event.covers(at))


def announced_at(events: Sequence[Event], at: float) -> str | None:
    """The events at a time in words; None without any."""
    return "; ".join(event.words for event in events if event.covers(at)) or None
