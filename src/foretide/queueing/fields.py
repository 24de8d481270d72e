"""Reads the fields of a model file: each within its bounds, and every problem in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from foretide.durations import parse_duration
from foretide.errors import DurationError, Problem
from foretide.formatting import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a number. They keep every result within what a float can express and a person can read."""

    low: float
    high: float
    zero: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value is within; not a number is not."""
        return self.low <= value <= self.high or (self.zero and value == 0)

    def __str__(self) -> str:
        low = f"{self.low:g}".replace("e-0", "e-")
        return f"{'0, or a number' if self.zero else 'a number'} between {low} and {self.high:,.0f}"


RATE = Range(1e-9, 1e12)
ARRIVALS = Range(1e-9, 1e12, zero=True)
AMOUNT = Range(1e-9, 1e6, zero=True)
"""Gains, variation coefficients, factors on arrivals and weights."""
FACTOR = Range(1e-6, 1e6)
SECONDS = Range(1e-9, 1e9, zero=True)
POSITIVE_SECONDS = Range(1e-9, 1e9)
DURATION = Range(1e-3, 3e6)
MAX_COUNT = 1_000_000
"""Most processors, cores or tasks."""


@dataclass(slots=True)
class FieldReader:
    """One table of a file. Read each known field, then `finish` to report the others.

    >>> problems: list[Problem] = []
    >>> table = FieldReader({"gain": "much", "gian": 2}, "flow 1", problems)
    >>> table.number("gain", 1.0, AMOUNT)
    1.0
    >>> table.finish()
    >>> [problem.what for problem in problems]
    ["gain is 'much'", "unknown field 'gian'"]
    """

    table: Mapping[str, Any]
    where: str
    problems: list[Problem]
    known: set[str] = field(default_factory=set)

    def take(self, name: str) -> Any:
        """The field as it is; None if it is missing."""
        self.known.add(name)
        return self.table.get(name)

    def _refuse(self, name: str, value: object, wanted: str, default: T) -> T:
        what = f"'{name}' is missing" if value is None else f"{name} is {shorten(value)}"
        self.problems.append(Problem(self.where, what, f"Give {wanted}."))
        return default

    def number(self, name: str, default: float, within: Range, *, needed: bool = False) -> float:
        """A number within bounds."""
        value = self.take(name)
        if value is None and not needed:
            return default
        return float(value) if _fits(value, within) else self._refuse(name, value, str(within), default)

    def seconds(self, name: str, default: float, within: Range = SECONDS, *, needed: bool = False) -> float:
        """A duration within bounds: a number of seconds, or text such as "2s" or "10 min"."""
        given = self.take(name)
        if given is None and not needed:
            return default
        try:
            value: object = parse_duration(given) if isinstance(given, str) else given
        except DurationError:
            value = None
        wanted = f"seconds ({within}), or text such as '2s'"
        return float(value) if _fits(value, within) else self._refuse(name, given, wanted, default)

    def whole(self, name: str, default: T, *, minimum: int, maximum: int = MAX_COUNT, needed: bool = False) -> int | T:
        """A whole number within bounds."""
        value = self.take(name)
        if value is None and not needed:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            return self._refuse(name, value, f"a whole number between {minimum} and {maximum:,}", default)
        return value

    def text(self, name: str) -> str:
        """A text that must be there, of printable characters."""
        value = self.take(name)
        fits = isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT and value.isprintable()
        wanted = f"a text of 1 to {_LONGEST_TEXT} printable characters"
        return value if fits else self._refuse(name, value, wanted, "")

    def flag(self, name: str) -> bool:
        """True or false; false if it is not there."""
        value = self.take(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        return self._refuse(name, value, "true or false", default=False)

    def choice(self, name: str, choices: Iterable[T], default: T, *, needed: bool = False) -> T:
        """One of a few words."""
        value = self.take(name)
        for word in choices:
            if value == word:
                return word
        wanted = "one of " + ", ".join(str(word) for word in choices)
        return default if value is None and not needed else self._refuse(name, value, wanted, default)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of amounts."""
        value = self.take(name)
        if isinstance(value, list) and all(_fits(item, AMOUNT) for item in value):
            return tuple(float(item) for item in value)
        return self._refuse(name, value, f"a list of numbers, each {AMOUNT}", ())

    def pairs(self, name: str, first: Range, second: Range) -> tuple[tuple[float, float], ...]:
        """A list of pairs of numbers, each within its bounds."""
        value = self.take(name)
        if value is None:
            return ()
        pairs = value if isinstance(value, list) else [value]
        for number, pair in enumerate(pairs, start=1):
            if not (isinstance(pair, list) and len(pair) == 2 and _fits(pair[0], first) and _fits(pair[1], second)):  # noqa: PLR2004
                wanted = f"[[seconds, factor], ...]: {first}, and {second}"
                return self._refuse(f"entry {number} of {name}", pair, wanted, ())
        return tuple((float(one), float(other)) for one, other in pairs)

    def end(self, name: str, within: Range) -> float:
        """When something ends, in seconds; infinite if it is not there, or said to be."""
        return math.inf if self.take(name) == math.inf else self.seconds(name, math.inf, within)

    def table_of(self, name: str) -> FieldReader | None:
        """A table within this one."""
        value = self.take(name)
        if isinstance(value, dict):
            return FieldReader(value, name if self.where == "file" else f"{self.where}.{name}", self.problems)
        return None if value is None else self._refuse(name, value, f"a table [{name}]", None)

    def tables(self, name: str, maximum: int = 10_000) -> Iterator[FieldReader]:
        """The entries of a list of tables; each is finished when the next one is asked for."""
        value = self.take(name)
        if value is None:
            return
        if isinstance(value, list) and len(value) > maximum:
            self.problems.append(Problem(self.where, f"has {len(value):,} [[{name}]]", f"Give at most {maximum:,}."))
            return
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._refuse(name, value, f"tables [[{name}]]", None)
            return
        for number, item in enumerate(value, start=1):
            entry = FieldReader(item, f"{name} {number}", self.problems)
            yield entry
            entry.finish()

    def finish(self) -> None:
        """Report fields that were not read: mostly misspelt ones."""
        for name in self.table:
            if name not in self.known:
                known = ", ".join(sorted(self.known))
                self.problems.append(Problem(self.where, f"unknown field {shorten(name)}", f"Known are {known}."))


_LONGEST_TEXT = 200


def _fits(value: object, within: Range) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and within.holds(value)
