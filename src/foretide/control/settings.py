"""What the loop may do at most, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretide.durations import Seconds
from foretide.errors import ControlSettingError

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """A part of every day (UTC), in seconds after midnight; may run past midnight."""

    start: Seconds
    end: Seconds

    def __post_init__(self) -> None:
        if not (0 <= self.start < _DAY and 0 <= self.end <= _DAY):
            raise ControlSettingError(f"excluded {self.start:g}..{self.end:g}: give seconds after midnight, 0 to 86400")

    def holds(self, at: float) -> bool:
        """Whether a time lies within."""
        second = at % _DAY
        if self.start <= self.end:
            return self.start <= second < self.end
        return second >= self.start or second < self.end


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What the loop may do at most, and how often.

    Attributes:
        least_replicas: Fewest replicas of any edge.
        most_replicas: Most replicas of any edge; None for the pool.
        least_rows: Fewest rows a batch that a spout may be limited to.
        least_workers: Workers that stay in service whatever anybody wishes.
        cooldown: Seconds between two changes of the same target.
        cooldown_down: The same before replicas or executors are given back.
        down_window: Seconds for which the most that was wanted counts before anything is given back.
        largest_up: Most that a number may grow in one decision, as a factor.
        largest_down: Most of a number that may be given back in one decision, as a share.
        band: Changes smaller than this share are not worth it: of a number given back, or of a split.
        settle_batches: Batches that a change must have been in force before the next one of the same target.
        quota: Most actions in an hour.
        excluded: Parts of the day in which nothing is changed.
    """

    least_replicas: int = 1
    most_replicas: int | None = None
    least_rows: int = 1
    least_workers: int = 1
    cooldown: Seconds = 10.0
    cooldown_down: Seconds = 60.0
    down_window: Seconds = 300.0
    largest_up: float = 8.0
    largest_down: float = 0.5
    band: float = 0.05
    settle_batches: int = 1
    quota: int = 240
    excluded: tuple[DailyWindow, ...] = field(default=())

    def __post_init__(self) -> None:
        lowest = max(self.least_replicas, 1)
        bounds = {
            "least_replicas": (self.least_replicas >= 1, "1 or more"),
            "most_replicas": (self.most_replicas is None or self.most_replicas >= lowest, f"{lowest} or more, or none"),
            "least_rows": (self.least_rows >= 1, "1 or more"),
            "least_workers": (self.least_workers >= 1, "1 or more"),
            "cooldown": (self.cooldown >= 0, "0 or more"),
            "cooldown_down": (self.cooldown_down >= 0, "0 or more"),
            "down_window": (self.down_window >= 0, "0 or more"),
            "largest_up": (self.largest_up > 1, "more than 1"),
            "largest_down": (0 < self.largest_down <= 1, "more than 0, at most 1"),
            "band": (0 <= self.band < 1, "0 or more, less than 1"),
            "settle_batches": (self.settle_batches >= 0, "0 or more"),
            "quota": (self.quota >= 1, "1 or more"),
        }
        bad = [f"{name}={getattr(self, name)} (give {what})" for name, (good, what) in bounds.items() if not good]
        if bad:
            raise ControlSettingError(f"guards out of bounds: {', '.join(bad)}")
