"""Decisions and recorded worlds as JSON, with the number of the format and the kind of each action."""

from __future__ import annotations

from typing import Any, TypeVar

from foretide import codec
from foretide.control.actions.registry import ACTIONS
from foretide.errors import CodecError

FORMAT = 1
T = TypeVar("T")
_KINDS = {action.kind: action for action in ACTIONS}


def to_data(value: Any) -> dict[str, Any]:
    """As dictionaries, lists, texts and numbers."""
    return {"format": FORMAT, **codec.to_data(value, _KINDS)}


def to_json(value: Any) -> str:
    """As JSON that `from_json` reads back."""
    return codec.to_json(to_data(value))


def from_json(kind: type[T], text: str) -> T:
    """The value of that type that was written.

    Raises:
        CodecError: The text is damaged, or was written in a format that this release cannot read.
    """
    data = codec.parse_json(text)
    written = data.get("format") if isinstance(data, dict) else None
    if written != FORMAT:
        raise CodecError("format", f"this release reads format {FORMAT}, got {written}")
    return codec.from_data(kind, data, _KINDS)
