"""How much the time between two arrivals of an operator varies, from what its tasks counted while they ran.

A task counts a tuple when it takes it. If it is busy, that is later than the arrival: the gaps then are partly those of
its work. With utilization r and work that varies by s, arrivals that vary by a are taken with gaps that vary by

    r^2 s + (1 - r^2) a - 2 r^2 (1 - r) s / (1 + r s)

The first two terms are the usual approximation for departures; the third is the difference between times of departure
and times of taking, exact for Poisson arrivals and work of a gamma distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from foretide.metrics.task_meters import Work, arrival_scv

MEMORY_SECONDS = 20.0
"""What is older counts for less than 1 / e."""

_MAX_BUSY = 0.9
"""Beyond it the gaps tell hardly anything about arrivals."""

_FORGOTTEN = 0.01


@dataclass
class ArrivalVariation:
    """The variation of one operator's arrivals, over some seconds: the gaps of half a second are too few to tell it.

    Attributes:
        takes_ahead: Whether its tasks take a tuple while they still work on the one before, as those that hand tuples
            to Python do: gaps are those of arrivals then.
    """

    takes_ahead: bool = False
    _tasks: dict[tuple[str, int | None], _Lately] = field(default_factory=dict)

    def add(self, done: Mapping[tuple[str, int | None], Work], seconds: float) -> None:
        """What the tasks did in the last seconds, by executor and task."""
        kept = math.exp(-seconds / MEMORY_SECONDS)
        places = self._tasks.keys() | done.keys()
        tasks = {each: self._tasks.get(each, _Lately()).and_then(kept, done.get(each, Work())) for each in places}
        self._tasks = {place: task for place, task in tasks.items() if task.gaps > _FORGOTTEN}

    @property
    def scv(self) -> float | None:
        """The squared variation coefficient; None if there were too few arrivals."""
        return arrival_scv(task.arrived(takes_ahead=self.takes_ahead) for task in self._tasks.values())


@dataclass(frozen=True, slots=True)
class _Lately:
    """What a task did lately: the fields of `Work`, but what was done long ago counts for less."""

    gaps: float = 0.0
    gap_seconds: float = 0.0
    gap_squares: float = 0.0
    timed: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0

    def and_then(self, kept: float, done: Work) -> _Lately:
        """What was done before, as far as it still counts, and what was done since."""
        return _Lately(
            gaps=kept * self.gaps + done.gaps,
            gap_seconds=kept * self.gap_seconds + done.gap_seconds,
            gap_squares=kept * self.gap_squares + done.gap_squares,
            timed=kept * self.timed + done.timed,
            seconds=kept * self.seconds + done.seconds,
            squares=kept * self.squares + done.squares,
        )

    def arrived(self, *, takes_ahead: bool) -> Work:
        """The gaps between arrivals, as if each tuple had been taken when it came."""
        if not self.gap_seconds:
            return Work()
        mean = self.gap_seconds / self.gaps
        taken = max(0.0, self.gap_squares / self.gaps / mean**2 - 1)
        taken *= 1 + (1 + taken) / self.gaps  # few gaps vary less than many, as their mean is made of them
        scv = taken if takes_ahead else self._of_arrivals(taken, mean)
        return Work(gaps=self.gaps, gap_seconds=self.gap_seconds, gap_squares=(1 + scv) * self.gaps * mean**2)

    def _of_arrivals(self, taken: float, gap: float) -> float:
        """The variation of arrivals, from that of the gaps between tuples that a busy task took."""
        if not self.timed or not self.seconds:
            return taken
        mean = self.seconds / self.timed
        scv = max(0.0, self.squares / self.timed / mean**2 - 1)
        busy = min(mean / gap, _MAX_BUSY)
        own = busy**2 * scv * (1 - 2 * (1 - busy) / (1 + busy * scv))
        return max(0.0, (taken - own) / (1 - busy**2))
