"""Spark's `hash` of whole rows, outside Spark (Murmur3 x86_32, seed 42): proves `hash_int`, hashes keys in tests."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from foretide.joins.placement.salts import HASH_SEED

if TYPE_CHECKING:
    from decimal import Decimal

_MASK = 0xFFFFFFFF
_LONG_DIGITS = 18


class SimpleKey(Enum):
    """The type of a key column, by its name in Spark. Values are Python's own, in Spark's internal units.

    A date is its days since 1970, a timestamp (with or without a zone) its microseconds since then. Strings are
    those of Spark's default collation, which are compared byte by byte.
    """

    BOOLEAN = "boolean"
    BYTE = "tinyint"
    SHORT = "smallint"
    INT = "int"
    LONG = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"


@dataclass(frozen=True, slots=True)
class DecimalKey:
    """A decimal column; Spark hashes those of up to 18 digits as a long, wider ones as bytes."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class StructKey:
    """A struct column; its fields are folded like columns. A value is a sequence in the fields' order."""

    fields: tuple[KeyType, ...]


KeyType: TypeAlias = SimpleKey | DecimalKey | StructKey


def hash_row(types: Sequence[KeyType], values: Sequence[Any], seed: int = HASH_SEED) -> int:
    """`hash(columns...)` of one row, as Spark computes it. A null leaves the hash as it was.

    >>> hash_row([SimpleKey.STRING], ["Spark"]), hash_row([SimpleKey.INT], [None])
    (228093765, 42)
    """
    hashed = seed
    for kind, value in zip(types, values, strict=True):
        if value is not None:
            hashed = _hash_value(kind, value, hashed)
    return hashed


def _hash_value(kind: KeyType, value: Any, seed: int) -> int:
    if isinstance(kind, StructKey):
        return hash_row(kind.fields, value, seed)
    if isinstance(kind, DecimalKey):
        unscaled = _unscaled(value, kind)
        if kind.precision <= _LONG_DIGITS:
            return _hash_words(_integer_bytes(unscaled, 8), seed)
        return _hash_bytes(_shortest_bytes(unscaled), seed)
    return _HASHES[kind](value, seed)


def _hash_words(words: bytes, seed: int) -> int:
    """The hash of whole little-endian words: all that an int or a long is."""
    return _finished(_folded(words, seed), len(words))


def _hash_bytes(content: bytes, seed: int) -> int:
    """Whole words first; then, unlike the published Murmur3, each byte left over as a signed int of its own."""
    aligned = len(content) - len(content) % 4
    state = _folded(content[:aligned], seed)
    for byte in content[aligned:]:
        state = _mixed(state, byte - 256 if byte > 127 else byte)
    return _finished(state, len(content))


def _folded(words: bytes, seed: int) -> int:
    state = seed & _MASK
    for (word,) in struct.iter_unpack("<I", words):
        state = _mixed(state, word)
    return state


def _mixed(state: int, word: int) -> int:
    word = (word * 0xCC9E2D51) & _MASK
    word = ((word << 15) | (word >> 17)) & _MASK
    state ^= (word * 0x1B873593) & _MASK
    state = ((state << 13) | (state >> 19)) & _MASK
    return (state * 5 + 0xE6546B64) & _MASK


def _finished(state: int, length: int) -> int:
    state ^= length
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _integer_bytes(value: int, size: int) -> bytes:
    try:
        return value.to_bytes(size, "little", signed=True)
    except OverflowError:
        raise ValueError(f"{value} does not fit the {8 * size} bits of its key type; Spark cannot hold it") from None


def _shortest_bytes(value: int) -> bytes:
    """Java's BigInteger.toByteArray: two's complement, the highest byte first, as few bytes as will do."""
    magnitude = value if value >= 0 else ~value
    return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _unscaled(value: Decimal, kind: DecimalKey) -> int:
    """The digits as one whole number at the column's scale; digits that the column could not hold are refused."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a number; a decimal column cannot hold it")  # noqa: TRY004 - a bad value
    number = int("".join(map(str, digits)))
    shift = exponent + kind.scale
    scaled, left_over = divmod(number * int(10 ** max(shift, 0)), int(10 ** max(-shift, 0)))
    if left_over or scaled >= 10**kind.precision:
        raise ValueError(f"{value} does not fit decimal({kind.precision}, {kind.scale}); cast it as Spark would first")
    return -scaled if sign else scaled


def _floating_bytes(layout: str, value: float) -> bytes:
    """The bits that Spark hashes: one for all NaNs, and none for the sign of zero."""
    if math.isnan(value):
        return struct.pack(layout, math.nan)
    return struct.pack(layout, value or 0.0)


def _whole(size: int, room: int) -> Callable[[Any, int], int]:
    """A whole number of `size` bytes, hashed as an int (4 bytes) or a long (8)."""

    def hashed(value: int, seed: int) -> int:
        _integer_bytes(value, size)
        return _hash_words(_integer_bytes(value, room), seed)

    return hashed


_INT, _LONG = _whole(4, 4), _whole(8, 8)
_HASHES: Mapping[SimpleKey, Callable[[Any, int], int]] = MappingProxyType(
    {
        SimpleKey.BOOLEAN: _whole(1, 4),
        SimpleKey.BYTE: _whole(1, 4),
        SimpleKey.SHORT: _whole(2, 4),
        SimpleKey.INT: _INT,
        SimpleKey.DATE: _INT,
        SimpleKey.LONG: _LONG,
        SimpleKey.TIMESTAMP: _LONG,
        SimpleKey.TIMESTAMP_NTZ: _LONG,
        SimpleKey.FLOAT: lambda value, seed: _hash_words(_floating_bytes("<f", value), seed),
        SimpleKey.DOUBLE: lambda value, seed: _hash_words(_floating_bytes("<d", value), seed),
        SimpleKey.STRING: lambda value, seed: _hash_bytes(value.encode("utf-8"), seed),
        SimpleKey.BINARY: lambda value, seed: _hash_bytes(bytes(value), seed),
    }
)
