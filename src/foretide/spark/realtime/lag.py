"""How many records of a topic a real-time query has still to read, in the middle of one of Spark's batches.

Spark tells offsets when a batch ends, a minute or more later. Until then the query has read up to the offset at which
it began, plus the records that its tasks have counted since. The broker says where the topic ends.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from foretide.metrics.batch import Lag
from foretide.spark.hadoop import HadoopFolder
from foretide.spark.kafka_client import OffsetFinder
from foretide.topology.graph import feedback_name, output_name
from foretide.topology.sinks import KafkaSink
from foretide.topology.sources import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from foretide.topology.graph import Topology
    from foretide.topology.sinks import Sink

Offsets = Mapping[int, int]
"""Offsets by partition."""

_ASK_SECONDS = 0.2
_CONNECT_SECONDS = 2.0
_SHARE_OF_TIME = 0.05
"""Asking the broker may take so long for one report, and such a share of the time in all."""

_HEADER_LINES = 2
"""Lines of an entry of Spark's offset log before those of the sources: its version and its settings."""


@dataclass(frozen=True)
class TopicReader:
    """A topic that a query reads, and who counts what it reads.

    Attributes:
        name: The spout, or the feedback that comes back through the topic.
        counters: The name of the counters of its records; their rows are partitions, or tasks for feedback.
        width: Their rows.
        topic, servers, options: The topic, as Spark was told.
        feedback: Whether its records come from the query itself.
    """

    name: str
    counters: str
    width: int
    topic: str
    servers: str
    options: Mapping[str, str]
    feedback: bool = False


def partitions_name(spout: str) -> str:
    """The name of the counters of a spout's records by partition."""
    return f"{spout}.partitions"


def topic_readers(topology: Topology, sink: Sink, widths: Mapping[str, int]) -> list[TopicReader]:
    """The topics of a topology's spouts and feedback, as far as they have counters (`widths` by name)."""
    found = [
        TopicReader(spout.id, partitions_name(spout.id), 0, source.topic, source.servers, source.options)
        for spout in topology.spouts
        if isinstance(source := spout.source, KafkaSource)
    ]
    for bolt, back in topology.feedback():
        if isinstance(sink, KafkaSink):
            name, topic = feedback_name(bolt, back), sink.topic_of(output_name(back.component, back.stream))
            found.append(TopicReader(name, name, 0, topic, sink.servers, sink.options, feedback=True))
    return [replace(each, width=widths[each.counters]) for each in found if each.counters in widths]


class TopicLag:
    """Measures the lag of one topic: `look` before the counters are read, then `count`, then `lag`."""

    def __init__(
        self,
        reader: TopicReader,
        find_ends: Callable[[Iterable[int], float], Offsets | None],
        began_at: Callable[[], Offsets],
        ended_at: Callable[[], Offsets | None],
        close: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Measure a topic.

        Args:
            reader: What is read.
            find_ends: Asks the broker where partitions end, for so many seconds at most; None if it does not tell.
            began_at: Where the query has begun; empty as long as that is not known.
            ended_at: Where a batch that has ended since the last call has ended; None if there is none.
            close: Closes the connection to the broker.
            clock: Seconds.
        """
        self.reader, self.close = reader, close
        self._find_ends, self._began_at, self._ended_at, self._clock = find_ends, began_at, ended_at, clock
        self._total, self._partitions = _Position(), dict[int, _Position]()
        self._began, self._split = False, not reader.feedback
        self._ended: Offsets | None = None
        self._ends: Offsets | None = None
        self._ends_before: Offsets | None = None
        self._not_before = 0.0

    def connect(self) -> None:
        """Ask once, with more time than later: the first connection takes longest."""
        self._find_ends(range(self.reader.width), _CONNECT_SECONDS)

    def look(self) -> None:
        """See which batch has ended, and ask the broker, unless that took too much of the time of late."""
        self._ended = self._ended_at() or self._ended
        if not self._began and self._ended is None:
            self._begin(self._began_at())
        self._ends_before, self._ends, began = self._ends, None, self._clock()
        if began >= self._not_before:
            self._ends = self._find_ends(self._partitions or range(self.reader.width), _ASK_SECONDS)
            self._not_before = began + (self._clock() - began) / _SHARE_OF_TIME

    def count(self, read: Mapping[int | None, int]) -> None:
        """Take in how many records were read since the last time, by partition; None for those of no known one."""
        self._split = self._split and not read.get(None)
        self._total.count(sum(read.values()))
        for partition in {*self._partitions, *read} - {None}:
            if partition is not None:
                self._partitions.setdefault(partition, _Position()).count(read.get(partition, 0))
        if self._ended is not None:
            self._total.correct(sum(self._ended.values()))
            for partition, end in self._ended.items():
                self._partitions.setdefault(partition, _Position()).correct(end)
            self._began, self._ended = True, None

    def lag(self) -> Lag:
        """The records that were there and not read yet when the broker was asked last."""
        ends, read = self._ends, self._total.offset
        if ends is None or read is None:
            return Lag(None)
        places = {partition: self._partitions[partition].offset for partition in ends if partition in self._partitions}
        known = {str(each): max(0, ends[each] - place) for each, place in places.items() if place is not None}
        if self._split and len(known) == len(ends):
            return Lag(sum(known.values()), known)
        return Lag(max(0, sum(ends.values()) - read))

    @property
    def written(self) -> int | None:
        """Records that were written between the last two looks; None if the broker did not tell both times."""
        if self._ends is None or self._ends_before is None:
            return None
        return sum(self._ends.values()) - sum(self._ends_before.values())

    def _begin(self, offsets: Offsets) -> None:
        if offsets:
            self._began = True
            self._total.begin(sum(offsets.values()))
            for partition, offset in offsets.items():
                self._partitions.setdefault(partition, _Position()).begin(offset)


class _Position:
    """How far was read: the offset at which counting began, plus what was counted since.

    Offsets that hold no record, as those of transactions, and records that are read twice make the two differ. So each
    end of a batch corrects it. A batch ends after the reading before the last look that did not see it, and before this
    one: what was counted in between may belong to the batch or to the next one, and is left as it is.
    """

    def __init__(self) -> None:
        self._began: int | None = None
        self._counts = deque([0, 0, 0], maxlen=3)

    def begin(self, offset: int) -> None:
        if self._began is None:
            self._began = offset

    def count(self, records: int) -> None:
        self._counts.append(self._counts[-1] + records)

    def correct(self, end: int) -> None:
        first, last = end - self._counts[-1], end - self._counts[0]
        self._began = first if self._began is None else min(max(self._began, first), last)

    @property
    def offset(self) -> int | None:
        return None if self._began is None else self._began + self._counts[-1]


# ---- offsets of Spark's


def topic_lag(spark: Any, reader: TopicReader, query: StreamingQuery, checkpoint: str) -> TopicLag:
    """The lag of a topic that a query reads."""
    finder = OffsetFinder(reader.servers, reader.topic, reader.options, "the lag", retry_seconds=0)  # it waits itself
    folder = HadoopFolder(spark, checkpoint)
    ends = BatchEnds(query, reader.topic)

    def began_at() -> Offsets:
        try:
            return committed_offsets(folder, reader.topic)
        except Exception:  # noqa: BLE001 - whatever the file system says, the query runs on
            return {}

    return TopicLag(reader, finder.ends, began_at, ends.next, finder.close)


class BatchEnds:
    """The offsets at which the batches of a query end."""

    def __init__(self, query: StreamingQuery, topic: str) -> None:
        self._query, self._topic, self._last = query, topic, -1

    def next(self) -> Offsets | None:
        """Where the last batch has ended; None if that was seen before."""
        progress = self._query.lastProgress
        if progress is None or progress.batchId <= self._last or "addBatch" not in progress.durationMs:
            return None
        self._last = progress.batchId
        return offsets_in([source.endOffset for source in progress.sources], self._topic) or None


def committed_offsets(folder: HadoopFolder, topic: str) -> Offsets:
    """Where a query goes on: behind its last committed batch, or where its source was told to begin."""
    committed = folder.numbers("commits")
    if committed:
        return offsets_in(folder.read(f"offsets/{committed[-1]}").splitlines()[_HEADER_LINES:], topic)
    sources = [folder.read(f"sources/{name}/0") for name in folder.names("sources")]
    return offsets_in([line for text in sources for line in text.splitlines()[1:]], topic)


def offsets_in(texts: Sequence[Any], topic: str) -> Offsets:
    """The offsets of a topic among those of a query's sources: the lowest ones if several sources read it.

    >>> offsets_in(['{"a": {"0": 7}}', '{"b": {"0": 5, "1": 6}}', '{"b": {"0": 4, "1": 9}}', "-"], "b")
    {0: 4, 1: 6}
    """
    found: dict[int, int] = {}
    for text in texts:
        for partition, offset in _topics(text).get(topic, {}).items():
            found[int(partition)] = min(offset, found.get(int(partition), offset))
    return found


def _topics(text: Any) -> dict[str, dict[str, int]]:
    try:
        read = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    return {name: value for name, value in read.items() if isinstance(value, dict)} if isinstance(read, dict) else {}
