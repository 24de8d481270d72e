"""When the rows of a batch arrived, by what Spark's own sources leave in the checkpoint of a query.

The rate source keeps its start there, and the file source each file that it has taken with its modification time, so
nothing is read from the data path. Rows of the rate source arrive evenly; all files of a batch count the same, as Spark
does not say how many rows each of them had. Kafka is asked for the timestamps of its records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from foretide.control_folder.filesystem import open_filesystem
from foretide.errors import ForetideError
from foretide.spark.sources.kafka import KafkaPort
from foretide.spark.sources.port import SourcePort
from foretide.topology.sources import Files, KafkaSource, Rate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foretide.metrics.batch import SourceRange
    from foretide.spark.running_query import QuerySource

KAFKA, FILES, RATE = "timestamps of Kafka's records", "modification times of files", "timestamps of the rate source"
_SERVERS = "kafka.bootstrap.servers"
_MAX_BATCHES = 100


class FileTimes(SourcePort[Files]):
    """Modification times of the files that a batch has taken."""

    def __init__(self, log: str) -> None:
        super().__init__(Files("", ""))
        self._log = open_filesystem(log)
        self._end: Any = None
        self._times: NDArray[np.float64] | None = None

    def origin(self, taken: SourceRange) -> float | None:  # noqa: ARG002
        """Times are in seconds since 1970."""
        return 0.0

    def arrival_times(self, taken: SourceRange, rows: NDArray[np.int_]) -> NDArray[np.float64] | None:
        """The time of the file in which each row is, if all files have as many rows."""
        times = self._of(taken)
        if times is None or not taken.rows:
            return None
        found: NDArray[np.float64] = times[np.minimum(rows * len(times) // taken.rows, len(times) - 1)]
        return found

    def arrival_process(self, taken: SourceRange) -> tuple[float | None, float | None] | None:  # noqa: ARG002
        """Rows of one file have the same time, which says nothing of single arrivals."""
        return None, None

    def _of(self, taken: SourceRange) -> NDArray[np.float64] | None:
        if taken.end is not self._end:
            self._end = taken.end
            first, last = (int(each.get("logOffset", -1)) for each in (taken.start, taken.end))
            batches = range(max(first, last - _MAX_BATCHES) + 1, last + 1)
            found = [time for batch in batches for time in self._read(batch)]
            self._times = np.sort(np.array(found)) if found else None
        return self._times

    def _read(self, batch: int) -> Iterator[float]:
        """The files of one entry of Spark's log; every tenth is compacted, and has those of earlier ones as well."""
        text = None
        with suppress(ForetideError):
            text = self._log.read(str(batch)) or self._log.read(f"{batch}.compact")
        for line in (text or "").splitlines()[1:]:
            with suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                if entry["batchId"] == batch:
                    yield entry["timestamp"] / 1000


class RateTimes(SourcePort[Rate]):
    """Rows of Spark's rate source, whose offsets are seconds since its start."""

    def __init__(self, log: str) -> None:
        super().__init__(Rate(1))
        self._log = open_filesystem(log)
        self._start: float | None = None

    def origin(self, taken: SourceRange) -> float | None:  # noqa: ARG002
        """When the source was started for the first time."""
        if self._start is None:
            with suppress(ForetideError, ValueError):
                text = self._log.read("0")
                self._start = None if text is None else float(text.splitlines()[1]) / 1000
        return self._start

    def arrival_times(self, taken: SourceRange, rows: NDArray[np.int_]) -> NDArray[np.float64] | None:
        """Evenly over the seconds that the batch took."""
        first, last = (taken.start.get("offset", 0), taken.end.get("offset"))
        if last is None or not taken.rows:
            return None
        found: NDArray[np.float64] = first + (rows + 0.5) / taken.rows * (last - first)
        return found


def arrivals_of(source: QuerySource, number: int, checkpoint: str | None) -> tuple[SourcePort[Any], str] | None:
    """What tells the arrivals of a query's source, and what that is called; None if nothing does.

    `number` is the place of the source among those of the query.
    """
    options, log = source.options, f"{checkpoint}/sources/{number}"
    if source.kind == "kafka" and _SERVERS in options and "," not in options.get("subscribe", ","):
        return KafkaPort(KafkaSource(options[_SERVERS], options["subscribe"], options=options)), KAFKA
    if checkpoint is not None and source.is_file:
        return FileTimes(log), FILES
    if checkpoint is not None and source.kind == "rate":
        return RateTimes(log), RATE
    return None
