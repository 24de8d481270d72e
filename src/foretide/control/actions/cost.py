"""When an action takes effect, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """When an action takes effect, in words, and how many seconds that takes beyond the next batch."""

    words: str
    seconds: float


NEXT_BATCH = Cost("from the next batch on", 0.0)
SECONDS = Cost("some seconds, while the query runs on", 15.0)
NEXT_WINDOW = Cost("a few batches from now, for all that is later in event time than what was seen", 60.0)
RESTART = Cost("a restart from the checkpoint; the query stands still meanwhile", 30.0)
