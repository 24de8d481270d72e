"""How many rows are due when: curves of load over elapsed seconds. What is in a row, the generators say."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from foretide.errors import WorkloadError
from foretide.workloads.generator import check_number, check_seed, check_whole, json_object
from foretide.workloads.randomness import random_counts, random_rows_before, uniform
from foretide.workloads.traces import load_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MIN_SECONDS = 1e-9
MAX_SECONDS = 1e9
MAX_RATE = 1e9
MIN_RATE = 1e-9
MAX_SEGMENTS = 1_000_000
MAX_COUNT = 2**53
"""Beyond this many rows a float no longer tells one row from the next."""

_PIECES_PER_TOOTH = 20


@dataclass(frozen=True)
class Curve:
    """Segments of constant rate, one after the other.

    Row i falls due at the moment the cumulative count reaches i + 1. What `rows_due` and `due_times` say
    matches exactly: row i is due at or before t if and only if more than i rows are due at t.

    >>> curve = Curve.steps([(10, 2.0), (10, 5.0)])
    >>> curve.total_rows, curve.rows_due(12.0), curve.due_times(19, 22).tolist()
    (70, 30, [10.0, 10.2, 10.4])

    Attributes:
        seconds: The length of each segment.
        rates: The rows per second of each segment.
        endless: Whether the last rate goes on for ever; otherwise nothing falls due after the last segment.
        poisson: The seed of random arrivals, as many in all; evenly spaced ones when None.
    """

    seconds: tuple[float, ...]
    rates: tuple[float, ...]
    endless: bool = False
    poisson: int | None = None

    def __post_init__(self) -> None:
        seconds, rates = _vector("seconds", self.seconds), _vector("rates", self.rates)
        if not 0 < seconds.size == rates.size <= MAX_SEGMENTS:
            raise WorkloadError(
                f"a curve has {seconds.size} segment lengths and {rates.size} rates; "
                f"give as many of one as of the other, from 1 to {MAX_SEGMENTS}."
            )
        if not isinstance(self.endless, bool):
            raise WorkloadError(f"endless must be true or false, got {self.endless!r}.")
        if self.poisson is not None:
            check_whole("poisson", self.poisson, 0, MAX_COUNT)
        _check_segments(seconds, rates)
        if self.endless and rates[-1] == 0:
            raise WorkloadError("an endless curve ends in rate 0; give a last rate above 0, or let the curve end.")
        object.__setattr__(self, "seconds", tuple(seconds.tolist()))
        object.__setattr__(self, "rates", tuple(rates.tolist()))

    @classmethod
    def constant(cls, rate: float, seconds: float | None = None) -> Self:
        """The same rate for a number of seconds, or for ever."""
        if seconds is None:
            return cls((1.0,), (rate,), endless=True)
        return cls((seconds,), (rate,))

    @classmethod
    def steps(cls, steps: Sequence[tuple[float, float]]) -> Self:
        """One segment for each pair of seconds and rate."""
        try:
            pairs = [(seconds, rate) for seconds, rate in steps]
        except (TypeError, ValueError) as error:
            raise WorkloadError("steps must be a list of pairs of seconds and rate.") from error
        return cls(tuple(seconds for seconds, _ in pairs), tuple(rate for _, rate in pairs))

    @classmethod
    def ramp(cls, start: float, end: float, seconds: float, pieces: int = 50) -> Self:
        """A rate that goes evenly from `start` to `end`, in a number of pieces; the mean is exactly halfway."""
        _check_rates(start=start, end=end)
        _check_length("seconds", seconds)
        check_whole("pieces", pieces, 1, MAX_SEGMENTS)
        return cls((seconds / pieces,) * pieces, tuple(_ramp(start, end, pieces).tolist()))

    @classmethod
    def sawtooth(cls, low: float, high: float, period: float, seconds: float) -> Self:
        """A rate that climbs from `low` to `high` in each period and then drops at once."""
        _check_rates(low=low, high=high)
        _check_length("period", period)
        _check_length("seconds", seconds)
        teeth = math.ceil(seconds / period)
        check_whole("the number of periods in seconds", teeth, 1, MAX_SEGMENTS // _PIECES_PER_TOOTH)
        edges = np.arange(teeth * _PIECES_PER_TOOTH) * (period / _PIECES_PER_TOOTH)
        edges = edges[edges < seconds]
        rates = np.tile(_ramp(low, high, _PIECES_PER_TOOTH), teeth)[: edges.size]
        return cls(tuple(np.diff(edges, append=seconds).tolist()), tuple(rates.tolist()))

    @classmethod
    def fluctuating(cls, seed: int, low: float, high: float, every: float, seconds: float) -> Self:
        """A rate drawn anew from `low` to `high` every `every` seconds, all in between equally likely."""
        check_seed(seed)
        _check_rates(low=low, high=high)
        _check_length("every", every)
        _check_length("seconds", seconds)
        if high < low:
            raise WorkloadError(f"high is {high:g}, below low, {low:g}; give a high that is at least low.")
        pieces = math.ceil(seconds / every)
        check_whole("the number of changes in seconds", pieces, 1, MAX_SEGMENTS)
        edges = np.arange(pieces) * every
        edges = edges[edges < seconds]
        rates = low + (high - low) * uniform(seed, "curve.fluctuating", 0, edges.size)
        return cls(tuple(np.diff(edges, append=seconds).tolist()), tuple(rates.tolist()))

    @classmethod
    def from_trace(
        cls, name: str, *, seconds: float, mean_rate: float, first: int = 0, samples: int | None = None
    ) -> Self:
        """A slice of a recorded trace, squeezed into `seconds` and scaled to `mean_rate`.

        Args:
            name: One of `foretide.workloads.traces.TRACES`.
            seconds: How long the replay lasts.
            mean_rate: Rows per second over the whole replay.
            first: The first sample of the slice.
            samples: How many samples the slice has; without it, all from `first` on.
        """
        trace = load_trace(name).values
        _check_rates(mean_rate=mean_rate)
        _check_length("seconds", seconds)
        check_whole("first", first, 0, trace.size - 1)
        length = trace.size - first if samples is None else samples
        check_whole("samples", length, 1, trace.size - first)
        values = trace[first : first + length]
        if not values.any():
            raise WorkloadError(f"samples {first} to {first + length} of {name} are all 0; choose another slice.")
        return cls((seconds / length,) * length, tuple((values * (mean_rate / values.mean())).tolist()))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The curve that `to_json` wrote."""
        fields = json_object("the curve", text)
        if not {"seconds", "rates"} <= fields.keys() <= {"seconds", "rates", "endless", "poisson"}:
            raise WorkloadError(
                f"the curve has the fields {', '.join(sorted(fields)) or 'none'}; "
                "give seconds and rates, endless if it goes on for ever, and poisson for random arrivals."
            )
        return cls(**fields)

    def with_poisson_arrivals(self, seed: int) -> Self:
        """The same load with arrivals at random: a Poisson process, with as many rows in all.

        Of each thousand rows, about, the moments are drawn independently of each other within their time.
        """
        return replace(self, poisson=seed)

    def surging(self, start: float, factor: float) -> Self:
        """The same load, and `factor` times as much from second `start` on.

        >>> Curve.steps([(10, 2.0)]).surging(4, 3.0)
        Curve(seconds=(4.0, 6.0), rates=(2.0, 6.0), endless=False, poisson=None)
        """
        check_number("start", start, 0, MAX_SECONDS)
        check_number("factor", factor, 0, MAX_RATE)
        seconds: list[float] = []
        rates: list[float] = []
        for begin, length, rate in zip(self._edges, self.seconds, self.rates, strict=False):
            before = min(max(start - float(begin), 0.0), length)
            parts = ((before, rate), (length - before, rate * factor))
            for part, part_rate in parts:
                if part > MIN_SECONDS:
                    seconds.append(part)
                    rates.append(part_rate)
        return replace(self, seconds=tuple(seconds), rates=tuple(rates))

    def to_json(self) -> str:
        """The curve as text, without loss."""
        return json.dumps(asdict(self))

    @property
    def duration(self) -> float:
        """Seconds until nothing more falls due; infinite for an endless curve."""
        return float(self._edges[-1])

    @cached_property
    def total_rows(self) -> int | None:
        """How many rows fall due in all; None for an endless curve.

        A sum of rates times seconds that misses a whole number only by rounding counts as that number.
        """
        if self.endless:
            return None
        count = float(self._counts[-1])
        return round(count) if math.isclose(count, round(count), rel_tol=1e-12, abs_tol=1e-9) else int(count)

    def rate_at(self, elapsed: float) -> float:
        """Rows per second at that moment; a segment's rate holds from its start until just before its end."""
        _check_elapsed(elapsed)
        if not 0 <= elapsed < self.duration:
            return self.rates[-1] if self.endless and elapsed > 0 else 0.0
        return self.rates[int(np.searchsorted(self._edges, elapsed, side="right")) - 1]

    def rows_due(self, elapsed: float) -> int:
        """How many rows have fallen due by then; never fewer for a later moment."""
        _check_elapsed(elapsed)
        if elapsed <= 0:
            return 0
        total = self.total_rows
        if total is not None and elapsed >= self.duration:
            return total
        guess, limit = self._cumulative(elapsed), MAX_COUNT if total is None else total
        if self.poisson is None:
            return self._settle(elapsed, guess, limit)
        return random_rows_before(lambda counts: self._due(counts) <= elapsed, self.poisson, guess, limit)

    def due_times(self, first: int, last: int) -> NDArray[np.float64]:
        """The elapsed seconds at which rows [first, last) fall due, in ascending order."""
        total = MAX_COUNT if self.total_rows is None else self.total_rows
        check_whole("last", last, 0, total)
        check_whole("first", first, 0, last)
        if self.poisson is None:
            return self._due(np.arange(first + 1, last + 1, dtype=np.float64))
        return self._due(random_counts(self.poisson, first, last, total))

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        """The moments between which the segments lie."""
        return self._running(np.asarray(self.seconds))

    @cached_property
    def _counts(self) -> NDArray[np.float64]:
        """The cumulative count at each edge."""
        return self._running(np.asarray(self.seconds) * self._rates)

    @cached_property
    def _rates(self) -> NDArray[np.float64]:
        """The rates as an array: a long tuple is slow to turn into one."""
        return np.asarray(self.rates)

    def _running(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.concatenate(([0.0], np.cumsum(steps)))
        if self.endless:
            sums[-1] = np.inf
        return sums

    def _due(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The moments at which the cumulative count reaches `counts`, never past the end of their segment."""
        counts = np.minimum(counts, self._counts[-1])
        segment = np.searchsorted(self._counts[1:], counts, side="left")
        within = (counts - self._counts[segment]) / self._rates[segment]
        times: NDArray[np.float64] = np.minimum(self._edges[segment] + within, self._edges[segment + 1])
        return times

    def _cumulative(self, elapsed: float) -> int:
        segment = min(int(np.searchsorted(self._edges, elapsed, side="right")), len(self.rates)) - 1
        since = elapsed - float(self._edges[segment])
        count = float(self._counts[segment]) + since * self.rates[segment]
        if count >= MAX_COUNT:
            raise WorkloadError(f"after {elapsed:g} s over {MAX_COUNT} rows are due; ask for an earlier moment.")
        return int(count)

    def _settle(self, elapsed: float, guess: int, limit: int) -> int:
        """Moves a count that may be off by rounding to where it agrees with the due times."""
        rows = min(guess, limit)
        while rows > 0 and self._due(np.array([rows], dtype=np.float64))[0] > elapsed:
            rows -= 1
        while rows < limit and self._due(np.array([rows + 1], dtype=np.float64))[0] <= elapsed:
            rows += 1
        return rows


def _vector(name: str, values: object) -> NDArray[np.float64]:
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.array(None)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise WorkloadError(f"{name} must be a list of numbers, one for each segment.")
    return array.astype(np.float64)


def _check_segments(seconds: NDArray[np.float64], rates: NDArray[np.float64]) -> None:
    if not ((seconds > 0) & (seconds <= MAX_SECONDS)).all() or not seconds.sum() <= MAX_SECONDS:
        raise WorkloadError(f"a segment's length is out of bounds; give lengths above 0, {MAX_SECONDS:g} s in all.")
    if not ((rates == 0) | ((rates >= MIN_RATE) & (rates <= MAX_RATE))).all():
        raise WorkloadError(f"a rate is out of bounds; give 0, or {MIN_RATE:g} to {MAX_RATE:g} rows per second.")
    if not (seconds * rates).sum() < MAX_COUNT:
        raise WorkloadError(f"the curve has more than {MAX_COUNT} rows; give shorter segments or lower rates.")


def _check_rates(**rates: float) -> None:
    for name, rate in rates.items():
        check_number(name, rate, 0, MAX_RATE)


def _check_length(name: str, seconds: float) -> None:
    check_number(name, seconds, MIN_SECONDS, MAX_SECONDS)


def _check_elapsed(elapsed: float) -> None:
    check_number("elapsed", elapsed, -math.inf, math.inf)


def _ramp(start: float, end: float, pieces: int) -> NDArray[np.float64]:
    """The rate in the middle of each piece of a straight line."""
    middles = (np.arange(pieces) + 0.5) / pieces
    return start + (end - start) * middles
