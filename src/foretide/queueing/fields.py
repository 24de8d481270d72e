"""Reading typed fields out of plain mappings, collecting every problem instead of stopping at the first."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from foretide.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

T = TypeVar("T")


@dataclass(slots=True)
class FieldReader:
    """One table of a file. Take each known field out of it, then `finish` to report what nobody asked for.

    >>> problems: list[Problem] = []
    >>> table = FieldReader({"gain": "much", "gian": 2}, "flow 1", problems)
    >>> table.number("gain", 1.0)
    1.0
    >>> table.finish()
    >>> [problem.what for problem in problems]
    ["gain is 'much'", "unknown field 'gian'"]
    """

    table: Mapping[str, Any]
    where: str
    problems: list[Problem]
    known: set[str] = field(default_factory=set)

    def _take(self, name: str) -> object:
        self.known.add(name)
        return self.table.get(name)

    def _refuse(self, name: str, value: object, wanted: str, default: T) -> T:
        what = f"'{name}' is missing" if value is None else f"{name} is {value!r}"
        self.problems.append(Problem(self.where, what, f"Give {wanted}."))
        return default

    def number(
        self,
        name: str,
        default: float,
        *,
        above: float = -math.inf,
        needed: bool = False,
        infinite: bool = False,
    ) -> float:
        """A finite number greater than `above` (which is excluded)."""
        value = self._take(name)
        if value is None and not needed:
            return default
        wanted = "a number" if above == -math.inf else f"a number above {above:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._refuse(name, value, wanted, default)
        fits = value > above and (infinite or math.isfinite(value))
        return float(value) if fits else self._refuse(name, value, wanted, default)

    def amount(self, name: str, default: float, *, needed: bool = False, infinite: bool = False) -> float:
        """A number that is 0 or more."""
        value = self.number(name, default, needed=needed, infinite=infinite)
        return value if value >= 0 else self._refuse(name, value, "0 or more", default)

    def whole(self, name: str, default: T, *, least: int, needed: bool = False) -> int | T:
        """A whole number from `least` on."""
        value = self._take(name)
        if value is None and not needed:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            return self._refuse(name, value, f"a whole number, {least} or more", default)
        return value

    def text(self, name: str) -> str:
        """A text that must be there and not be empty."""
        value = self._take(name)
        return value if isinstance(value, str) and value else self._refuse(name, value, "a text", "")

    def flag(self, name: str) -> bool:
        """True or false; false if it is not there."""
        value = self._take(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        self._refuse(name, value, "true or false", None)
        return False

    def choice(self, name: str, choices: Iterable[T], default: T) -> T:
        """One of a few words."""
        value = self._take(name)
        for word in choices:
            if value == word:
                return word
        wanted = "one of " + ", ".join(str(word) for word in choices)
        return default if value is None else self._refuse(name, value, wanted, default)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of numbers, 0 or more."""
        value = self._take(name)
        if isinstance(value, list) and all(_is_amount(item) for item in value):
            return tuple(float(item) for item in value)
        return self._refuse(name, value, "a list of numbers, 0 or more", ())

    def table_of(self, name: str) -> FieldReader | None:
        """A table within this one."""
        value = self._take(name)
        if isinstance(value, dict):
            return FieldReader(value, name if self.where == "file" else f"{self.where}.{name}", self.problems)
        return None if value is None else self._refuse(name, value, f"a table [{name}]", None)

    def tables(self, name: str) -> Iterator[FieldReader]:
        """The entries of a list of tables."""
        value = self._take(name)
        if value is None:
            return
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._refuse(name, value, f"tables [[{name}]]", None)
            return
        for number, item in enumerate(value, start=1):
            yield FieldReader(item, f"{name} {number}", self.problems)

    def finish(self) -> None:
        """Report fields that nobody asked for: mostly misspelt ones."""
        for name in self.table:
            if name not in self.known:
                known = ", ".join(sorted(self.known))
                self.problems.append(Problem(self.where, f"unknown field '{name}'", f"Known are {known}."))


def _is_amount(item: object) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item) and item >= 0
