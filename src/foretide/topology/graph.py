"""A topology: spouts, bolts and the streams between them, as frozen values. Nothing runs here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from foretide.graphs import in_order
from foretide.topology.groupings import Grouping, Shuffle

if TYPE_CHECKING:
    from foretide.topology.sources import Source

DEFAULT_STREAM = "default"
DEAD_LETTERS = "dead_letters"
"""The stream of tuples whose bolt raised; every topology has it."""

STREAM_COLUMN = "stream"
"""A bolt with several output streams names the stream of each tuple in this column."""

DEFAULT_POOL = 4


def output_name(bolt: str, stream: str) -> str:
    """How a stream is called in the sink."""
    return bolt if stream == DEFAULT_STREAM else f"{bolt}.{stream}"


OnError = Literal["dead_letter", "fail"]


@dataclass(frozen=True)
class Native:
    """DataFrame in, DataFrame out; never leaves the JVM. Windows, aggregations and deduplication are Spark's own."""

    work: Callable[[Any], Any]


@dataclass(frozen=True)
class Arrow:
    """An iterator of Arrow record batches in, an iterator of record batches of `schema` (DDL) out."""

    work: Callable[[Iterator[Any]], Iterator[Any]]
    schema: str


@dataclass(frozen=True)
class PerTuple:
    """One tuple (a dict) in, any number of tuples of `schema` (DDL) out."""

    work: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]
    schema: str


Work = Native | Arrow | PerTuple


@dataclass(frozen=True)
class From:
    """An input of a bolt: which stream of which component, and how its tuples are split.

    A `feedback` input closes a loop: its tuples come back in a later batch, through the sink's files or topics.
    """

    component: str
    grouping: Grouping = Shuffle()  # noqa: RUF009 - a frozen value
    stream: str = DEFAULT_STREAM
    feedback: bool = False


@dataclass(frozen=True)
class Spout:
    """A source of tuples.

    A replay knows when each of its tuples was due, so latency costs nothing there. For other sources name the column
    with the `event_time` of a tuple, and latency is measured from it, at some 60 ns a row.
    """

    id: str
    source: Source
    event_time: str | None = None


@dataclass(frozen=True)
class Bolt:
    """An operator: its work, its inputs, and the pool of replicas behind its edge.

    A bare function is native work. `replicas` of the `pool` are active at the start (by default all of
    them); only the edge's own pool is meant, Spark's stateful operators bring their own partitions. A tuple
    whose Python work raises is tried `retries` times more and then goes to the dead letters, or stops the query with
    `on_error="fail"`.
    """

    id: str
    work: Work | Callable[[Any], Any]
    inputs: Sequence[From]
    pool: int | None = None
    replicas: int | None = None
    streams: tuple[str, ...] = (DEFAULT_STREAM,)
    on_error: OnError = "dead_letter"
    retries: int = 2

    @property
    def operator(self) -> Work:
        """The work, with a bare function taken as native."""
        return self.work if isinstance(self.work, Native | Arrow | PerTuple) else Native(self.work)

    @property
    def pool_size(self) -> int:
        """Tasks behind the edge."""
        if self.pool is not None or self.replicas is not None:
            return self.pool or self.replicas or 0
        return DEFAULT_POOL if any(source.grouping.name != "global" for source in self.inputs) else 1

    @property
    def controllable(self) -> bool:
        """Whether a route steers this bolt's edge."""
        return any(source.grouping.controllable for source in self.inputs)


@dataclass(frozen=True)
class Topology:
    """Spouts and bolts under a name. Ids are yours; an edge is named after the bolt it leads into."""

    name: str
    spouts: Sequence[Spout]
    bolts: Sequence[Bolt]

    @property
    def components(self) -> list[Spout | Bolt]:
        """All spouts, then all bolts."""
        return [*self.spouts, *self.bolts]

    def component(self, name: str) -> Spout | Bolt | None:
        """The spout or bolt of that id."""
        return next((part for part in self.components if part.id == name), None)

    def is_shared(self, spout: Spout) -> bool:
        """Whether more than one reads a spout: bolts, and the sink, which takes its dead letters."""
        return len(self.readers(spout.id, "default")) + spout.source.dead_letters > 1

    def readers(self, name: str, stream: str) -> list[tuple[Bolt, From]]:
        """The bolts that read a stream, each with the input that does."""
        return [
            (bolt, source)
            for bolt in self.bolts
            for source in bolt.inputs
            if source.component == name and source.stream == stream
        ]

    def feedback(self) -> list[tuple[Bolt, From]]:
        """The inputs that close loops, each with its bolt."""
        return [(bolt, source) for bolt in self.bolts for source in bolt.inputs if source.feedback]

    def outputs(self) -> list[tuple[Bolt, str]]:
        """Streams that no bolt reads, or that come back as feedback: they go to the sink."""
        return [(bolt, stream) for bolt in self.bolts for stream in bolt.streams if self._goes_to_sink(bolt.id, stream)]

    def _goes_to_sink(self, name: str, stream: str) -> bool:
        readers = self.readers(name, stream)
        return not readers or any(source.feedback for _, source in readers)

    def in_order(self) -> list[Bolt]:
        """Bolts so that each comes after all it reads (feedback aside). What sits on a cycle is left out."""
        bolts = {bolt.id: bolt for bolt in self.bolts}
        reads = {
            bolt.id: {source.component for source in bolt.inputs if not source.feedback}
            - {spout.id for spout in self.spouts}
            for bolt in self.bolts
        }
        return [bolts[name] for name in in_order(reads)]


def feedback_name(bolt: Bolt, source: From) -> str:
    """What an input of a bolt is called that closes a loop."""
    return f"{output_name(source.component, source.stream)} -> {bolt.id}"
