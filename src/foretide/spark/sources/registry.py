"""Which port implements which source. A new kind is a record, a file beside this one, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from foretide.metrics.batch import SourceRange
from foretide.spark.sources.builtin import FilesSource, RateSource, SocketSource, StreamSource
from foretide.spark.sources.port import RowCounts, SourcePort
from foretide.spark.sources.replay import ReplaySource
from foretide.topology.sources import Files, Rate, Replay, Socket, Source, Stream

if TYPE_CHECKING:
    from foretide.spark.sources.port import Offset

PORTS: Mapping[type[Source], type[SourcePort[Any]]] = {
    Replay: ReplaySource,
    Rate: RateSource,
    Files: FilesSource,
    Socket: SocketSource,
    Stream: StreamSource,
}


def source_port(source: Source) -> SourcePort[Any]:
    """The port of a source."""
    return PORTS[type(source)](source)


def source_range(start: Offset, end: Offset, latest: Offset, input_rows: int, description: str = "") -> SourceRange:
    """What a batch took from a source, read from the offsets in Spark's progress. Every kind knows its own offsets."""
    counts = (port.read_offsets(start, end, latest) for port in PORTS.values())
    known = next((each for each in counts if each is not None), RowCounts())
    return SourceRange(input_rows, description, start, end, known.spout, known.rows, known.backlog)
