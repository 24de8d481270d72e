"""Which port implements which sink. A new kind is a record, a file beside this one, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from foretide.spark.sinks.builtin import ConsoleSink, FileSink, MemorySink, TableSink
from foretide.topology.sinks import Console, Json, Memory, Parquet, Sink, Table

if TYPE_CHECKING:
    from foretide.spark.sinks.port import SinkPort

PORTS: Mapping[type[Sink], type[SinkPort[Any]]] = {
    Parquet: FileSink,
    Json: FileSink,
    Table: TableSink,
    Memory: MemorySink,
    Console: ConsoleSink,
}


def sink_port(sink: Sink) -> SinkPort[Any]:
    """The port of a sink."""
    return PORTS[type(sink)](sink)
