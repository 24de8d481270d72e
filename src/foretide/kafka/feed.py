"""A process that sends the rows of a workload to a topic, each when it is due: `python -m foretide.kafka.feed`.

Each record is a JSON object: the columns of the row, its number as `row`, and as `due` the moment it was due, in
microseconds since 1970. Rows are due by the curve alone, whether or not those before could be sent in time: latency
from the due time leaves no wait out.
"""

from __future__ import annotations

import gc
import json
import queue
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from foretide.codec import from_json
from foretide.kafka.children import READY, RESULT, first_line, partitions_of, stop_event
from foretide.kafka.latency import Sent
from foretide.workloads.curve import Curve
from foretide.workloads.generator import Generator
from foretide.workloads.registry import generator_from_json

_CHUNK_ROWS = 500
_CHUNKS_AHEAD = 20
_HEADSTART = 300_000
_SWITCH_SECONDS = 0.0002
_FLUSH_SECONDS = 20.0
_LONG_WAIT = 20_000
_OPTIONS: Mapping[str, Any] = {
    "linger.ms": 0,
    "max.in.flight": 5,  # as Java's client; with more, each record is a request, and the broker cannot keep up
    "acks": "1",
    "socket.nagle.disable": True,
    "queue.buffering.max.messages": 1_000_000,
    "delivery.report.only.error": True,
    "log_level": 0,
}

_encoded = json.JSONEncoder(default=str).encode

Chunk = list[tuple[int, bytes]]


@dataclass(frozen=True)
class FeedRequest:
    """What to send where; the first line that the process reads."""

    servers: str
    topic: str
    generator: str
    curve: str
    folder: str
    options: Mapping[str, str] = field(default_factory=dict)


def chunks(generator: Generator, curve: Curve, start: int) -> Iterator[Chunk]:
    """All rows in order, some at a time: when each is due, and its record."""
    total, first = curve.total_rows, 0
    while total is None or first < total:
        last = first + _CHUNK_ROWS if total is None else min(first + _CHUNK_ROWS, total)
        due = start + np.rint(curve.due_times(first, last) * 1e6).astype(np.int64)
        rows = generator.rows(first, last).to_pylist()
        yield [
            (at, _encoded({"row": first + place, "due": at, **row}).encode())
            for place, (at, row) in enumerate(zip(due.tolist(), rows, strict=True))
        ]
        first = last


def _ahead(source: Iterator[Chunk]) -> Iterator[Chunk]:
    """The same, prepared in a thread: while rows are encoded, others fall due."""
    waiting: queue.Queue[Chunk | None] = queue.Queue(_CHUNKS_AHEAD)

    def prepare() -> None:
        for chunk in source:
            waiting.put(chunk)
        waiting.put(None)

    threading.Thread(target=prepare, daemon=True).start()
    while (chunk := waiting.get()) is not None:
        yield chunk


class _Sender:
    """Sends records in time and notes when."""

    def __init__(self, request: FeedRequest) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - an optional dependency

        self._topic, self.failed = request.topic, 0
        self._producer: Any = Producer({"bootstrap.servers": request.servers, **_OPTIONS, **request.options})
        self._partitions = len(partitions_of(self._producer, request.topic))
        self.due: list[int] = []
        self.sent: list[int] = []

    def send(self, due: int, record: bytes) -> None:
        while True:
            now = time.time_ns() // 1000
            try:
                self._producer.produce(
                    self._topic, record, partition=len(self.sent) % self._partitions, timestamp=now // 1000,
                    on_delivery=self._not_delivered,
                )  # fmt: skip
                break
            except BufferError:  # the client's queue is full
                self._producer.poll(0.01)
        self.due.append(due)
        self.sent.append(now)

    def poll(self) -> None:
        self._producer.poll(0)

    def close(self) -> Sent:
        self.failed += self._producer.flush(_FLUSH_SECONDS)
        return Sent(np.array(self.due, dtype=np.int64), np.array(self.sent, dtype=np.int64), self.failed)

    def _not_delivered(self, error: object, _: object) -> None:
        self.failed += error is not None


def _send_all(sender: _Sender, source: Iterator[Chunk], stop: threading.Event) -> None:
    for chunk in source:
        for due, record in chunk:
            wait = due - time.time_ns() // 1000
            if wait > _LONG_WAIT:
                stop.wait(wait / 1e6)
            elif wait > 0:
                time.sleep(wait / 1e6)
            if stop.is_set():
                return
            sender.send(due, record)
        sender.poll()


def main() -> None:
    """Send until the curve ends, or the standard input does."""
    gc.disable()  # nothing here is cyclic, and a collection would delay rows
    sys.setswitchinterval(_SWITCH_SECONDS)
    request = from_json(FeedRequest, first_line())
    stop = stop_event()
    generator, curve = generator_from_json(request.generator), Curve.from_json(request.curve)
    sender = _Sender(request)
    generator.rows(0, 1)  # the first call prepares vocabularies
    start = time.time_ns() // 1000 + _HEADSTART
    print(READY, start, flush=True)  # noqa: T201 - the answer to the parent process
    _send_all(sender, _ahead(chunks(generator, curve, start)), stop)
    sender.close().save(Path(request.folder) / RESULT)


if __name__ == "__main__":
    main()
