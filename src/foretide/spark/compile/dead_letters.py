"""The text of dead letters: whatever a tuple holds and whatever user code raises, as text that can be written."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

MAX_ERROR_LENGTH = 4_000
"""Characters of an error's text that are kept."""

_UNREADABLE = "(cannot be read)"


def error_text(error: BaseException) -> str:
    r"""The class and the text of an error, cut if it is long.

    >>> error_text(ValueError("bad \ud800 text"))
    'ValueError: bad \\ud800 text'
    """
    return _cut(f"{_name(error)}: {_text(error)}")


def tuple_text(row: pa.RecordBatch | pa.Table) -> str:
    """A single tuple as JSON. Values that Python cannot hold are shown as Arrow has them.

    >>> import pyarrow as pa
    >>> tuple_text(pa.RecordBatch.from_pylist([{"n": 3, "word": "three"}]))
    '{"n": 3, "word": "three"}'
    """
    try:
        return json.dumps(row.to_pylist()[0], default=str, ensure_ascii=False)
    except Exception:  # noqa: BLE001 - some value is not what its type promises: go on value by value
        values = {name: _value(row[name][0]) for name in row.schema.names}
        return _writable(json.dumps(values, default=_text, ensure_ascii=False))


def _name(error: BaseException) -> str:
    try:
        return _plain(type(error).__name__)
    except BaseException:  # noqa: BLE001 - a name of a user's own making
        return "an exception without a readable name"


def _text(thing: Any) -> str:
    try:
        return _plain(str(thing))
    except BaseException:  # noqa: BLE001 - a user's __str__ may raise anything
        return _UNREADABLE


def _plain(text: str) -> str:
    """A string of a user's own class, which may do anything, as one of Python's own."""
    parts = [text]
    return "".join(parts)


def _cut(text: str) -> str:
    more = len(text) - MAX_ERROR_LENGTH
    return _writable(text if more <= 0 else f"{text[:MAX_ERROR_LENGTH]}... ({more} more)")


def _writable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _value(scalar: Any) -> Any:
    """A value as Python has it; where Python has none, in parts, as text that is nearly right, or as a number."""
    try:
        return scalar.as_py()
    except Exception:  # noqa: BLE001 - not UTF-8, or a date beyond the year 9999
        return _parts(scalar)


def _parts(scalar: Any) -> Any:
    try:
        if isinstance(scalar, pa.StructScalar):
            return {name: _value(scalar[name]) for name in scalar}
        if hasattr(scalar, "values"):  # lists and maps
            return [_value(scalar.values[place]) for place in range(len(scalar.values))]
        if hasattr(scalar, "as_buffer"):
            return scalar.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    except Exception:  # noqa: BLE001
        return _UNREADABLE
    return f"{getattr(scalar, 'value', _UNREADABLE)} ({scalar.type})"
