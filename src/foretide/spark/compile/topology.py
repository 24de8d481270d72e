"""From a topology to ONE streaming DataFrame: every output, dead letter and feedback tuple is a row of it.

- A bolt's inputs are placed, tagged with their origin when there are several, united, and sent through one exchange.
- What more than one reader reads passes one shared exchange first, so that the bolt behind it runs once.
- Problems are gathered, not raised one by one: what can still be compiled is, so that the list is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from foretide.control_folder.filesystem import make_folder
from foretide.errors import Problem, RouteError, TopologyError, WorkloadError
from foretide.metrics.batch import TIME_EVERY
from foretide.spark.compile.bolts import DEAD_COLUMN, DEAD_TYPE, run_python
from foretide.spark.compile.event_times import observe_event_times
from foretide.spark.compile.timing import Timers
from foretide.spark.edges.edge import exchange, placed, task_column
from foretide.spark.sources import read as sources
from foretide.spark.stateful import has_state, has_watermark, is_stateful
from foretide.topology.graph import (
    DEAD_LETTERS,
    STREAM_COLUMN,
    Bolt,
    From,
    Native,
    PerTuple,
    Spout,
    Topology,
    output_name,
)
from foretide.topology.groupings import Dynamic, Fields, LoadAware, PartialKey, Shuffle
from foretide.topology.shape import SHARED, PlanShape
from foretide.topology.sinks import Guarantee, Sink
from foretide.topology.validate import find_problems, find_run_problems

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from foretide.control_folder.folder import ControlFolder

SOURCE_COLUMN = "_source"
"""In a bolt with several inputs: the component that a tuple comes from."""


@dataclass(frozen=True)
class Compiled:
    """A topology as a streaming DataFrame, the columns of its output streams, and what following it needs."""

    frame: DataFrame
    columns: dict[str, tuple[str, ...]]
    shape: PlanShape
    timers: Timers


def compile_topology(
    spark: SparkSession,
    topology: Topology,
    sink: Sink,
    folder: ControlFolder,
    guarantee: Guarantee = "exactly-once",
    *,
    audit: bool = False,
    time_every: int = TIME_EVERY,
) -> Compiled:
    """Compile a topology, or raise one error that lists everything that is wrong with it.

    Python bolts time every `time_every`-th tuple.
    """
    problems = [*find_problems(topology), *find_run_problems(topology, sink, guarantee)]
    timers = Timers.of(spark.sparkContext, _timed(topology), time_every)
    build = _Build(spark, topology, sink, folder, guarantee, audit, timers, problems)
    build.run()
    build.problems += build.clashes()
    if build.problems:
        raise TopologyError(topology.name, build.problems)
    return Compiled(build.output(), build.columns, PlanShape.of(topology, build.chained, build.stateful), timers)


def _timed(topology: Topology) -> dict[str, bool]:
    """The Python bolts, and whether their tuples are timed one by one."""
    return {
        bolt.id: isinstance(bolt.operator, PerTuple) for bolt in topology.bolts if not isinstance(bolt.operator, Native)
    }


@dataclass
class _Build:
    spark: SparkSession
    topology: Topology
    sink: Sink
    folder: ControlFolder
    guarantee: Guarantee
    audit: bool
    timers: Timers
    problems: list[Problem]
    frames: dict[str, DataFrame] = field(default_factory=dict)
    branches: list[DataFrame] = field(default_factory=list)
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    chained: set[str] = field(default_factory=set)
    stateful: set[str] = field(default_factory=set)

    def run(self) -> None:
        for spout in self.topology.spouts:
            self._attempt(spout.id, partial(self._spout, spout))
        for bolt in self.topology.in_order():
            inputs = [source for source in bolt.inputs if not source.feedback]
            if inputs and all(source.component in self.frames for source in inputs):
                self._attempt(bolt.id, partial(self._bolt, bolt))
        self._feedback_fits()

    def _attempt(self, where: str, step: Callable[[], None]) -> None:
        try:
            step()
        except TopologyError as error:
            self.problems += error.problems
        except RouteError as error:
            if all(problem.where != where for problem in self.problems):
                self.problems.append(Problem(where, error.reason, "Mend its pool, replicas or ratio"))
        except WorkloadError as error:
            self.problems.append(Problem(where, str(error), "Mend the source"))
        except (AnalysisException, PySparkException) as error:
            said = str(error).split("\n", maxsplit=1)[0]
            self.problems.append(Problem(where, f"Spark refuses it: {said}", "Mend the source or the bolt's work"))

    def _spout(self, spout: Spout) -> None:
        once_only = self.guarantee == "at-most-once"
        frame = sources.load(self.spark, spout.id, spout.source, self.folder, once_only=once_only)
        if spout.event_time is not None:
            frame = self._with_event_times(spout, frame, spout.event_time)
        if len(self.topology.readers(spout.id, "default")) > 1:
            frame = self._shared(spout.id, frame, sources.partitions_of(self.spark, spout.source))
        self.frames[spout.id] = frame

    def _with_event_times(self, spout: Spout, frame: DataFrame, column: str) -> DataFrame:
        if column not in frame.columns:
            problem = Problem(
                spout.id, f"has no column '{column}' for its event time", f"Its columns are: {', '.join(frame.columns)}"
            )
            raise TopologyError(self.topology.name, [problem])
        return observe_event_times(frame, spout.id, column)

    def _bolt(self, bolt: Bolt) -> None:
        inputs = [(source, self._input(bolt, source)) for source in bolt.inputs]
        missing = [problem for source, frame in inputs for problem in _missing_keys(bolt, source, frame)]
        if missing:
            raise TopologyError(self.topology.name, missing)
        frame = self._joined(bolt, inputs)
        worked = self._worked(bolt, frame)
        readers = [reader for stream in bolt.streams for reader in self.topology.readers(bolt.id, stream)]
        to_bolts = sum(1 for _, source in readers if not source.feedback)
        to_sink = self._sink_streams(bolt, worked)
        if to_bolts + bool(to_sink) > 1:
            worked = self._shared(bolt.id, worked, self._width(bolt))
        self.frames[bolt.id] = worked
        if to_sink:
            self.branches.append(self._branch(bolt, worked, to_sink))

    def _input(self, bolt: Bolt, source: From) -> DataFrame:
        if source.feedback:
            return self._feedback(bolt, source)
        return self._stream(source.component, source.stream)

    def _stream(self, component: str, stream: str) -> DataFrame:
        """One stream of a component, without the columns that tell streams apart."""
        frame = self.frames[component]
        if DEAD_COLUMN in frame.columns:
            frame = frame.where(F.col(DEAD_COLUMN).isNull()).drop(DEAD_COLUMN)
        if _tagged(self.topology.component(component)):
            frame = frame.where(F.col(STREAM_COLUMN) == stream).drop(STREAM_COLUMN)
        return frame

    def _feedback(self, bolt: Bolt, source: From) -> DataFrame:
        """What came back, read from the sink's own files; it has the columns of the loop's entry."""
        entry = self._entry(bolt)
        columns = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in entry.schema.fields)
        path: str = self.sink.path  # type: ignore[union-attr]
        make_folder(path)
        came_back = (
            self.spark.readStream.schema(f"{columns}, {STREAM_COLUMN} string").format(self.sink.format).load(path)
        )
        name = output_name(source.component, source.stream)
        return came_back.where(F.col(STREAM_COLUMN) == name).select(*entry.columns)

    def _entry(self, bolt: Bolt) -> DataFrame:
        first = next(source for source in bolt.inputs if not source.feedback)
        return self._stream(first.component, first.stream)

    def _feedback_fits(self) -> None:
        for bolt in self.topology.bolts:
            for source in bolt.inputs:
                if source.feedback and bolt.id in self.frames and source.component in self.frames:
                    self.problems += self._misfits(bolt, source)

    def _misfits(self, bolt: Bolt, source: From) -> Iterable[Problem]:
        given = dict(self._stream(source.component, source.stream).dtypes)
        for name, kind in self._entry(bolt).dtypes:
            if given.get(name) != kind:
                yield Problem(
                    f"{source.component} -> {bolt.id}",
                    f"feedback has {name}: {given.get(name, 'nothing')}, the loop's entry has {name}: {kind}",
                    "Give the feedback stream the columns and types of the bolt's first input",
                )

    def _joined(self, bolt: Bolt, inputs: list[tuple[From, DataFrame]]) -> DataFrame:
        """All inputs in one frame, behind one exchange where there is one."""
        several = len(inputs) > 1
        tagged = [
            (source, frame.withColumn(SOURCE_COLUMN, F.lit(source.component)) if several else frame)
            for source, frame in inputs
        ]
        if self._left_to_spark(bolt, [frame for _, frame in tagged]):
            return _union([frame for _, frame in tagged])
        routed = [
            placed(frame, bolt.id, source.grouping, bolt.pool_size, self.folder, bolt.replicas)
            for source, frame in tagged
        ]
        return exchange(_union(routed), bolt.id, bolt.pool_size, audit=self.audit)

    def _left_to_spark(self, bolt: Bolt, frames: list[DataFrame]) -> bool:
        """Whether there is no exchange of ours: local, or Spark's stateful operator brings its own."""
        if any(not source.grouping.exchanges for source in bolt.inputs):
            self.chained.add(bolt.id)
            return True
        if not isinstance(bolt.operator, Native) or not is_stateful(_union(frames), bolt.operator.work):
            return False
        steered = [s for s in bolt.inputs if isinstance(s.grouping, Dynamic | LoadAware | PartialKey)]
        if bolt.pool is not None or bolt.replicas is not None or steered:
            problem = Problem(
                bolt.id,
                "has replicas or a steered grouping in front of Spark's own stateful operator, which brings its own "
                "partitions",
                "Split it in two, partial then merge: a stateless bolt behind this edge that counts or sums each "
                "batch, and a bolt behind fields or global that adds the parts up",
            )
            raise TopologyError(self.topology.name, [problem])
        left = all(isinstance(source.grouping, Shuffle | Fields) for source in bolt.inputs)
        if left:
            self.stateful.add(bolt.id)
        return left

    def _worked(self, bolt: Bolt, frame: DataFrame) -> DataFrame:
        """The bolt's output with its streams told apart; unknown stream names become dead letters."""
        operator = bolt.operator
        worked: DataFrame = operator.work(frame) if isinstance(operator, Native) else self._python(bolt, frame)
        if not _tagged(bolt):
            return worked
        if STREAM_COLUMN not in worked.columns:
            problem = Problem(
                bolt.id,
                f"declares the streams {', '.join(bolt.streams)} but its output has no column '{STREAM_COLUMN}'",
                "Name the stream of each tuple in that column",
            )
            raise TopologyError(self.topology.name, [problem])
        return _with_unknown_streams_dead(bolt, worked)

    def _python(self, bolt: Bolt, frame: DataFrame) -> DataFrame:
        return run_python(bolt, frame, self.timers.timers[bolt.id])

    def _sink_streams(self, bolt: Bolt, worked: DataFrame) -> list[str]:
        streams = [stream for made, stream in self.topology.outputs() if made.id == bolt.id]
        return [*streams, *([DEAD_LETTERS] if DEAD_COLUMN in worked.columns else [])]

    def _branch(self, bolt: Bolt, worked: DataFrame, streams: list[str]) -> DataFrame:
        """The rows that a bolt sends to the sink, each named by its stream."""
        if STREAM_COLUMN in worked.columns and not _tagged(bolt):
            problem = Problem(
                bolt.id,
                f"its output has a column '{STREAM_COLUMN}', which names the stream in the sink",
                "Rename the column, or declare the bolt's streams",
            )
            raise TopologyError(self.topology.name, [problem])
        kept = [name for name in worked.columns if name not in (DEAD_COLUMN, STREAM_COLUMN)]
        for stream in streams:
            self.columns[DEAD_LETTERS if stream == DEAD_LETTERS else output_name(bolt.id, stream)] = (
                ("dead_letter",) if stream == DEAD_LETTERS else tuple(kept)
            )
        dead = F.col(DEAD_COLUMN) if DEAD_COLUMN in worked.columns else F.lit(None).cast(DEAD_TYPE)
        label = _label(bolt, streams)
        named = worked.withColumn("_ft_label", F.when(dead.isNotNull(), DEAD_LETTERS).otherwise(label))
        chosen = named.where(F.col("_ft_label").isNotNull())
        letters = [dead.alias("dead_letter")] if DEAD_COLUMN in worked.columns else []
        return chosen.select(F.col("_ft_label").alias(STREAM_COLUMN), *(f"`{name}`" for name in kept), *letters)

    def _shared(self, component: str, frame: DataFrame, width: int) -> DataFrame:
        """One exchange for all readers of a component, so that it runs once. Each task keeps its tuples together."""
        self._refuse_to_share_state(component, frame)
        name = f"{component}{SHARED}"
        return exchange(frame.withColumn(task_column(name), F.spark_partition_id()), name, width)

    def _refuse_to_share_state(self, component: str, frame: DataFrame) -> None:
        """Of several readers of one exchange, Spark gives only the first one the watermark from below it.

        The others' windows would never close, without a word: `test_spark_loses_the_watermark` shows it.
        """
        if has_state(frame):
            problem = Problem(
                component,
                "has several readers (bolts, sink, dead letters) and Spark's own state before it, which Spark cannot "
                "share: all readers but one would lose rows",
                "Give it one reader: end the topology there and read its output with a second one; a Python bolt needs "
                'on_error="fail" or nothing behind it',
            )
            raise TopologyError(self.topology.name, [problem])
        if has_watermark(frame):
            problem = Problem(
                component,
                "has several readers and a watermark, which Spark would give to only one of them",
                "Declare the watermark in the bolt that needs it, behind this one",
            )
            raise TopologyError(self.topology.name, [problem])

    def _width(self, bolt: Bolt) -> int:
        return max(bolt.pool_size, self.spark.sparkContext.defaultParallelism)

    def clashes(self) -> Iterable[Problem]:
        """Columns of one name but different types: they cannot stand side by side in the sink."""
        first: dict[str, str] = {}
        for branch in self.branches:
            for name, kind in branch.dtypes:
                known = first.setdefault(name, kind)
                if known != kind:
                    yield Problem(
                        "sink",
                        f"two output streams have a column '{name}', as {known} and as {kind}",
                        "All streams share one sink: rename or cast one of the two",
                    )

    def output(self) -> DataFrame:
        """All rows for the sink."""
        return _union(self.branches)


def _tagged(component: Spout | Bolt | None) -> bool:
    """Whether a component's output has a column that names each tuple's stream."""
    return isinstance(component, Bolt) and tuple(component.streams) != ("default",)


def _label(bolt: Bolt, streams: list[str]) -> Column:
    mine = [stream for stream in streams if stream != DEAD_LETTERS]
    if not _tagged(bolt):
        return F.lit(output_name(bolt.id, "default")) if mine else F.lit(None).cast("string")
    label = F.lit(None).cast("string")
    for stream in mine:
        label = F.when(F.col(STREAM_COLUMN) == stream, output_name(bolt.id, stream)).otherwise(label)
    return label


def _with_unknown_streams_dead(bolt: Bolt, worked: DataFrame) -> DataFrame:
    content = [f"`{name}`" for name in worked.columns if name != DEAD_COLUMN]
    known = F.coalesce(F.col(STREAM_COLUMN).isin(*bolt.streams), F.lit(False))  # noqa: FBT003
    said = F.concat(F.lit("UnknownStream: "), F.coalesce(F.col(STREAM_COLUMN), F.lit("null")))
    letter = F.struct(
        F.lit(bolt.id).alias("bolt"), said.alias("error"), F.lit(1).alias("attempts"),
        F.to_json(F.struct(*content)).alias("tuple"),
    ).cast(DEAD_TYPE)  # fmt: skip
    before = F.col(DEAD_COLUMN) if DEAD_COLUMN in worked.columns else F.lit(None).cast(DEAD_TYPE)
    return worked.withColumn(DEAD_COLUMN, F.when(before.isNull() & ~known, letter).otherwise(before))


def _missing_keys(bolt: Bolt, source: From, frame: DataFrame) -> Iterable[Problem]:
    for key in source.grouping.keys:
        if key not in frame.columns:
            yield Problem(
                f"{source.component} -> {bolt.id}",
                f"{source.grouping.name} grouping by '{key}', which is not in the stream",
                f"Its columns are: {', '.join(frame.columns)}",
            )


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
