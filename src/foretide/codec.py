"""Dataclasses as JSON and back, by their type hints.

Fields may be dataclasses, text, numbers, booleans, literals, tuples, lists, sets, mappings with text or
number keys, optional values, and unions. Infinite numbers and NaN are written as text, which JSON has no numbers for.
A union of dataclasses needs `kinds`, the name of each: it is written as the field "kind".

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Point:
...     x: float
...     label: str | None = None
>>> to_json(Point(1.5))
'{"x":1.5,"label":null}'
>>> from_json(Point, '{"x": 2}')
Point(x=2.0, label=None)
>>> from_json(Point, '{"x": 2, "label": 3}')
Traceback (most recent call last):
foretide.errors.CodecError: label: expected str, got int
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from foretide.errors import CodecError, ForetideError

Kinds = Mapping[str, type]
"""The dataclasses that are written with their kind, by its name."""

T = TypeVar("T")
_NO_KINDS: Kinds = {}
_NOT_FINITE = frozenset({"inf", "-inf", "nan"})
_SEQUENCES = frozenset({tuple, list, set, frozenset})
_MAPPINGS = frozenset({dict, Mapping})
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def to_json(value: Any, kinds: Kinds = _NO_KINDS) -> str:
    """The value as compact JSON that `from_json` reads back.

    Raises:
        TypeError: It holds something that JSON cannot express.
    """
    return json.dumps(to_data(value, kinds), separators=(",", ":"), allow_nan=False)


def from_json(kind: type[T], text: str | bytes, kinds: Kinds = _NO_KINDS) -> T:
    """The value of that type that was written.

    Raises:
        CodecError: The text is damaged, or does not fit the type; names the field.
    """
    return from_data(kind, parse_json(text), kinds)


def parse_json(text: str | bytes) -> Any:
    """The text as dictionaries, lists, texts and numbers. Halves of surrogate pairs, which no output takes, become "?".

    Raises:
        CodecError: It is not JSON, or nested too deep.
    """
    try:
        data = json.loads(text)
        if not _SURROGATE.search(text if isinstance(text, str) else str(text, "utf-8", "replace")):
            return data
        return json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError, MemoryError) as error:
        raise CodecError("", f"not valid JSON: {error or type(error).__name__}") from error


def to_data(value: Any, kinds: Kinds = _NO_KINDS) -> Any:
    """The value as dictionaries, lists, texts and numbers."""
    return _encode(value, {kind: name for name, kind in kinds.items()} if kinds else {})


def from_data(kind: type[T], data: Any, kinds: Kinds = _NO_KINDS) -> T:
    """The value of that type that `to_data` was given. Fields that the type does not have are passed over.

    Raises:
        CodecError: The data does not fit the type; names the field.
    """
    value: T = _decode(kind, data, "", kinds)
    return value


def _encode(value: Any, names: Mapping[type, str]) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        tag = {"kind": names[type(value)]} if type(value) in names else {}
        return tag | {each.name: _encode(getattr(value, each.name), names) for each in fields(value) if each.init}
    if isinstance(value, Mapping):
        return {_encode_key(key): _encode(each, names) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(each, names) for each in value]
    if isinstance(value, AbstractSet):
        return sorted(_encode(each, names) for each in value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _encode_key(key: Any) -> str:
    if not isinstance(key, str | Real):
        raise TypeError(f"keys of JSON are text or numbers, got {key!r}")
    return str(key)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode(hint: Any, data: Any, path: str, kinds: Kinds) -> Any:
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        return _decode_union(get_args(hint), data, path, kinds)
    if origin in _SEQUENCES:
        return _decode_sequence(origin, get_args(hint), data, path, kinds)
    if origin in _MAPPINGS:
        key, value = get_args(hint)
        pairs = _expected(dict, data, path).items()
        return {_decode_key(key, each, path): _decode(value, part, f"{path}[{each}]", kinds) for each, part in pairs}
    if isinstance(hint, type) and is_dataclass(hint):
        return _decode_dataclass(hint, data, path, kinds)
    return _one_of(get_args(hint), data, path) if origin is Literal else _decode_plain(hint, data, path)


def _decode_dataclass(kind: type, data: Any, path: str, kinds: Kinds) -> Any:
    known = {each.name: each for each in fields(kind) if each.init}
    given = {name: part for name, part in _expected(dict, data, path).items() if name in known}
    for name, each in known.items():
        if name not in given and each.default is MISSING and each.default_factory is MISSING:
            raise CodecError(path, f"the field '{name}' is missing")
    prefix = f"{path}." if path else ""
    values = {name: _decode(_hints(kind)[name], part, f"{prefix}{name}", kinds) for name, part in given.items()}
    try:
        return kind(**values)
    except (ForetideError, ValueError, TypeError, ArithmeticError) as error:
        raise CodecError(path, str(error)) from error


def _decode_sequence(kind: Any, hints: tuple[Any, ...], data: Any, path: str, kinds: Kinds) -> Any:
    parts = _expected(list, data, path)
    if kind is not tuple or hints[-1] is Ellipsis:
        hints = (hints[0],) * len(parts)
    if len(hints) != len(parts):
        raise CodecError(path, f"expected {len(hints)} values, got {len(parts)}")
    pairs = enumerate(zip(hints, parts, strict=True))
    return kind(_decode(hint, part, f"{path}[{index}]", kinds) for index, (hint, part) in pairs)


def _decode_union(hints: tuple[Any, ...], data: Any, path: str, kinds: Kinds) -> Any:
    if data is None and type(None) in hints:
        return None
    if isinstance(data, dict) and "kind" in data and kinds:
        return _decode(kinds[_one_of(tuple(kinds), data["kind"], f"{path}.kind")], data, path, kinds)
    options = [hint for hint in hints if hint is not type(None)]
    for hint in options[:-1]:
        try:
            return _decode(hint, data, path, kinds)
        except CodecError:
            continue
    return _decode(options[-1], data, path, kinds)


def _decode_key(kind: type, key: str, path: str) -> Any:
    try:
        return kind(key)
    except ValueError:
        raise CodecError(path, f"expected keys of type {kind.__name__}, got '{key}'") from None


def _decode_plain(kind: Any, data: Any, path: str) -> Any:
    """Text, a number or a boolean; a number may have been written as another kind of number if nothing is lost."""
    if kind is Any:
        return data
    if kind is float and (type(data) in {int, float} or (isinstance(data, str) and data in _NOT_FINITE)):
        try:
            return float(data)
        except OverflowError:
            raise CodecError(path, "the number is too large") from None
    if kind is int and isinstance(data, float) and data.is_integer():
        return int(data)
    return _expected(kind, data, path)


def _expected(kind: type, data: Any, path: str) -> Any:
    if type(data) is not kind:
        raise CodecError(path, f"expected {kind.__name__}, got {type(data).__name__}")
    return data


def _one_of(choices: Collection[Any], data: Any, path: str) -> Any:
    if data not in choices:
        raise CodecError(path, f"expected one of {', '.join(map(str, choices))}, got {data!r}")
    return data
