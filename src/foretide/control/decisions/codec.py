"""What the journal keeps, frozen dataclasses, as JSON and back by their type hints. Actions carry their kind."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from foretide.control.actions.registry import ACTIONS
from foretide.errors import ControlError, DecisionFormatError, SettingsError

FORMAT = 1
T = TypeVar("T")
_KINDS: dict[str, type] = {action.kind: action for action in ACTIONS}
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_SENSELESS = (ControlError, SettingsError)


def to_json(value: Any) -> str:
    """As text that `from_json` reads back."""
    return json.dumps({"format": FORMAT, **_encode(value)}, separators=(",", ":"), allow_nan=False)


def from_json(kind: type[T], text: str) -> T:
    """The value of that type that was written.

    Raises:
        DecisionFormatError: The text is damaged, or was written by a later release.
    """
    try:
        data = json.loads(text)
        written = data.pop("format")
        if written == FORMAT:
            made: T = _decode(kind, data)
            return made
    except _DAMAGED as error:
        raise DecisionFormatError(f"what was kept cannot be read ({error})") from error
    except _SENSELESS as error:
        raise DecisionFormatError(f"what was kept makes no sense ({error})") from error
    raise DecisionFormatError(f"it was kept in format {written}; this release reads {FORMAT}, so use a later one")


def _encode(value: Any) -> Any:
    """As dictionaries, lists, texts and numbers; numbers without end as text, which JSON does not know."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = {"kind": type(value).kind} if isinstance(value, ACTIONS) else {}
        return {**kind, **{each.name: _encode(getattr(value, each.name)) for each in fields(value)}}
    if isinstance(value, Mapping):
        return {str(key): _encode(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(each) for each in value]
    if isinstance(value, frozenset):
        return sorted(_encode(each) for each in value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


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
        key_kind, kind = get_args(hint)
        return {key_kind(key): _decode(kind, each) for key, each in data.items()}  # keys of JSON are texts
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
