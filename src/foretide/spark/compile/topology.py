"""From a topology to ONE streaming DataFrame: every output, dead letter and feedback tuple is a row of it.

- A bolt's inputs are placed, tagged with their origin when there are several, united, and sent through one exchange.
- What more than one reader reads passes one shared exchange first, so that the bolt behind it runs once.
- Problems are gathered, not raised one by one: what can still be compiled is, so that the list is complete.

What becomes of a bolt's output is in `outputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from foretide.errors import Problem, RouteError, TopologyError, WorkloadError
from foretide.metrics.batch import TIME_EVERY
from foretide.secrets import masked
from foretide.spark.compile.bolts import run_python
from foretide.spark.compile.outputs import Outputs, check_streams, pick_stream, refusal, union
from foretide.spark.compile.timing import Timers, observe_event_times
from foretide.spark.edges import compiling_for, exchange, placed, task_column
from foretide.spark.groupings import quoted
from foretide.spark.sinks import sink_port
from foretide.spark.sources.port import LoadContext
from foretide.spark.sources.registry import source_port
from foretide.spark.state import has_state, has_watermark, is_stateful
from foretide.topology.graph import STREAM_COLUMN, Bolt, From, Native, PerTuple, Spout, Topology, output_name
from foretide.topology.groupings import Dynamic, Fields, Global, LoadAware, PartialKey, Shuffle
from foretide.topology.shape import SHARED, PlanShape
from foretide.topology.sinks import Sink
from foretide.topology.validate import find_problems, find_run_problems

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from foretide.control_folder.folder import ControlFolder
    from foretide.topology.sinks import Guarantee

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
    timed = {
        bolt.id: isinstance(bolt.operator, PerTuple) for bolt in topology.bolts if not isinstance(bolt.operator, Native)
    }
    timers = Timers.of(spark.sparkContext, timed, time_every)
    outputs = Outputs(topology)
    compiler = Compiler(
        spark, topology, sink, folder, timers, problems, outputs, audit=audit, once_only=guarantee == "at-most-once"
    )
    compiler.run()
    problems += outputs.clashes()
    if problems:
        raise TopologyError(topology.name, problems)
    shape = PlanShape.of(topology, compiler.chained, compiler.stateful)
    return Compiled(union(outputs.branches), outputs.columns, shape, timers)


@dataclass
class Compiler:
    """Goes through the components in order. `chained` bolts have no exchange, `stateful` ones one of Spark's own."""

    spark: SparkSession
    topology: Topology
    sink: Sink
    folder: ControlFolder
    timers: Timers
    problems: list[Problem]
    outputs: Outputs
    audit: bool
    once_only: bool
    frames: dict[str, DataFrame] = field(default_factory=dict)
    chained: set[str] = field(default_factory=set)
    stateful: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Compile all components, as far as they can be."""
        for spout in self.topology.spouts:
            self._attempt(spout.id, partial(self._spout, spout))
        for bolt in self.topology.in_order():
            inputs = [source for source in bolt.inputs if not source.feedback]
            if inputs and all(source.component in self.frames for source in inputs):
                self._attempt(bolt.id, partial(self._bolt, bolt))
        self._check_feedback()

    def _check_feedback(self) -> None:
        """Note where a feedback stream does not have the columns of its loop's entry."""
        for bolt in self.topology.bolts:
            for source in bolt.inputs:
                if source.feedback and bolt.id in self.frames and source.component in self.frames:
                    self.problems += self._feedback_misfits(bolt, source)

    def _attempt(self, where: str, step: Callable[[], None]) -> None:
        try:
            step()
        except TopologyError as error:
            self.problems += error.problems
        except RouteError as error:
            if all(problem.where != where for problem in self.problems):
                self.problems.append(Problem(where, error.reason, "Correct its pool, replicas or ratio"))
        except WorkloadError as error:
            self.problems.append(Problem(where, str(error), "Correct the source"))
        except (AnalysisException, PySparkException) as error:
            reason = masked(str(error).split("\n", maxsplit=1)[0])
            self.problems.append(Problem(where, f"Spark refuses it: {reason}", "Correct the source or the bolt's work"))

    # ---- components

    def _spout(self, spout: Spout) -> None:
        frame = source_port(spout.source).load(LoadContext(self.spark, spout.id, self.folder, self.once_only))
        if spout.event_time is not None:
            if spout.event_time not in frame.columns:
                what = f"has no column '{spout.event_time}' for its event time"
                raise refusal(spout.id, what, f"Its columns are: {', '.join(frame.columns)}")
            frame = observe_event_times(frame, spout.id, spout.event_time)
        if self.topology.is_shared(spout):
            tasks = spout.source.partitions or self.spark.sparkContext.defaultParallelism
            frame = self._shared(spout.id, frame, tasks)
        self.frames[spout.id] = frame
        if spout.source.dead_letters:
            self.outputs.add_dead_letters(frame)

    def _bolt(self, bolt: Bolt) -> None:
        inputs = [(source, self._input(bolt, source)) for source in bolt.inputs]
        missing = [problem for source, frame in inputs for problem in missing_keys(bolt, source, frame)]
        if missing:
            raise TopologyError(self.topology.name, missing)
        output = check_streams(bolt, self._work(bolt, self._gathered(bolt, inputs)))
        readers = [reader for stream in bolt.streams for reader in self.topology.readers(bolt.id, stream)]
        to_bolts = sum(1 for _, source in readers if not source.feedback)
        to_sink = self.outputs.streams_of(bolt, output)
        if to_bolts + bool(to_sink) > 1:
            output = self._shared(bolt.id, output, max(bolt.pool_size, self.spark.sparkContext.defaultParallelism))
        self.frames[bolt.id] = output
        if to_sink:
            self.outputs.add(bolt, output, to_sink)

    def _work(self, bolt: Bolt, frame: DataFrame) -> DataFrame:
        if isinstance(bolt.operator, Native):
            with compiling_for(self.folder):
                output: DataFrame = bolt.operator.work(frame)
            return output
        return run_python(bolt, frame, self.timers.timers[bolt.id])

    # ---- inputs

    def _input(self, bolt: Bolt, source: From) -> DataFrame:
        return self._feedback(bolt, source) if source.feedback else self._stream(source.component, source.stream)

    def _stream(self, component: str, stream: str) -> DataFrame:
        return pick_stream(self.frames[component], self.topology.component(component), stream)

    def _feedback(self, bolt: Bolt, source: From) -> DataFrame:
        """Feedback tuples, read from the sink; they have the columns of the loop's entry."""
        if not isinstance(self.sink, Sink) or not self.sink.feedback:
            raise TopologyError(self.topology.name, [])  # it is among the problems already
        entry = self._entry(bolt)
        columns = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in entry.schema.fields)
        name = output_name(source.component, source.stream)
        returned = sink_port(self.sink).read_stream(self.spark, f"{columns}, {STREAM_COLUMN} string", name)
        return returned.where(F.col(STREAM_COLUMN) == name).select(*entry.columns)

    def _entry(self, bolt: Bolt) -> DataFrame:
        first = next(source for source in bolt.inputs if not source.feedback)
        return self._stream(first.component, first.stream)

    def _feedback_misfits(self, bolt: Bolt, source: From) -> Iterable[Problem]:
        given = dict(self._stream(source.component, source.stream).dtypes)
        for name, kind in self._entry(bolt).dtypes:
            if given.get(name) != kind:
                yield Problem(
                    f"{source.component} -> {bolt.id}",
                    f"feedback has {name}: {given.get(name, 'nothing')}, the loop's entry has {name}: {kind}",
                    "Give the feedback stream the columns and types of the bolt's first input",
                )

    # ---- exchanges

    def _gathered(self, bolt: Bolt, inputs: list[tuple[From, DataFrame]]) -> DataFrame:
        """All inputs in one frame, behind one exchange where there is one."""
        if len(inputs) > 1:
            inputs = [(source, frame.withColumn(SOURCE_COLUMN, F.lit(source.component))) for source, frame in inputs]
        united = union(frame for _, frame in inputs)
        if self._left_to_spark(bolt, united):
            return united
        routed = [
            placed(frame, bolt.id, source.grouping, bolt.pool_size, self.folder, bolt.replicas)
            for source, frame in inputs
        ]
        return exchange(union(routed), bolt.id, bolt.pool_size, audit=self.audit)

    def _left_to_spark(self, bolt: Bolt, united: DataFrame) -> bool:
        """Whether there is no exchange of ours: local, or Spark's stateful operator brings its own."""
        if any(not source.grouping.exchanges for source in bolt.inputs):
            self.chained.add(bolt.id)
            return True
        if not isinstance(bolt.operator, Native):
            return False
        with compiling_for(self.folder):
            stateful = is_stateful(united, bolt.operator.work)
        if not stateful:
            return False
        steered = [s for s in bolt.inputs if isinstance(s.grouping, Dynamic | LoadAware | PartialKey)]
        if bolt.pool is not None or bolt.replicas is not None or steered:
            raise refusal(
                bolt.id,
                "has replicas or a steered grouping in front of Spark's own stateful operator, which brings its own "
                "partitions",
                "Split it in two, partial then merge: a stateless bolt behind this edge that counts or sums each "
                "batch, and a bolt behind fields or global that adds the parts up",
            )
        left = all(isinstance(source.grouping, Shuffle | Fields | Global) for source in bolt.inputs)
        if left:
            self.stateful.add(bolt.id)
        return left

    def _shared(self, component: str, frame: DataFrame, width: int) -> DataFrame:
        """One exchange for all readers of a component, so that it runs once. Each task keeps its tuples together."""
        _refuse_to_share_state(component, frame)
        name = f"{component}{SHARED}"
        return exchange(frame.withColumn(task_column(name), F.spark_partition_id()), name, width)


def _refuse_to_share_state(component: str, frame: DataFrame) -> None:
    """Of several readers of one exchange, Spark gives only the first one the watermark from below it.

    The others' windows would never close, without a word: `test_spark_loses_the_watermark` shows it.
    """
    if has_state(frame):
        raise refusal(
            component,
            "has several readers (bolts, sink, dead letters) and Spark's own state before it, which Spark cannot "
            "share: all readers but one would lose rows",
            "Give it one reader: end the topology there and read its output with a second one; a Python bolt needs "
            'on_error="fail" or nothing behind it',
        )
    if has_watermark(frame):
        raise refusal(
            component,
            "has several readers and a watermark, which Spark would give to only one of them",
            "Declare the watermark in the bolt that needs it, behind this one",
        )


def missing_keys(bolt: Bolt, source: From, frame: DataFrame) -> Iterable[Problem]:
    """Columns that an input's grouping needs and its stream does not have."""
    for key in source.grouping.keys:
        if key not in frame.columns:
            yield Problem(
                f"{source.component} -> {bolt.id}",
                f"{source.grouping.name} grouping by '{key}', which is not in the stream",
                f"Its columns are: {', '.join(frame.columns)}",
            )
