"""From a topology to a streaming DataFrame for real-time mode.

There all stages run at the same time, and an exchange has one reader. So what goes to the sink is compiled branch by
branch, each with a chain of its own from the source on: a bolt that both the sink and another bolt read runs once for
each of them. Streams and dead letters of the same bolt share a branch. Spark cannot unite stages that read an exchange,
so each branch with one is a query of its own. Operators count their tuples while they run, each in one branch: the one
with the longest path to the sink, see `branches`. Every branch carries the timestamps of records to its end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from foretide.errors import TopologyError
from foretide.metrics.task_meters import SINK
from foretide.spark.compile.bolts import DEAD_COLUMN, MARKER, TOOK, run_python_at_once
from foretide.spark.compile.outputs import Outputs, check_streams, pick_stream, refusal, union
from foretide.spark.compile.timing import Timers
from foretide.spark.compile.topology import SOURCE_COLUMN, Compiled, Compiler, missing_keys
from foretide.spark.groupings import quoted
from foretide.spark.realtime.branches import Branches, sink_streams
from foretide.spark.realtime.edges import LiveEdges
from foretide.spark.realtime.lag import partitions_name
from foretide.spark.realtime.meters import (
    PARTITION,
    TIMESTAMP,
    hold_timestamp,
    meter_entry,
    meter_partitions,
    meter_sent,
    meter_work,
    restore_timestamp,
)
from foretide.spark.sources.port import LoadContext
from foretide.spark.sources.registry import source_port
from foretide.spark.state import PARTITIONS, stateful_operators
from foretide.topology.graph import STREAM_COLUMN, Bolt, From, Native, Spout, Topology, feedback_name
from foretide.topology.modes import REAL_TIME
from foretide.topology.shape import PlanShape
from foretide.topology.validate import find_problems, find_run_problems

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from foretide.control_folder.folder import ControlFolder
    from foretide.topology.sinks import Guarantee, Sink

_POSSIBLE = frozenset({"Aggregate", "Deduplicate", "Distinct"})


@dataclass(frozen=True)
class RealTimeCompiled(Compiled):
    """A topology for real-time mode.

    Attributes:
        tasks: The slots that each operator needs, in all branches; a spout needs one for each partition it reads.
        metered: The tasks of the operators that count their tuples.
        counters: The tasks of all counters that the queries need, by name: those of operators, and others.
        sinks: Those of tuples that reach the sink from a bolt that is metered in another branch.
        chained: Bolts that have no exchange.
        stateful: Bolts behind an exchange of Spark's own, which know no timestamps.
        queries: What each query writes; all of them together are `frame`, which is not started.
        query_of: The query in which each operator counts its tuples, by its place among `queries`.
    """

    tasks: dict[str, int] = field(default_factory=dict)
    metered: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    sinks: dict[str, int] = field(default_factory=dict)
    chained: frozenset[str] = frozenset()
    stateful: frozenset[str] = frozenset()
    queries: tuple[DataFrame, ...] = ()
    query_of: dict[str, int] = field(default_factory=dict)


def compile_real_time(
    spark: SparkSession,
    topology: Topology,
    sink: Sink,
    folder: ControlFolder,
    guarantee: Guarantee,
    partitions: dict[str, int],
) -> RealTimeCompiled:
    """Compile a topology, or raise one error that lists everything that is wrong with it.

    `partitions` are those that each spout reads, and each feedback (`foretide.topology.graph.feedback_name`).
    """
    problems = [*find_problems(topology), *find_run_problems(topology, sink, guarantee, REAL_TIME)]
    python = {bolt.id: False for bolt in topology.bolts if not isinstance(bolt.operator, Native)}
    timers = Timers.of(spark.sparkContext, python)
    outputs = Outputs(topology)
    compiler = _RealTimeCompiler(
        spark, topology, sink, folder, timers, problems, outputs, audit=False, once_only=False,
        edges=LiveEdges(spark, folder), partitions=partitions, branches=Branches.of(topology),
    )  # fmt: skip
    compiler.run()
    problems += outputs.clashes()
    if problems:
        raise TopologyError(topology.name, problems)
    shape = PlanShape.of(topology, compiler.chained, compiler.stateful)
    return RealTimeCompiled(
        union(outputs.branches),
        outputs.columns,
        shape,
        timers,
        tasks=dict(compiler.tasks),
        metered=compiler.metered,
        counters=compiler.counters,
        sinks={name: tasks for name, tasks in compiler.counters.items() if name.endswith(SINK)},
        chained=frozenset(compiler.chained),
        stateful=frozenset(compiler.stateful),
        queries=_queries(outputs.branches, compiler.plain),
        query_of={
            name: _query_of(branch, compiler.plain, len(outputs.branches))
            for name, branch in compiler.branch_of.items()
        },
    )


def _queries(branches: list[DataFrame], plain: list[int]) -> tuple[DataFrame, ...]:
    """The branches as few queries: those without an exchange, by their places, together, each of the others alone.

    Behind a union a task would ask for the partition of its place in the union, which its exchange does not have.
    """
    together = [branch for place, branch in enumerate(branches) if place in plain]
    alone = [branch for place, branch in enumerate(branches) if place not in plain]
    return (*alone, *([union(together)] if together else []))


def _query_of(branch: int, plain: list[int], branches: int) -> int:
    """The place of a branch's query in what `_queries` returns."""
    alone = [place for place in range(branches) if place not in plain]
    return len(alone) if branch in plain else alone.index(branch)


@dataclass(frozen=True)
class _Part:
    """The output of a component in one branch.

    Attributes:
        frame: The tuples, with `_ft_timestamp` if it is known and not in counters.
        width: The tasks of its stage.
        operator: The operator whose tuples are counted in this stage, if any.
        timed: Whether the work on the tuples is timed already.
        holds: The counters that hold the timestamp of the tuple under work, if any.
        reads_exchange: Whether its stage begins with an exchange, not with a source.
    """

    frame: DataFrame
    width: int
    operator: str | None = None
    timed: bool = False
    holds: str | None = None
    reads_exchange: bool = False


@dataclass(kw_only=True)
class _RealTimeCompiler(Compiler):
    edges: LiveEdges
    partitions: dict[str, int]
    branches: Branches
    branch: str = ""
    tasks: Counter[str] = field(default_factory=Counter)
    metered: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    plain: list[int] = field(default_factory=list)
    entries: dict[str, DataFrame] = field(default_factory=dict)
    branch_of: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        for bolt in self.topology.in_order():
            if bolt.id in self.branches.members:
                self._attempt(bolt.id, partial(self._branch, bolt))
        for spout in self.topology.spouts:
            if spout.source.dead_letters:
                self._attempt(spout.id, partial(self._letters, spout))
        self._check_feedback()

    def _branch(self, bolt: Bolt) -> None:
        self.branch = bolt.id
        part = self._timed(self._part(bolt))
        if not part.reads_exchange:
            self.plain.append(len(self.outputs.branches))
        sent = self._at_sink(bolt, part) if part.operator is None else self._sent(part).frame
        frame = sent.drop(TIMESTAMP)
        self.outputs.add(bolt, frame, self.outputs.streams_of(bolt, frame))

    def _letters(self, spout: Spout) -> None:
        self.tasks[spout.id] += self.partitions.get(spout.id, 1)
        frame = source_port(spout.source).load(LoadContext(self.spark, spout.id, self.folder))
        self.plain.append(len(self.outputs.branches))
        self.outputs.add_dead_letters(frame)

    # ---- components, made anew in each branch

    def _part(self, component: Spout | Bolt) -> _Part:
        part = self._spout_part(component) if isinstance(component, Spout) else self._bolt_part(component)
        self.frames[component.id] = part.frame.drop(TIMESTAMP, TOOK)  # feedback needs to know its columns
        return part

    def _spout_part(self, spout: Spout) -> _Part:
        tasks = self.partitions.get(spout.id, 1)
        self.tasks[spout.id] += tasks
        metered = self._meters(spout.id, tasks)
        partition = PARTITION if metered else None
        context = LoadContext(self.spark, spout.id, self.folder, timestamp_column=TIMESTAMP, partition_column=partition)
        part = _Part(source_port(spout.source).load(context), tasks)
        if not metered:
            return part
        frame = meter_entry(self._by_partition(spout, part), spout.id, self.edges.key, tasks)
        return replace(part, frame=frame, operator=spout.id, holds=spout.id)

    def _by_partition(self, spout: Spout, part: _Part) -> DataFrame:
        """The records of a spout, counted by the partition of their topic where they have one."""
        if PARTITION not in part.frame.columns:
            return part.frame
        name = partitions_name(spout.id)
        self._count(name, part.width)
        return meter_partitions(part.frame, name, self.edges.key, part.width)

    def _bolt_part(self, bolt: Bolt) -> _Part:
        inputs = self._inputs(bolt)
        missing = [
            problem for source, part in inputs for problem in missing_keys(bolt, source, part.frame.drop(TIMESTAMP))
        ]
        if missing:
            raise TopologyError(self.topology.name, missing)
        part = self._gather(bolt, inputs)
        made = self._worked(bolt, part)
        _refuse_impossible(bolt, made.frame)
        return replace(made, frame=check_streams(bolt, made.frame))

    def _inputs(self, bolt: Bolt) -> list[tuple[From, _Part]]:
        """What a bolt reads; feedback comes last, as it has the columns of the first input."""
        inputs = [(source, self._read(source)) for source in bolt.inputs if not source.feedback]
        if not inputs:
            raise TopologyError(self.topology.name, [])  # it is among the problems already
        self.entries[bolt.id] = inputs[0][1].frame.drop(TIMESTAMP)
        returned = [(source, _Part(self._returned(bolt, source), 0)) for source in bolt.inputs if source.feedback]
        return [*inputs, *returned]

    def _read(self, source: From) -> _Part:
        component = self.topology.component(source.component)
        assert component is not None  # noqa: S101 - bolts are in order
        part = self._part(component)
        if not source.grouping.exchanges:  # it goes on in the same tasks
            return replace(part, frame=pick_stream(part.frame, component, source.stream))
        part = self._timed(part)
        return self._sent(replace(part, frame=pick_stream(part.frame, component, source.stream)))

    def _returned(self, bolt: Bolt, source: From) -> DataFrame:
        """What comes back, counted; it is read by tasks of its own."""
        name, frame = feedback_name(bolt, source), self._feedback(bolt, source)
        tasks = self.partitions.get(name, 1)
        self.tasks[name] += tasks
        if name in self.counters or self.branches.metered_in[bolt.id] != self.branch:
            return frame
        self._count(name, tasks)
        return meter_entry(frame, name, self.edges.key, tasks)

    def _gather(self, bolt: Bolt, inputs: list[tuple[From, _Part]]) -> _Part:
        """All inputs in one frame, behind one exchange where there is one."""
        if len(inputs) > 1:
            inputs = [(source, _tagged(part, source)) for source, part in inputs]
            _refuse_to_unite(bolt, inputs)
            inputs.sort(key=lambda each: not each[1].reads_exchange)  # the first one keeps the numbers of its tasks
        if self._left_to_spark(bolt, union(part.frame for _, part in inputs)):
            if bolt.id in self.chained:
                return inputs[0][1]
            tasks = int(str(self.spark.conf.get(PARTITIONS)))
            self.tasks[bolt.id] += tasks
            return _Part(union(part.frame.drop(TIMESTAMP) for _, part in inputs), tasks, reads_exchange=True)
        pool = bolt.pool_size
        self.tasks[bolt.id] += pool
        routed = union(
            self.edges.placed(part.frame, bolt.id, source.grouping, pool, bolt.replicas) for source, part in inputs
        )
        metered = self._meters(bolt.id, pool)
        frame = self.edges.exchange(routed, bolt.id, pool, measured=metered)
        name = bolt.id if metered else None
        return _Part(frame, pool, operator=name, holds=name, reads_exchange=True)

    def _worked(self, bolt: Bolt, part: _Part) -> _Part:
        if isinstance(bolt.operator, Native):
            part = self._held(bolt, part)
            return replace(part, frame=bolt.operator.work(part.frame))
        part = self._restored(part)
        carried = TIMESTAMP if TIMESTAMP in part.frame.columns else None
        frame = run_python_at_once(bolt, _with_markers(part.frame), self.timers.timers[bolt.id], carried)
        if carried is not None and part.operator is not None and not part.timed:
            frame = meter_work(frame, part.operator, self.edges.key, part.width, took=F.col(TOOK))
        return replace(part, frame=frame.drop(TOOK), timed=True)

    # ---- timestamps and counters

    def _held(self, bolt: Bolt, part: _Part) -> _Part:
        """A part whose timestamps are in counters, where native work cannot drop them."""
        if TIMESTAMP not in part.frame.columns:
            return part
        name = f"{bolt.id}@{len(self.counters)}"
        self._count(name, part.width)
        return replace(part, frame=hold_timestamp(part.frame, name, self.edges.key, part.width), holds=name)

    def _restored(self, part: _Part) -> _Part:
        """A part whose timestamps are in the column again."""
        if part.holds is None:
            return part
        frame = restore_timestamp(part.frame, part.holds, self.edges.key, part.width)
        return replace(part, frame=frame, holds=None)

    def _timed(self, part: _Part) -> _Part:
        """A part at the end of its stage, with its work timed and its timestamps in the column."""
        if part.operator is None or part.timed:
            return self._restored(part)
        frame = meter_work(part.frame, part.operator, self.edges.key, part.width)
        return replace(part, frame=frame, timed=True, holds=None)

    def _sent(self, part: _Part) -> _Part:
        """A part with the tuples counted that its operator sends on."""
        if part.operator is None:
            return part
        return replace(part, frame=meter_sent(part.frame, part.operator, self.edges.key, part.width))

    def _at_sink(self, bolt: Bolt, part: _Part) -> DataFrame:
        """The tuples of a bolt that is metered in another branch, with those counted that go from here to the sink."""
        streams = sink_streams(self.topology, bolt)
        if TIMESTAMP not in part.frame.columns or not streams:
            return part.frame
        frame = part.frame
        if STREAM_COLUMN in frame.columns and DEAD_COLUMN in frame.columns:
            frame = frame.where(F.col(STREAM_COLUMN).isin(*streams) | F.col(DEAD_COLUMN).isNotNull())
        name = f"{bolt.id}{SINK}"
        self._count(name, part.width)
        return meter_sent(frame, name, self.edges.key, part.width)

    def _meters(self, operator: str, tasks: int) -> bool:
        """Whether the tuples of an operator are to be counted: in one branch, and there once."""
        if operator in self.metered or self.branches.metered_in[operator] != self.branch:
            return False
        self.metered[operator] = tasks
        self._count(operator, tasks)
        return True

    def _count(self, name: str, tasks: int) -> None:
        """Note counters of this branch."""
        self.counters[name] = tasks
        self.branch_of[name] = len(self.outputs.branches)

    def _entry(self, bolt: Bolt) -> DataFrame:
        return self.entries[bolt.id]


def _with_markers(frame: DataFrame) -> DataFrame:
    """The tuples, each followed by a row that is none, with `_ft_marker`.

    Spark asks for the next row before it sends an Arrow batch to Python, even if the batch is full. So a tuple would
    wait until the next one comes; the row behind it is there at once.
    """
    marked = frame.withColumn(MARKER, F.explode(F.array(F.lit(False), F.lit(True))))  # noqa: FBT003
    return marked.select(*(F.when(~F.col(MARKER), F.col(quoted(name))).alias(name) for name in frame.columns), MARKER)


def _tagged(part: _Part, source: From) -> _Part:
    return replace(part, frame=part.frame.withColumn(SOURCE_COLUMN, F.lit(source.component)))


def _refuse_to_unite(bolt: Bolt, inputs: list[tuple[From, _Part]]) -> None:
    behind = [source.component for source, part in inputs if part.reads_exchange]
    if len(behind) > 1:
        raise refusal(
            bolt.id,
            f"reads {' and '.join(behind)}, each behind an edge of its own, which real-time mode cannot unite",
            'Let them write to one topic and read that in a second topology, or use mode="micro-batch"',
        )


def _refuse_impossible(bolt: Bolt, frame: DataFrame) -> None:
    """Spark runs aggregations and deduplication in real-time mode, and no other state."""
    impossible = sorted(set(stateful_operators(frame)) - _POSSIBLE)
    if impossible:
        what = "a join of two streams" if impossible == ["Join"] else f"the stateful operator {', '.join(impossible)}"
        raise refusal(
            bolt.id,
            f"has {what}, which real-time mode cannot run",
            'Run the topology with mode="micro-batch", or keep to groupBy().agg() and dropDuplicates()',
        )
