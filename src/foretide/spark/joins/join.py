"""Stream-stream joins whose hot keys can be split while they run: `ft.join(clicks, views, "ad", "10 minutes")`.

The result is that of Spark's own join. Inside, every row carries a salt as the last of its join keys. Rows of hot keys
are copied to the cells of their key's grid; all others carry salt 0 and go where the hash alone sends them. The plan is
a file in the control folder that each batch reads anew; `foretide.runtime.join_plans` changes it.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from foretide.errors import JoinError, Problem
from foretide.joins.placement.spec import JoinBound, JoinSpec
from foretide.joins.placement.timeline import without_unfinished
from foretide.spark.edges.groupings import hashable, quoted
from foretide.spark.edges.routes import find_control_folder
from foretide.spark.joins.cells import left_cells, live_plan, plan_of, right_cells, versions_of
from foretide.spark.joins.inputs import (
    SALT,
    VERSIONS,
    KeyPair,
    On,
    Within,
    bounds,
    check_columns,
    compared,
    event_times,
    key_columns,
    key_pairs,
    output_columns,
)
from foretide.spark.joins.statistics import observed, plan_observation
from foretide.topology.validate import ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.plan import How

_PARTITIONS = "spark.sql.shuffle.partitions"
_DEFAULT_PARTITIONS = 200


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
        control_folder: The control folder; by default the session setting `spark.foretide.controlFolder`, or the folder
            `foretide` in `spark.sql.streaming.checkpointLocation`.

    Raises:
        JoinError: The streams cannot be joined like that; lists every problem and its remedy.
    """
    pairs = key_pairs(on)
    _check_name(name)
    check_columns(left, right, pairs)
    times = event_times(left, right, times)
    pairs = compared(left, right, pairs)
    bound = JoinBound(*bounds(within), how=how)
    folder = find_control_folder(left.sparkSession, control_folder)
    chosen = partitions or int(left.sparkSession.conf.get(_PARTITIONS, None) or _DEFAULT_PARTITIONS)
    _prepare(folder, name, JoinSpec(bound, chosen, statistics))
    live = live_plan(left.sparkSession, folder.join_plan_url(name), plan_observation(name))
    lefts = _placed(left, live, name, pairs, times[0], bound, is_left=True, statistics=statistics)
    rights = _placed(right, live, name, pairs, times[1], bound, is_left=False, statistics=statistics)
    joined = lefts.alias("l").join(rights.alias("r"), _condition(name, pairs, times, bound), how)
    return joined.select(*output_columns(left, right, pairs))


def _prepare(folder: ControlFolder, name: str, spec: JoinSpec) -> None:
    """Ensure that a plan exists, without a hard end that nobody would move, and store the join's specification."""
    known = folder.joins().get(name)
    if known is not None and folder.join_plan(name) is None:
        problem = f"its plan is gone from '{folder.location}', and what the join holds was placed by it"
        raise JoinError(
            [Problem(f"join '{name}'", problem, "Put the file back, or start on a new checkpoint and folder")]
        )
    plan = folder.change_join_plan(name, without_unfinished)
    if known is not None and plan.plans and known.bound != spec.bound:
        problem = f"was planned for {known.bound}, and is now {spec.bound}"
        raise JoinError([Problem(f"join '{name}'", problem, "Start it under another name, on a new checkpoint")])
    if known is None or known.bound != spec.bound or known.statistics != spec.statistics:
        folder.declare_join(name, spec)


def _placed(
    frame: DataFrame,
    live: DataFrame,
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
    row = (F.col(VERSIONS), key_hash, F.xxhash64(*hashable(frame, frame.columns)), at)
    cells = left_cells(*row) if is_left else right_cells(*row, bound)
    with_versions = counted.withColumn(VERSIONS, versions_of(plan_of(live), key_hash))
    return with_versions.withColumn(f"{SALT}{name}", F.explode(cells)).drop(VERSIONS)


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


def _check_name(name: str) -> None:
    if not ID.fullmatch(name):
        remedy = "Use a letter, then letters, digits, '-', '_'"
        raise JoinError([Problem(f"join '{name}'", "is not a usable name", remedy)])
