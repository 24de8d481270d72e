"""What a setting of a type may be: in words, from text, and checked. A value that will not do is a ValueError."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError

from foretide.durations import ALLOWED, in_seconds, parse_duration

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_FROM_TEXT = ConfigDict(allow_inf_nan=False)
_WORDS: Mapping[type, str] = {bool: "true or false", int: "whole number", float: "number", str: "text"}
_GIVE: Mapping[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_NONE = "none"


def is_optional(hint: Any) -> bool:
    """Whether `none` is allowed."""
    return type(None) in get_args(hint)


def bare(hint: Any) -> Any:
    """The type without `none`."""
    if not is_optional(hint):
        return hint
    return next(each for each in get_args(hint) if each is not type(None))


def in_words(hint: Any) -> str:
    """A type as the reference names it.

    >>> in_words(int | None), in_words(tuple[Literal["a", "b"], ...])
    ('whole number, or none', 'list of: a, b')
    """
    kind = bare(hint)
    words = "seconds" if in_seconds(kind) else _WORDS.get(kind) or _compound(kind)
    return f"{words}, or none" if is_optional(hint) else words


def _compound(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return f"one of: {', '.join(get_args(kind))}"
    if origin is tuple:
        element = get_args(kind)[0]
        return f"list of tables with {_field_names(element)}" if is_dataclass(element) else _list_words(element)
    return "table of texts"


def _list_words(element: Any) -> str:
    if get_origin(element) is Literal:
        return f"list of: {', '.join(get_args(element))}"
    return "list of seconds" if in_seconds(element) else f"list of {_WORDS[element]}s"


def _field_names(kind: Any) -> str:
    return ", ".join(each.name for each in fields(kind))


def allowed(hint: Any) -> str:
    """What to give, for a sentence."""
    kind = bare(hint)
    words = ALLOWED if in_seconds(kind) else _GIVE.get(kind) or _article(_compound(kind))
    return f"{words}, or '{_NONE}'" if is_optional(hint) else words


def _article(words: str) -> str:
    return words if words.startswith("one of") else f"a {words}"


def from_text(hint: Any, text: str) -> Any:
    """A value as a file would have it, from the text of a flag or variable: lists by commas, the rest as JSON."""
    kind, text = bare(hint), text.strip()
    if kind is str or get_origin(kind) is Literal or (is_optional(hint) and text.lower() == _NONE):
        return text
    if in_seconds(kind):
        return parse_duration(text)
    if kind in _WORDS:
        return _number(hint, text)
    if get_origin(kind) is tuple and not is_dataclass(get_args(kind)[0]) and not text.startswith("["):
        return [part.strip() for part in text.split(",")]
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no JSON ({error}); give {allowed(hint)}") from None


def _number(hint: Any, text: str) -> Any:
    try:
        return _adapter(bare(hint), strict=False).validate_python(text)
    except ValidationError:
        raise ValueError(_unfit(text, hint)) from None


def checked(hint: Any, value: Any) -> Any:
    """The value of that type; `none` where it is allowed."""
    if is_optional(hint) and isinstance(value, str) and value.lower() == _NONE:
        return None
    try:
        return _adapter(hint, strict=True).validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        raise ValueError(_reason(hint, value, error)) from None


@cache
def _adapter(hint: Any, *, strict: bool) -> TypeAdapter[Any]:
    return TypeAdapter(hint, config=_STRICT if strict else _FROM_TEXT)


def _reason(hint: Any, value: Any, error: ValidationError) -> str:
    """The first thing that is wrong, and what would do instead."""
    first = error.errors(include_url=False)[0]
    place, kind = first["loc"], bare(hint)
    if first["type"] == "value_error":
        return f"{_placed(place)}{first['ctx']['error']}"
    if not place or (len(place) == 1 and not is_dataclass(_element(kind))):
        return _unfit(first["input"] if place else value, hint)
    what = {"missing": "is missing", "unexpected_keyword_argument": "is unknown"}.get(first["type"])
    return f"{_placed(place)}{what or first['msg'].lower()}; give {allowed(hint)}"


def _element(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is tuple else None


def _placed(place: Sequence[int | str]) -> str:
    words = [f"entry {each + 1}" if isinstance(each, int) else f"'{each}'" for each in place]
    return f"{', '.join(words)} " if words else ""


def _unfit(value: Any, hint: Any) -> str:
    return f"{value!r} will not do; give {allowed(hint)}"


def plain(value: Any) -> Any:
    """A value as a file would have it: tables and lists, without what is none."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        return {name: each for name, each in pairs.items() if each is not None}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value


def said(value: Any) -> str:
    """A plain value for people; of named tables in a list only the names.

    >>> said([{"name": "lag"}, {"start": 0.5, "end": 7.0}]), said(None), said(True), said([])
    ('lag, {start = 0.5, end = 7}', 'none', 'true', '[]')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, list):
        return ", ".join(_named(each) or said(each) for each in value) or "[]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {said(each)}' for name, each in value.items())}}}"
    return str(value)


def _named(value: Any) -> str | None:
    return value.get("name", value.get("metric")) if isinstance(value, dict) else None
