"""What a running real-time query did, twice a second: the meters of its tasks, read while they run, as reports.

A report is about the time since the one before, not about one of Spark's batches, which last a minute or more.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from foretide.errors import ForetideError
from foretide.metrics.arrival_variation import ArrivalVariation
from foretide.metrics.batch import BatchReport, BoltTimes, EdgeFlow, EventTimes, Lag, Returned, TaskRun
from foretide.metrics.task_meters import (
    EMITTED,
    TaskMeter,
    Work,
    by_task,
    merged,
    parse_counters,
    property_of,
    quantile,
    total,
)
from foretide.spark.progress.reader import QueryState, last_batch, read_report

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from foretide.spark.realtime.lag import TopicLag
    from foretide.spark.realtime.operators import MeteredOperator

ReadCounters = Callable[[Sequence[str]], Mapping[str, Mapping[str, str]]]
"""Properties in, counters as text out: by executor and property. A ForetideError says that nobody could be asked."""

Meters = Mapping[str, Mapping[str, Sequence[TaskMeter]]]
"""The meters of tasks, by property and executor."""

TaskWork = Mapping[tuple[str, int | None], Work]
"""What the tasks of an operator did, by executor and task."""

PERIOD_SECONDS = 0.5
"""From report to report: two in a row that say that an executor is slow come within about a second."""

_BOUNDARY_SECONDS = 2.0
"""After the end of one of Spark's batches: what waited comes in at once then, which tells nothing about arrivals."""

_LEVELS = (0.01, 0.05, 0.5)
"""The oldest tuples have waited longest: latency at 0.99 is told by event time at 0.01."""


class RealTimeReader:
    """Reads the meters of one run of a query, and makes a report of every `period` seconds, idle or not.

    Attributes:
        unavailable: Why the meters could not be read the last time; None if they could. The next report that can be
            made holds what was missed.
        next_batch: The number of the next report.
        last_read: The counters as they were read last.
        uncommitted: Tuples that spouts have read since Spark's last batch ended, or since the start.
        committed_at: When that was, in seconds since 1970.
    """

    def __init__(
        self,
        query: StreamingQuery,
        operators: Sequence[MeteredOperator],
        key: str,
        read_counters: ReadCounters,
        *,
        sinks: Mapping[str, int] | None = None,
        topics: Sequence[TopicLag] = (),
        route_version: Callable[[], int | None] = lambda: None,
        host_of: Callable[[str], str] = lambda _executor: "localhost",
        baseline: Mapping[str, Mapping[str, str]] | None = None,
        first_batch: int = 0,
        period: float = PERIOD_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Follow a query.

        Args:
            query: Spark's query.
            operators: Its operators with meters.
            key: The key of the meters.
            read_counters: Reads them from all executors.
            sinks: Counters of tuples at the sink, apart from those of operators, with their tasks.
            topics: The topics that it reads, where their lag is to be measured.
            route_version: The version of the routes that all executors use.
            host_of: The host of an executor.
            baseline: What the counters showed before the query was started: needed if another query has used the key.
            first_batch: The number of the first report: after a restart, `next_batch` of the reader before.
            period: Seconds between two reports.
            clock: Seconds since 1970.
        """
        self._query, self._operators, self._read_counters = query, tuple(operators), read_counters
        self._route_version, self._host_of, self._period, self._clock = route_version, host_of, period, clock
        self._properties = {
            property_of(key, f"{each.name}{suffix}", each.width): (each.name, bool(suffix))
            for each in operators
            for suffix in (("", EMITTED) if each.crossing else ("",))
        }
        self._sinks = [property_of(key, name, width) for name, width in (sinks or {}).items()]
        self._topics = {property_of(key, each.reader.counters, each.reader.width): each for each in topics}
        self._properties |= {name: (each.reader.counters, False) for name, each in self._topics.items()}
        self._before: dict[str, dict[str, Sequence[TaskMeter]]] = defaultdict(dict)
        self.last_read: Mapping[str, Mapping[str, str]] = baseline or {}
        self._take_in(_parsed(self.last_read))
        self._last, self._seen_batch, self._over = clock(), -1, False
        self._where: dict[tuple[str, int | None], str] = {}
        self._arrivals = {each.name: ArrivalVariation(each.takes_ahead) for each in operators}
        self._flown: dict[str, int] = dict.fromkeys(self._counted_edges(), 0)
        self.next_batch = first_batch
        self.unavailable: str | None = None
        self.uncommitted, self.committed_at = 0, self._last

    # ---- what the follower and the supervisor ask

    def state(self) -> QueryState:
        """How the query is at this moment."""
        active = bool(self._query.isActive)
        busy = active and bool(self._query.status.get("isTriggerActive"))
        failed = None if active else self._query.exception()
        return QueryState(active, busy, str(failed) if failed else None, last_batch(self._query))

    def prepare(self) -> None:
        """Read the meters once, and ask the brokers: the first time takes longest. It changes no report."""
        self._read()
        for topic in self._topics.values():
            topic.connect()

    def reports(self) -> list[BatchReport]:
        """The report of the time since the last one, if a period is over or the query has ended."""
        now, ended = self._clock(), not self._query.isActive and not self._over
        if now - self._last < self._period and not ended and now >= self._last:
            return []
        self._over = self._over or ended
        for topic in self._topics.values():
            topic.look()
        read = self._read()
        return [] if read is None else [self._report(read, self._clock())]

    @property
    def waiting(self) -> bool:
        """Whether the query has ended and its last figures were not reported yet."""
        return not self._over and not self._query.isActive

    def close(self) -> None:
        """Follow the query no longer."""
        self._over = True
        for topic in self._topics.values():
            topic.close()

    # ---- reading

    def _read(self) -> Meters | None:
        try:
            texts = self._read_counters((*self._properties, *self._sinks))
            read = _parsed(texts)
        except ForetideError as error:
            self.unavailable = str(error)
            return None
        self.unavailable = None
        self.last_read = {**self.last_read, **texts}
        return read

    def _take_in(self, read: Meters) -> dict[str, TaskWork]:
        """What each task did since the last reading of its executor, by property."""
        done: dict[str, TaskWork] = {}
        for name in (*self._properties, *self._sinks):
            done[name] = by_task(self._before[name], read.get(name, {}))
            self._before[name].update(read.get(name, {}))
        return done

    def _report(self, read: Meters, now: float) -> BatchReport:
        done = self._take_in(read)
        entered: dict[str, TaskWork] = {}
        left: dict[str, TaskWork] = {}
        for name, (operator, is_end) in self._properties.items():
            (left if is_end else entered)[operator] = done[name]
        returned, lag = self._count_topics(done)
        operators = [_Done(each, entered[each.name], left.get(each.name)) for each in self._operators]
        seconds, self._last = max(0.0, now - self._last), now
        number, self.next_batch = self.next_batch, self.next_batch + 1
        edges = self._edges(operators)
        progress = self._new_progress()
        spouts = {each.operator.name: each.all.tuples for each in operators if each.operator.spout}
        self.uncommitted += sum(spouts.values())
        if progress is not None:
            self.uncommitted, self.committed_at = 0, now
        at_sink = [each.end for each in operators if each.operator.sink]
        at_sink += [total(done[name].values()) for name in self._sinks]
        if now - self.committed_at >= _BOUNDARY_SECONDS:
            for each in operators:
                self._arrivals[each.operator.name].add(each.entered, seconds)
        variation = {name: arrivals.scv for name, arrivals in self._arrivals.items()}
        return BatchReport(
            batch=number,
            finished=now,
            duration=seconds,
            input_rows=sum(spouts.values()),
            route_version=self._route_version(),
            edges=edges,
            stateful=any(each.crossing for each in self._operators),
            tasks=tuple(run for each in operators for run in self._runs(each)),
            python={each.operator.name: times for each in operators if (times := each.times) is not None},
            event_times=_event_times(total(at_sink), spouts, now),
            state=None if progress is None else progress.state,
            watermark=None if progress is None else progress.watermark,
            in_flight={edge: max(0, tuples) for edge, tuples in self._flown.items()},
            arrival_scv={name: scv for name, scv in variation.items() if scv is not None},
            lag=lag,
            returned=returned,
        )

    def _count_topics(self, done: Mapping[str, TaskWork]) -> tuple[dict[str, Returned], dict[str, Lag]]:
        """What came back through each feedback, and the lag of each spout."""
        returned: dict[str, Returned] = {}
        lags: dict[str, Lag] = {}
        for name, topic in self._topics.items():
            rows: dict[int | None, int] = defaultdict(int)
            for (_, row), work in done[name].items():
                rows[row] += work.tuples
            topic.count(rows)
            if topic.reader.feedback:
                returned[topic.reader.name] = Returned(sum(rows.values()), topic.written, topic.lag().records)
            else:
                lags[topic.reader.name] = topic.lag()
        return returned, lags

    def _new_progress(self) -> BatchReport | None:
        """What Spark itself has reported since the last time, at the end of one of its batches."""
        progress = self._query.lastProgress
        if progress is None or progress.batchId <= self._seen_batch or "addBatch" not in progress.durationMs:
            return None
        self._seen_batch = progress.batchId
        return read_report(progress)

    # ---- edges

    def _feeders(self, edge: str) -> list[MeteredOperator]:
        return [each for each in self._operators if each.feeds == edge]

    def _counted_edges(self) -> Iterator[str]:
        """Edges whose tuples are counted on both sides, in the same query."""
        for each in self._operators:
            feeders = self._feeders(each.edge) if each.edge else []
            if each.edge and feeders and all(feeder.sends_all for feeder in feeders):
                yield each.edge

    def _edges(self, operators: Sequence[_Done]) -> dict[str, EdgeFlow]:
        """What went over each edge; where only its end has meters, what was read counts as written."""
        sent = {each.operator.name: each.emitted for each in operators}
        found = {}
        for each in operators:
            edge = each.operator.edge
            if edge is None:
                continue
            read = written = each.all.tuples
            if edge in self._flown:
                written = sum(sent[feeder.name] for feeder in self._feeders(edge))
                self._flown[edge] += written - read
            found[edge] = EdgeFlow(written, read, 1, each.per_task, each.busy_ms)
        return found

    # ---- tasks

    def _runs(self, done: _Done) -> Iterator[TaskRun]:
        """A run for each task and executor with tuples, and for each idle task where it was last."""
        name = done.operator.name
        worked = [place for place, work in done.entered.items() if work.tuples or work.emitted]
        self._where |= {(name, task): executor for executor, task in worked if task is not None}
        busy = {task for _, task in worked}
        idle = [(self._where[name, task], task) for task in range(done.operator.width)
                if task not in busy and (name, task) in self._where]  # fmt: skip
        for executor, task in [*worked, *idle]:
            yield self._run(done.operator, executor, task, done.entered.get((executor, task), Work()))
        for (executor, task), work in (done.left or {}).items():
            if work.emitted:
                yield self._run(done.operator, executor, task, work, later=True)

    def _run(
        self, operator: MeteredOperator, executor: str, task: int | None, work: Work, *, later: bool = False
    ) -> TaskRun:
        seconds = None if operator.crossing else work.all_seconds
        known: Literal["work", "tuples"] = "tuples" if seconds is None else "work"
        inner = operator.crossing and not later
        return TaskRun(
            operator=operator.name,
            task=task,
            edge=operator.edge,
            feeds=None if inner else operator.feeds,
            passing=False,
            worker=executor,
            host=self._host_of(executor),
            waited_ms=0.0,
            run_ms=(seconds or 0.0) * 1000,
            cpu_ms=0.0,
            deserialize_ms=0.0,
            gc_ms=0.0,
            fetch_wait_ms=0.0,
            write_ms=0.0,
            rows_in=work.tuples,
            rows_out=work.emitted,
            bytes_read=0,
            bytes_written=0,
            spilled_bytes=0,
            inner=inner,
            later=later,
            known=known,
        )


def _parsed(read: Mapping[str, Mapping[str, str]]) -> Meters:
    found: dict[str, dict[str, Sequence[TaskMeter]]] = defaultdict(dict)
    for executor, texts in read.items():
        for name, text in texts.items():
            found[name][executor] = parse_counters(text)
    return found


class _Done:
    """What an operator did, task by task; `left` where the exits have counters of their own."""

    def __init__(
        self,
        operator: MeteredOperator,
        entered: TaskWork,
        left: TaskWork | None,
    ) -> None:
        self.operator, self.entered, self.left = operator, entered, left
        self.all = total(entered.values())
        self.end = self.all if left is None else total(left.values())

    @property
    def emitted(self) -> int:
        return self.end.emitted

    @property
    def times(self) -> BoltTimes | None:
        """The work on tuples; None if no tuple was timed."""
        done = self.all
        return BoltTimes(done.tuples, done.timed, done.seconds, done.squares, dead=None) if done.timed else None

    @property
    def per_task(self) -> tuple[int, ...]:
        return tuple(work.tuples for work in self._by_number())

    @property
    def busy_ms(self) -> tuple[int, ...]:
        return tuple(round(1000 * (work.all_seconds or 0.0)) for work in self._by_number())

    def _by_number(self) -> list[Work]:
        """The work of each task, wherever it ran."""
        return [
            total(work for (_, task), work in self.entered.items() if task == number)
            for number in range(self.operator.width)
        ]


def _event_times(at_sink: Work, spouts: Mapping[str, int], now: float) -> dict[str, EventTimes]:
    """Latency at the sink as event times; tuples at the sink do not tell their spout, so all spouts get the same."""
    histogram, mean = merged([at_sink.latencies]), at_sink.mean_latency
    if mean is None:
        return {}
    at = {level: now - (quantile(histogram, 1 - level) or 0.0) for level in _LEVELS}
    return {spout: EventTimes(max(1, tuples), now - mean, at) for spout, tuples in spouts.items()}
