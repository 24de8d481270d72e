"""A process that notes when the records of a topic arrive: `python -m foretide.kafka.collect`.

A record is a JSON object with at least `row` and `due`, as the feed has sent them.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from foretide.codec import from_json, to_json
from foretide.files import atomic_write
from foretide.kafka.children import LIVE, READY, RESULT, first_line, partitions_of, stop_event
from foretide.kafka.latency import Received, Window

_ANSWER_SECONDS = 20.0
_POLL_SECONDS = 0.1
_SWITCH_SECONDS = 0.0002
_SCHEMA = pa.schema([("row", pa.int64()), ("due", pa.int64())])
_OPTIONS: Mapping[str, Any] = {
    "group.id": "foretide-collect",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 1,
    "socket.nagle.disable": True,
    "log_level": 0,
}


@dataclass(frozen=True)
class CollectRequest:
    """What to read, and how often to say what the last seconds were like; the first line that the process reads."""

    servers: str
    topic: str
    folder: str
    window: float = 5.0
    every: float = 0.5
    options: Mapping[str, str] = field(default_factory=dict)


class Arrival(NamedTuple):
    """A record as it came in."""

    value: bytes | None
    received: int
    created: int


def parsed(arrivals: Sequence[Arrival]) -> Received:
    """The rows and due times in the records."""
    numbers = _fields(arrivals)
    good = (numbers[:, 0] >= 0) & (numbers[:, 1] >= 0)
    times = np.array([(each.received, each.created) for each in arrivals], dtype=np.int64).reshape(-1, 2)
    row, due = numbers[good].T
    received, created = times[good].T
    return Received(row, due, received, created, int((~good).sum()))


def _fields(arrivals: Sequence[Arrival]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Row and due time of each record, -1 where there is none."""
    text = b"\n".join(each.value or b"" for each in arrivals)
    try:
        table = arrow_json.read_json(
            io.BytesIO(text),
            arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            arrow_json.ParseOptions(explicit_schema=_SCHEMA, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:  # one that is no such object spoils all
        return _fields_one_by_one(arrivals)
    if table.num_rows != len(arrivals):
        return _fields_one_by_one(arrivals)
    columns = [table[name].fill_null(-1).to_numpy() for name in _SCHEMA.names]
    return np.stack(columns, axis=1)


def _fields_one_by_one(arrivals: Sequence[Arrival]) -> np.ndarray[Any, np.dtype[np.int64]]:
    found = np.full((len(arrivals), 2), -1, dtype=np.int64)
    for place, each in enumerate(arrivals):
        try:
            record = json.loads(each.value or b"")
            found[place] = record["row"], record["due"]
        except (ValueError, TypeError, KeyError, OverflowError):
            found[place] = -1
    return found


class Collection:
    """Takes in arrivals, from time to time, in a thread beside the one that reads them."""

    def __init__(self, request: CollectRequest) -> None:
        self.arrivals: deque[Arrival] = deque()
        self._folder, self._window = Path(request.folder), Window(request.window)
        self._parts: list[Received] = []

    def take(self) -> None:
        """Take in what has arrived, and write down what the last seconds were like."""
        part = parsed([self.arrivals.popleft() for _ in range(len(self.arrivals))])
        self._parts.append(part)
        self._window.add(part)
        atomic_write(self._folder / LIVE, to_json(self._window.live(time.time_ns() // 1000)), durable=False)

    def all(self) -> Received:
        """Everything that was taken in."""
        return Received.joined(self._parts)


def _consumer(request: CollectRequest) -> Any:
    """A consumer of what comes from now on."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 - an optional dependency

    consumer = Consumer({"bootstrap.servers": request.servers, **_OPTIONS, **request.options})
    places = [TopicPartition(request.topic, number) for number in partitions_of(consumer, request.topic)]
    ends = [end_of(consumer, place) for place in places]
    consumer.assign([TopicPartition(request.topic, at.partition, end) for at, end in zip(places, ends, strict=True)])
    return consumer


def end_of(consumer: Any, place: Any, seconds: float = _ANSWER_SECONDS) -> int:
    """Where a partition ends. A new topic may have no leader for a moment, so a broker that refuses is asked again."""
    from confluent_kafka import KafkaException  # noqa: PLC0415 - an optional dependency

    last = time.monotonic() + seconds
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=seconds)[1])
        except KafkaException:
            if time.monotonic() >= last:
                raise
            time.sleep(_POLL_SECONDS)


def _read(consumer: Any, arrivals: deque[Arrival], stop: threading.Event) -> None:
    poll, append, now = consumer.poll, arrivals.append, time.time_ns
    while not stop.is_set():
        message = poll(_POLL_SECONDS)
        if message is not None and message.error() is None:
            append(Arrival(message.value(), now() // 1000, message.timestamp()[1]))


def main() -> None:
    """Read until the standard input ends."""
    gc.disable()  # nothing here is cyclic, and a collection would make records late
    sys.setswitchinterval(_SWITCH_SECONDS)
    request = from_json(CollectRequest, first_line())
    stop = stop_event()
    consumer = _consumer(request)
    collection = Collection(request)
    reading = threading.Thread(target=_read, args=(consumer, collection.arrivals, stop))
    reading.start()
    print(READY, flush=True)  # noqa: T201 - the answer to the parent process
    while not stop.wait(request.every):
        collection.take()
    reading.join()
    collection.take()
    collection.all().save(Path(request.folder) / RESULT)


if __name__ == "__main__":
    main()
