"""Stream-stream joins whose hot keys can be split while they run: `ft.join(clicks, views, "ad", "10 minutes")`.

The result is that of Spark's own join. Inside, every row carries a salt as the last of its join keys. Rows of hot keys
are copied to the cells of their key's grid; all others carry salt 0 and go where the hash alone sends them. The plan is
a file in the control folder that each batch reads anew; `foretide.runtime.join_plans` changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, TimestampType

from foretide.durations import parse_duration
from foretide.errors import JoinError, Problem
from foretide.joins.placement.spec import JoinBound, JoinSpec
from foretide.joins.placement.timeline import without_unfinished
from foretide.spark.edges import find_control_folder, folder_of_topology
from foretide.spark.groupings import hashable, quoted
from foretide.spark.joins.admission import BuiltJoin, admit_at_start, check_unused
from foretide.spark.joins.cells import RESERVED, SALT, left_cells, live_plan, plan_of, right_cells, versions_of
from foretide.spark.joins.statistics import observed, plan_observation
from foretide.spark.state import WATERMARK
from foretide.topology.validate import ID

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.plan import How


On = str | Sequence[str | tuple[str, str]]
Bound = str | float
Within = Bound | tuple[Bound, Bound]

_VERSIONS = f"{RESERVED}versions"
_SECOND_MICROS = 1_000_000
_BINARY = "UTF8_BINARY"
_PARTITIONS = "spark.sql.shuffle.partitions"
_DEFAULT_PARTITIONS = 200


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key: its column on both sides, and the types to which Spark casts them to compare them (None: no cast)."""

    left: str
    right: str
    left_type: str | None = None
    right_type: str | None = None


def join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    within: Within,
    how: How = "inner",
    *,
    name: str = "join",
    times: tuple[str, str] | None = None,
    partitions: int | None = None,
    statistics: bool = True,
    control_folder: str | None = None,
) -> DataFrame:
    """Join two streams; the control loop may split hot keys over the partitions while it runs.

    Args:
        left: A stream with a watermark.
        right: A stream with a watermark.
        on: The column that must be equal, several, or pairs (left column, right column).
        within: The greatest distance in event time, such as "10 minutes", or a pair (before, after): then a right row
            may be that much earlier, and that much later, than the left row. Numbers are seconds, and may be negative
            in a pair.
        how: `inner` or `left`.
        name: The name of the join in plans and decisions, unique in the query.
        times: The event-time columns; by default those with the watermarks.
        partitions: Partitions of the join's state, fixed by the checkpoint; by default
            `spark.sql.shuffle.partitions`. A wrong number costs balance, never rows.
        statistics: Whether each batch reports its frequent keys. Without them nothing is planned.
        control_folder: The control folder; by default that of the topology in whose bolt this is, or else the session
            setting `spark.foretide.controlFolder`, or the folder `foretide` in
            `spark.sql.streaming.checkpointLocation`.

    Raises:
        JoinError: The streams cannot be joined like that; lists every problem and its remedy.
    """
    pairs = key_pairs(on)
    if not ID.fullmatch(name):
        remedy = "Use a letter, then letters, digits, '-', '_'"
        raise JoinError([Problem(f"join '{name}'", "is not a usable name", remedy)])
    check_columns(left, right, pairs)
    times = event_times(left, right, times)
    pairs = compared(left, right, pairs)
    bound = JoinBound(*bounds(within), how=how)
    folder = folder_of_topology(control_folder) or find_control_folder(left.sparkSession, control_folder)
    chosen = partitions or int(left.sparkSession.conf.get(_PARTITIONS, None) or _DEFAULT_PARTITIONS)
    _prepare(folder, name, JoinSpec(bound, chosen, statistics))
    token = uuid4().hex
    live = live_plan(left.sparkSession, folder.join_plan_url(name), plan_observation(name))
    lefts = _placed(left, plan_of(live, token), name, pairs, times[0], bound, is_left=True, statistics=statistics)
    rights = _placed(right, plan_of(live, token), name, pairs, times[1], bound, is_left=False, statistics=statistics)
    joined = lefts.alias("l").join(rights.alias("r"), _condition(name, pairs, times, bound), how)
    admit_at_start(joined, BuiltJoin(folder, name, token))
    return joined.select(*output_columns(left, right, pairs))


def _prepare(folder: ControlFolder, name: str, spec: JoinSpec) -> None:
    """Ensure that a plan exists, without a hard end that nobody would move, and store the join's specification."""
    check_unused(folder, name)
    known = folder.joins().get(name)
    if known is not None and folder.join_plan(name) is None:
        problem = f"its plan is gone from '{folder.location}', and what the join holds was placed by it"
        raise JoinError(
            [Problem(f"join '{name}'", problem, "Put the file back, or start on a new checkpoint and folder")]
        )
    plan = folder.change_join_plan(name, without_unfinished)
    if known is None and plan.plans:
        problem = f"the description of the join is gone from '{folder.location}', and what it holds was placed by it"
        raise JoinError([Problem(f"join '{name}'", problem, "Put joins.json back")])
    if known is not None and plan.plans and known.bound != spec.bound:
        problem = f"was planned for {known.bound}, and is now {spec.bound}"
        raise JoinError([Problem(f"join '{name}'", problem, "Start it under another name, on a new checkpoint")])
    if known is None or known.bound != spec.bound or known.statistics != spec.statistics:
        folder.declare_join(name, spec)


def _placed(
    frame: DataFrame,
    plan: Column,
    name: str,
    pairs: Sequence[KeyPair],
    time: str,
    bound: JoinBound,
    *,
    is_left: bool,
    statistics: bool,
) -> DataFrame:
    """One side with a row for each of its cells, and the salts in a column."""
    names = [pair.left if is_left else pair.right for pair in pairs]
    keys = key_columns(names, [pair.left_type if is_left else pair.right_type for pair in pairs])
    key_hash, at = F.hash(*keys), F.unix_micros(F.col(quoted(time)))
    if bound.how == "inner" or not is_left:
        frame = frame.where(_all([key.isNotNull() for key in keys]))  # they match nothing, and would seem a hot key
    counted = observed(frame, name, keys, at, is_left=is_left, statistics=statistics)
    row = (F.col(_VERSIONS), key_hash, F.xxhash64(*hashable(frame, frame.columns)), at)
    cells = left_cells(*row) if is_left else right_cells(*row, bound)
    with_versions = counted.withColumn(_VERSIONS, versions_of(plan, key_hash))
    return with_versions.withColumn(f"{SALT}{name}", F.explode(cells)).drop(_VERSIONS)


def _condition(name: str, pairs: Sequence[KeyPair], times: tuple[str, str], bound: JoinBound) -> Column:
    """Equal keys, equal salts behind them, and the bound."""
    lefts = key_columns([pair.left for pair in pairs], [pair.left_type for pair in pairs], "l.")
    rights = key_columns([pair.right for pair in pairs], [pair.right_type for pair in pairs], "r.")
    salts = F.col(f"l.{SALT}{name}") == F.col(f"r.{SALT}{name}")
    left_time, right_time = F.col(f"l.{quoted(times[0])}"), F.col(f"r.{quoted(times[1])}")
    return _all(
        [
            *(left == right for left, right in zip(lefts, rights, strict=True)),
            salts,
            right_time >= left_time - _interval(bound.before),
            right_time <= left_time + _interval(bound.after),
        ]
    )


def _interval(micros: int) -> Column:
    return F.expr(f"INTERVAL '{micros}' MICROSECOND")


def _all(conditions: Sequence[Column]) -> Column:
    return reduce(and_, conditions)


# ---- inputs: key columns of a common type, event times, bounds; and the output columns


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
