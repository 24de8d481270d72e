"""The inputs of a skewed join, checked: key columns of a common type, event times, bounds; and its output columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, TimestampType

from foretide.durations import parse_duration
from foretide.errors import JoinError, Problem
from foretide.spark.edges.groupings import quoted
from foretide.spark.state import WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

On = str | Sequence[str | tuple[str, str]]
Bound = str | float
Within = Bound | tuple[Bound, Bound]

RESERVED = "_ft_"
"""Prefix of the join's own columns, which no column of a user may have."""

VERSIONS = f"{RESERVED}versions"
SALT = f"{RESERVED}salt_"
"""Prefix of columns of salts; the join's name follows, by which its state is found."""

_SECOND_MICROS = 1_000_000
_BINARY = "UTF8_BINARY"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key: its column on both sides, and the types to which Spark casts them to compare them (None: no cast)."""

    left: str
    right: str
    left_type: str | None = None
    right_type: str | None = None


def key_pairs(on: On) -> list[KeyPair]:
    """The columns that have to be equal.

    >>> key_pairs(["user", ("ad", "clicked")])[1]
    KeyPair(left='ad', right='clicked', left_type=None, right_type=None)
    """
    names = [on] if isinstance(on, str) else list(on)
    return [KeyPair(each, each) if isinstance(each, str) else KeyPair(*each) for each in names]


def bounds(within: Within) -> tuple[int, int]:
    """Microseconds that the right side may be before and after the left.

    >>> bounds("2 seconds"), bounds((0.5, "1 minute")), bounds((-1, 3))
    ((2000000, 2000000), (500000, 60000000), (-1000000, 3000000))
    """
    before, after = within if isinstance(within, tuple) else (within, within)
    return _micros(before), _micros(after)


def _micros(bound: Bound) -> int:
    if isinstance(bound, int | float) and bound < 0:
        return -round(parse_duration(-bound) * _SECOND_MICROS)
    return round(parse_duration(bound) * _SECOND_MICROS)


def event_times(left: DataFrame, right: DataFrame, times: tuple[str, str] | None) -> tuple[str, str]:
    """The event-time columns: those that carry a watermark, unless they are named."""
    given = times or (None, None)
    chosen = [_event_time(frame, side, name) for frame, side, name in _sides(left, right, given)]
    problems = [each for each in chosen if isinstance(each, Problem)]
    if problems:
        raise JoinError(problems)
    return str(chosen[0]), str(chosen[1])


def _event_time(frame: DataFrame, side: str, name: str | None) -> str | Problem:
    marked = {field.name: field.dataType for field in frame.schema.fields if WATERMARK in field.metadata}
    if not marked or (name is not None and name not in marked):
        what = "has no watermark" if name is None else f"has no watermark on '{name}'"
        return Problem(f"{side} side", what, "Add .withWatermark(column, delay), which limits its state")
    if name is None and len(marked) > 1:
        what = f"has watermarks on {', '.join(marked)}"
        return Problem(f"{side} side", what, "Choose the one of the bound with times=(left column, right column)")
    chosen = name or next(iter(marked))
    if not isinstance(marked[chosen], TimestampType):
        return Problem(f"{side} side", f"'{chosen}' is a {marked[chosen].simpleString()}", "Make it a timestamp")
    return chosen


def compared(left: DataFrame, right: DataFrame, pairs: Sequence[KeyPair]) -> list[KeyPair]:
    """The keys with the types in which Spark's own `=` compares them."""
    kinds = [{field.name: field.dataType for field in frame.schema.fields} for frame in (left, right)]
    return [_compared(left.sparkSession, pair, kinds[0][pair.left], kinds[1][pair.right]) for pair in pairs]


def _compared(spark: SparkSession, pair: KeyPair, left: DataType, right: DataType) -> KeyPair:
    """Ask Spark's analyzer what it would cast: rows must be hashed by the type in which they are compared."""
    casts = [F.lit(None).cast(kind).alias(side) for side, kind in (("l", left), ("r", right))]
    frame = spark.range(0).select(*casts).select((F.col("l") == F.col("r")).alias("equal"))
    equality: Any = frame._jdf.queryExecution().analyzed().expressions().apply(0).child()  # noqa: SLF001
    types = [equality.left().dataType().sql(), equality.right().dataType().sql()]
    return KeyPair(
        pair.left,
        pair.right,
        types[0] if equality.left().getClass().getSimpleName() == "Cast" else None,
        types[1] if equality.right().getClass().getSimpleName() == "Cast" else None,
    )


def key_columns(names: Sequence[str], types: Sequence[str | None], alias: str = "") -> list[Column]:
    """The keys of one side as they are compared, and hashed."""
    columns = [F.col(f"{alias}{quoted(name)}") for name in names]
    return [column if kind is None else column.cast(kind) for column, kind in zip(columns, types, strict=True)]


def output_columns(left: DataFrame, right: DataFrame, pairs: Sequence[KeyPair]) -> list[Column]:
    """Keys named alike once, then all other columns of the left, then of the right."""
    shared = [pair.left for pair in pairs if pair.left == pair.right]
    return [
        *(F.col(f"l.{quoted(name)}") for name in shared),
        *(F.col(f"l.{quoted(name)}") for name in left.columns if name not in shared),
        *(F.col(f"r.{quoted(name)}") for name in right.columns if name not in shared),
    ]


def check_columns(left: DataFrame, right: DataFrame, pairs: Sequence[KeyPair]) -> None:
    """Refuse keys that do not exist, or that Spark does not hash as it compares them, and names that clash."""
    problems = [] if pairs else [Problem("on", "names no key", "Name a column, several, or pairs (left, right)")]
    for frame, side, names in _sides(left, right, ([p.left for p in pairs], [p.right for p in pairs])):
        problems += _key_problems(frame, side, names)
        problems += [
            Problem(f"{side} side", f"has a column '{name}'", f"Rename it: '{RESERVED}' is a reserved prefix")
            for name in frame.columns
            if name.startswith(RESERVED)
        ]
    shared = {pair.left for pair in pairs if pair.left == pair.right}
    lefts = {name.lower() for name in left.columns if name not in shared}
    problems += [
        Problem("right side", f"also has a column '{name}'", "Rename one of the two, so that the result can hold both")
        for name in right.columns
        if name not in shared and (name.lower() in lefts or name.lower() in {each.lower() for each in shared})
    ]
    if problems:
        raise JoinError(problems)


def _key_problems(frame: DataFrame, side: str, names: Sequence[str]) -> list[Problem]:
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    known = f"Its columns: {', '.join(frame.columns)}"
    problems = [Problem(f"{side} side", f"has no column '{name}'", known) for name in names if name not in kinds]
    return problems + [
        Problem(f"{side} side", f"'{name}' has a collation", "Join on a plain string: equal keys have to hash alike")
        for name in names
        if isinstance(kind := kinds.get(name), StringType) and getattr(kind, "collation", _BINARY) != _BINARY
    ]


def _sides(left: DataFrame, right: DataFrame, each: Sequence[Any]) -> list[tuple[DataFrame, str, Any]]:
    return [(left, "left", each[0]), (right, "right", each[1])]
