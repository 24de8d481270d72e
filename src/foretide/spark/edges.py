"""An edge: the exchange that splits a stream over tasks, followed by a barrier that no work crosses.

The optimizer likes to push filters below an exchange, and to trim its columns for each reader. Either would move a
bolt's work into the tasks before the edge, or run them once for each reader. So each edge ends in a condition that is
always true, that Spark cannot see through, and that names every column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from foretide.control_folder.folder import ControlFolder
from foretide.errors import ControlFolderError, Problem, TopologyError
from foretide.routing.ring import DEFAULT_SLOTS
from foretide.routing.table import FORMAT
from foretide.spark.groupings import LiveRoute, hashable, quoted, task_of
from foretide.spark.session import apply_mode
from foretide.topology.graph import DEFAULT_POOL
from foretide.topology.groupings import Dynamic, Global, Grouping, LoadAware, Shuffle
from foretide.topology.modes import MICRO_BATCH, REAL_TIME, Mode
from foretide.topology.validate import ID, choices

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TASK_PREFIX = "_ft_"
SENT, RECEIVED = "foretide_sent_", "foretide_received_"
DEFAULT_GROUPING: Grouping = Shuffle()

CONTROL_FOLDER_SETTING = "spark.foretide.controlFolder"
CHECKPOINT_SETTING = "spark.sql.streaming.checkpointLocation"

OBSERVATION = "foretide_routes"
"""Name of the metric in a query's progress that confirms which version a batch read."""

ROUTES_SCHEMA = "format int, version long, edges map<string, struct<pool int, ring array<int>>>"
RingOf = Callable[[SparkSession, ControlFolder, str], "Column"]
"""From the name of an edge to its ring in a batch."""

_topology_folder: ContextVar[ControlFolder | None] = ContextVar("topology_folder", default=None)
_tables: WeakKeyDictionary[SparkSession, dict[str, DataFrame]] = WeakKeyDictionary()
_folders: dict[tuple[str, int], str] = {}
"""The control folder of each route table by the metric in its plan: name, and the number of the DataFrame."""


def edge(
    name: str,
    grouping: Grouping = DEFAULT_GROUPING,
    *,
    replicas: int | None = None,
    pool: int | None = None,
    audit: bool = False,
    control_folder: str | None = None,
    mode: Mode = "micro-batch",
) -> Callable[[DataFrame], DataFrame]:
    """A controllable edge for any PySpark query: `df.transform(ft.edge("parse", ft.Dynamic(), replicas=8))`.

    Args:
        name: The edge's name: that of the operator it leads into.
        grouping: How tuples are split over the tasks.
        replicas: Tasks that are active at the start; by default all of the pool.
        pool: Tasks there are; by default as many as `replicas`.
        audit: Also compare the XOR of 64-bit tuple ids before and after the edge (some 100 ns a row on each side).
        control_folder: Where routes are published; by default the session's setting `spark.foretide.controlFolder`,
            or the folder `foretide` in `spark.sql.streaming.checkpointLocation`.
        mode: `real-time` for a query with a real-time trigger. Its running tasks follow a route within milliseconds
            once `ft.control` is attached to the query; without, a route takes effect with the next batch.
    """
    size = _pool(grouping, pool, replicas)

    def apply(frame: DataFrame) -> DataFrame:
        _check(name, grouping, frame, size, replicas)
        if not grouping.exchanges:
            return frame
        folder = find_control_folder(frame.sparkSession, control_folder)
        if mode == REAL_TIME.name:
            from foretide.spark.realtime.edges import LiveEdges  # noqa: PLC0415 - it is made of what is here

            live = LiveEdges(frame.sparkSession, folder)
            return live.exchange(live.placed(frame, name, grouping, size, replicas), name, size)
        return exchange(placed(frame, name, grouping, size, folder, replicas), name, size, audit=audit)

    return apply


def placed(
    frame: DataFrame,
    name: str,
    grouping: Grouping,
    pool: int,
    folder: ControlFolder,
    replicas: int | None = None,
    live: LiveRoute | None = None,
    find_ring: RingOf | None = None,
) -> DataFrame:
    """The frame with the task of each tuple in the edge's own column, before the exchange."""
    ring = None
    if grouping.controllable:
        weights = first_split(grouping, pool, replicas)
        mode = REAL_TIME if live is not None else MICRO_BATCH
        every = grouping.every(mode.name) if isinstance(grouping, LoadAware) else None
        folder.change_routes(lambda table: table.declare(name, pool, weights, balance_every=every), repair=True)
        ring = (find_ring or ring_of)(frame.sparkSession, folder, name)
    return frame.withColumn(task_column(name), task_of(grouping, frame, pool, ring, DEFAULT_SLOTS, live))


def exchange(frame: DataFrame, name: str, pool: int, *, audit: bool = False) -> DataFrame:
    """Send each tuple to the task in the edge's column, and let no work cross."""
    apply_mode(frame.sparkSession)
    task = task_column(name)
    sent = observe_ids(frame, f"{SENT}{name}") if audit else frame
    arrived = barrier(sent.repartitionById(pool, F.col(quoted(task))))
    return (observe_ids(arrived, f"{RECEIVED}{name}") if audit else arrived).drop(task)


def barrier(frame: DataFrame) -> DataFrame:
    """A condition that is always true, names every column, and that the optimizer cannot move work across."""
    every_column = F.xxhash64(*hashable(frame, frame.columns))
    return frame.where((F.spark_partition_id() >= 0) | (every_column == 0))


def task_column(name: str) -> str:
    """The column that carries the task; Spark shows it in the exchange's description, which is how edges are found."""
    return f"{TASK_PREFIX}{name}"


def first_split(grouping: Grouping, pool: int, replicas: int | None) -> list[float]:
    """Weights at the start: the grouping's own ratio, or evenly over the active replicas."""
    if isinstance(grouping, Dynamic) and grouping.ratio is not None:
        return list(grouping.ratio)
    active = pool if replicas is None else replicas
    return [1.0] * active + [0.0] * (pool - active)


def observe_ids(frame: DataFrame, name: str) -> DataFrame:
    """Count tuples and XOR their ids; an id is the 64-bit hash of all columns, the task's included."""
    ids = F.xxhash64(*hashable(frame, frame.columns))
    return frame.observe(name, F.count(F.lit(1)).alias("rows"), F.bit_xor(ids).alias("ids"))


def _pool(grouping: Grouping, pool: int | None, replicas: int | None) -> int:
    """The pool that was given, or that what was given implies."""
    if pool is not None:
        return pool
    if isinstance(grouping, Dynamic) and grouping.ratio is not None:
        return len(grouping.ratio)
    return replicas if replicas is not None else 1 if isinstance(grouping, Global) else DEFAULT_POOL


def _check(name: str, grouping: Grouping, frame: DataFrame, pool: int, replicas: int | None) -> None:
    problems = [
        Problem(
            f"edge {name}",
            f"{grouping.name} needs the column '{key}'",
            f"There are: {', '.join(frame.columns)}",
        )
        for key in grouping.keys
        if key not in frame.columns
    ]
    problems += choices(f"edge {name}", grouping)
    if not ID.fullmatch(name):
        problems.append(Problem(f"edge {name}", "is not a usable name", "Use a letter, then letters, digits, '-', '_'"))
    if pool < 1 or (replicas is not None and not 1 <= replicas <= pool):
        problems.append(Problem(f"edge {name}", f"{replicas} replicas of a pool of {pool}", "Use 1 to the pool's size"))
    if replicas is not None and not grouping.controllable:
        problems.append(Problem(f"edge {name}", f"{grouping.name} cannot be controlled", "Drop replicas, or give pool"))
    if problems:
        raise TopologyError(name, problems)


# ---- the control folder, and the live route table in a query plan


@contextmanager
def compiling_for(folder: ControlFolder) -> Iterator[None]:
    """While the work of a bolt is called: the control folder of its topology."""
    token = _topology_folder.set(folder)
    try:
        yield
    finally:
        _topology_folder.reset(token)


def folder_of_topology(control_folder: str | None = None) -> ControlFolder | None:
    """The control folder of the topology whose bolt is compiled; None outside of one, and where one is given."""
    return _topology_folder.get() if control_folder is None else None


def find_control_folder(spark: SparkSession | None = None, control_folder: str | None = None) -> ControlFolder:
    """The control folder that is given, or that of the session; the active session when none is given."""
    conf = (spark or SparkSession.active()).conf
    checkpoint = conf.get(CHECKPOINT_SETTING, None)
    default = f"{checkpoint}/foretide" if checkpoint else None
    location = control_folder or conf.get(CONTROL_FOLDER_SETTING, None) or default
    if not location:
        raise ControlFolderError(
            "no control folder is known for the routes: pass control_folder=... (best: the folder 'foretide' in the "
            f"query's checkpoint), or set '{CONTROL_FOLDER_SETTING}' on the session"
        )
    return ControlFolder(location)


def ring_of(spark: SparkSession, folder: ControlFolder, edge: str) -> Column:
    """The ring of an edge as an expression that every batch evaluates anew.

    It is null when the table is missing, truncated, empty or of a newer format, or has no such edge: the caller falls
    back to a default split, so rows never vanish. Spark merges the subqueries of all edges into one, with one scan.
    """
    ring = F.try_element_at("edges", F.lit(edge))["ring"]
    return _live_table(spark, folder).select(F.when(F.col("format") == FORMAT, ring).alias(edge)).scalar()


def _live_table(spark: SparkSession, folder: ControlFolder) -> DataFrame:
    """One DataFrame a control folder, so that all edges of a query share one scan and one confirmation.

    The file has to exist by now: Spark ignores for ever what was empty when the DataFrame was made.
    """
    tables = _tables.setdefault(spark, {})
    if folder.routes_url not in tables:
        table = (
            spark.read.schema(ROUTES_SCHEMA)
            .option("multiLine", value=True)
            .option("ignoreMissingFiles", value=True)
            .json(folder.routes_url)
        )
        version = F.expr(f"max(if(format = {FORMAT} AND edges IS NOT NULL, version, null))")
        observed = tables[folder.routes_url] = table.observe(OBSERVATION, version.alias("version"))
        if hasattr(observed, "_jdf"):  # not over Spark Connect
            metric = observed._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark shows no plans
            _folders[OBSERVATION, int(metric.dataframeId())] = folder.location
    return tables[folder.routes_url]


def folder_of_routes(metric: tuple[str, int]) -> str | None:
    """The control folder of the edges whose route table reports this metric in a logical plan."""
    return _folders.get(metric)
