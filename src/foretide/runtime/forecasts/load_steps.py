"""Steps of equal length out of what is measured at any times: what a model learns from a running pipeline."""

from __future__ import annotations

import math

from foretide.forecasting.series import on_a_grid

LONGEST_GAP = 600
"""Steps: a longer silence, or a clock that was set forward, counts as this many."""

_LATE = 5
_GRACE = 0.25
_FADING = 0.2


class TimeSteps:
    """Collects measurements and hands out whole steps, oldest first; a step is whole once its time is over.

    A figure that is a few steps late is left out. One from longer ago means that the clock was set back: steps then
    go on from there.

    >>> grid = TimeSteps("load", 1.0)
    >>> [grid.add(at, value) for at, value in ((0.2, 4.0), (0.8, 6.0), (3.1, 9.0))]
    [[], [], [5.0, None, None]]
    """

    def __init__(self, name: str, step: float) -> None:
        self.name, self.step = name, step
        self.last: int | None = None
        """The number of the last whole step, counted from time 0."""
        self._open: list[tuple[float, float]] = []
        self._newest = -math.inf
        self._gap = 0.0

    def add(self, at: float, value: float) -> list[float | None]:
        """Take in one measurement; the steps that became whole by it. What is no load is left out."""
        if not math.isfinite(at) or not 0 <= value < math.inf:
            return []
        number = self.number(at)
        newest = self.number(self._open[0][0]) if self._open else self.last
        if newest is not None and number < newest + (not self._open):
            if newest - number >= _LATE:
                self.last, self._open = number - 1, [(at, value)]
            return []
        closed = self._close(number) if self._open and newest is not None and number > newest else []
        self._note(at)
        self._open.append((at, value))
        return closed

    def pass_time(self, now: float) -> list[float | None]:
        """The step that is over although nothing came after it; a quarter of a step is left for what comes late.

        It counts as over already if the next figure is expected after its end: what is newest matters most. Should
        one come nevertheless, it is left out.
        """
        if not self._open:
            return []
        begun = self.number(self._open[0][0])
        expects_more = self._gap == 0 or self.number(self._newest + self._gap) <= begun
        if expects_more and self.number(now - _GRACE * self.step) <= begun:
            return []
        return self._close(begun + 1)

    def _note(self, at: float) -> None:
        """Keep how long it usually takes from one figure to the next."""
        gap = min(max(at - self._newest, 0.0), LONGEST_GAP * self.step)
        if self._newest > -math.inf:
            self._gap = gap if self._gap == 0 else self._gap + _FADING * (gap - self._gap)
        self._newest = at

    def go_on_from(self, last: int) -> None:
        """Go on behind a step that is known from elsewhere."""
        self.last, self._open = last, []

    def number(self, at: float) -> int:
        """The number of the step that a time lies in."""
        return int(at // self.step)

    def _close(self, number: int) -> list[float | None]:
        """From the step after the last whole one to the one before `number`."""
        begun = self.number(self._open[0][0])
        before = 0 if self.last is None else begun - self.last - 1
        values = on_a_grid(self.name, self._open, self.step).values
        after = number - begun - 1
        self.last, self._open = number - 1, []
        return [*[None] * min(before, LONGEST_GAP), *values, *[None] * min(after, LONGEST_GAP)]
