"""Settings carry bounds and description in their types: `Annotated[float, Interval(ge=0, le=1), Doc("A share.")]`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt

from foretide.errors import SettingsError


@dataclass(frozen=True)
class OneOf:
    """Metadata: the value, or each value of a tuple, is one of these."""

    choices: tuple[str, ...]


class Scope(Enum):
    """Metadata: who a setting is for. One without this mark is for everybody."""

    ADVANCED = "advanced"
    PYTHON_ONLY = "Python only"


class Bounded:
    """Base of settings: frozen dataclasses that refuse values out of bounds, however they are made.

    ```python
    @dataclass(frozen=True)
    class SamplingSettings(Bounded):
        section: ClassVar[str] = "sampling"
        share: Annotated[float, Interval(ge=0, le=1), Doc("Share of the rows that are read.")] = 0.5

    SamplingSettings(share=1.4)  # SettingsError: sampling.share must be between 0 and 1, got 1.4
    ```
    """

    __slots__ = ()
    section: ClassVar[str]

    def __post_init__(self) -> None:
        problems = list(out_of_bounds(self)) or list(self.conflicts())
        if problems:
            raise SettingsError("; ".join(problems))

    def conflicts(self) -> Iterator[str]:
        """What is wrong between two or more fields, each of which is within its own bounds."""
        yield from ()


def field_types(settings: object) -> dict[str, Any]:
    """The types of a dataclass's fields, with their metadata."""
    kind: Any = type(settings)
    return _types_by_name(kind)


@cache
def _types_by_name(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in fields(kind)}


@cache
def metadata(hint: Any) -> tuple[Any, ...]:
    """The metadata of an annotated type, groups such as `Interval` taken apart."""
    marks = getattr(hint, "__metadata__", ())
    return tuple(part for mark in marks for part in (mark if isinstance(mark, GroupedMetadata) else (mark,)))


def out_of_bounds(settings: Bounded) -> Iterator[str]:
    """A sentence for each field that is out of its bounds."""
    for name, hint in field_types(settings).items():
        value = getattr(settings, name)
        wanted = violated(hint, value)
        if wanted is not None:
            yield f"{settings.section}.{name} must be {wanted}, got {value!r}"


def violated(hint: Any, value: Any) -> str | None:
    """What the value of a field must be, if it is not."""
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return "a finite number"
    choices = allowed_choices(hint)
    if choices is not None and not {*(value if isinstance(value, tuple) else (value,))} <= {*choices}:
        return f"{'a list' if isinstance(value, tuple) else 'one'} of {', '.join(choices)}"
    return None if all(holds(value, bound) for holds, _, bound in _bounds(hint)) else interval(hint)


def allowed_choices(hint: Any) -> tuple[str, ...] | None:
    """The values that a field, or each entry of it, may have; None if they are not listed."""
    kind = getattr(hint, "__origin__", hint) if metadata(hint) else hint
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((mark.choices for mark in metadata(hint) if isinstance(mark, OneOf)), None)


_COMPARISONS: Mapping[type, tuple[Callable[[Any, Any], bool], str]] = {
    Ge: (operator.ge, "at least"),
    Gt: (operator.gt, "greater than"),
    Le: (operator.le, "at most"),
    Lt: (operator.lt, "less than"),
}


def _bounds(hint: Any) -> list[tuple[Callable[[Any, Any], bool], str, float]]:
    marks = [mark for mark in metadata(hint) if type(mark) in _COMPARISONS]
    return [(*_COMPARISONS[type(mark)], getattr(mark, type(mark).__name__.lower())) for mark in marks]


def interval(hint: Any) -> str:
    """The bounds of a type in words; empty without any.

    >>> from typing import Annotated
    >>> interval(Annotated[float, Ge(0), Le(1)]), interval(Annotated[int | None, Ge(1)]), interval(int)
    ('between 0 and 1', 'at least 1', '')
    """
    words = " and ".join(f"{words} {bound:g}" for _, words, bound in _bounds(hint))
    return re.sub("^at least (.*) and at most ", r"between \1 and ", words)
