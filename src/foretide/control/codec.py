"""Frozen dataclasses to plain JSON values and back, by their type hints. Actions carry their kind."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from foretide.control.actions import ACTIONS

T = TypeVar("T")
_KINDS: dict[str, type] = {action.kind: action for action in ACTIONS}


def encode(value: Any) -> Any:
    """As dictionaries, lists, texts and numbers; numbers without end as text, which JSON does not know."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = {"kind": type(value).kind} if isinstance(value, ACTIONS) else {}
        return {**kind, **{each.name: encode(getattr(value, each.name)) for each in fields(value)}}
    if isinstance(value, Mapping):
        return {str(key): encode(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [encode(each) for each in value]
    if isinstance(value, frozenset):
        return sorted(encode(each) for each in value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def decode(kind: type[T], data: Any) -> T:
    """The value of that type that was encoded."""
    made = _decode(kind, data)
    if not isinstance(made, kind):
        raise TypeError(f"expected {kind.__name__}, found {type(made).__name__}")
    return made


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode(hint: Any, data: Any) -> Any:
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        return _decode_union(get_args(hint), data)
    if origin in {tuple, frozenset}:
        return origin(_decode(get_args(hint)[0], each) for each in data)
    if origin is Mapping:
        return {key: _decode(get_args(hint)[1], each) for key, each in data.items()}
    if isinstance(hint, type) and is_dataclass(hint):
        known = {each.name for each in fields(hint)}
        return hint(**{key: _decode(_hints(hint)[key], each) for key, each in data.items() if key in known})
    if origin is Literal and data not in get_args(hint):
        raise ValueError(f"'{data}' is none of {', '.join(get_args(hint))}")
    return data if origin is Literal else _decode_plain(hint, data)


def _decode_plain(kind: type, data: Any) -> Any:
    """A text, number or truth value; numbers may have been written as any other kind of number."""
    if kind is float or (kind is int and isinstance(data, float) and data.is_integer()):
        return kind(data)
    if type(data) is not kind:
        raise TypeError(f"expected {kind.__name__}, found {type(data).__name__}")
    return data


def _decode_union(kinds: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in kinds:
        return None
    if isinstance(data, Mapping) and "kind" in data:
        return _decode(_KINDS[data["kind"]], data)
    return _decode(next(kind for kind in kinds if kind is not type(None)), data)
