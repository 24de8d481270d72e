"""Kafka topics: parsed natively, with a dead letter for each record that cannot be parsed, and the lag by offsets."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from foretide.errors import ForetideError
from foretide.secrets import hide_options
from foretide.spark.compile.bolts import DEAD_COLUMN, DEAD_TYPE
from foretide.spark.groupings import quoted
from foretide.spark.jars import KAFKA_CONNECTOR, add_library
from foretide.spark.kafka_client import OffsetFinder
from foretide.spark.sources.kafka_arrivals import Arrivals, Ranges, counts_in_windows, find_arrivals, variation
from foretide.spark.sources.port import LoadContext, RowCounts, SourcePort
from foretide.topology.sources import KafkaSource

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.batch import SourceRange

_CORRUPT = "_ft_corrupt"
_MAX_TEXT = 4000


_ASK_SECONDS = 0.2
_SHARE_OF_TIME = 0.05
"""Asking for arrivals may take so long for one batch, and such a share of the time in all."""

_SPAN_MARGIN = 1.25
_EARLY = 0.05
_BATCHES_OF_COUNTS = 50


class KafkaPort(SourcePort[KafkaSource]):
    """The port of a Kafka topic."""

    @cached_property
    def arrivals(self) -> BatchArrivals:
        """What the broker tells about the records of a batch."""
        return BatchArrivals(OffsetFinder(self.source.servers, self.source.topic, self.source.options))

    def load(self, context: LoadContext) -> DataFrame:
        """The columns of the schema (or `value`), and those of Kafka that were asked for."""
        source = self.source
        hide_options(source.options)
        add_library(context.spark, KAFKA_CONNECTOR)
        reader = context.spark.readStream.format("kafka").option("kafka.bootstrap.servers", source.servers)
        reader = reader.option("subscribe", source.topic).option("startingOffsets", source.start)
        limit = _limit(context.folder, context.spout, source.max_rows)
        if limit is not None:
            reader = reader.option("maxOffsetsPerTrigger", limit)
        records = reader.options(**source.options).load()
        extra = [F.col(name).cast("string" if name == "key" else records.schema[name].dataType).alias(name)
                 for name in source.metadata]  # fmt: skip
        if context.timestamp_column is not None:
            extra.append(F.unix_micros("timestamp").alias(context.timestamp_column))
        if context.partition_column is not None:
            extra.append(F.col("partition").alias(context.partition_column))
        text = F.col("value").cast("string")
        if source.schema is None:
            return records.select(text.alias("value"), *extra)
        return parsed(records, source.schema, context.spout, extra)

    @staticmethod
    def read_offsets(start: Mapping[str, Any], end: Mapping[str, Any], latest: Mapping[str, Any]) -> RowCounts | None:
        """Topic and lag. Transactions and compaction leave gaps, so offsets bound the rows from above only."""
        if len(end) != 1 or not all(_is_topic(value) for value in end.values()):
            return None
        topic, ends = next(iter(end.items()))
        taken = sum(offset - start.get(topic, {}).get(partition, offset) for partition, offset in ends.items())
        newest = latest.get(topic, {})
        lag = {partition: max(0, newest.get(partition, offset) - offset) for partition, offset in ends.items()}
        known = start.get(topic, {}).keys() >= ends.keys()
        rows = taken if known else None
        if not newest:
            return RowCounts(None, rows, None, topic, gaps=True)
        return RowCounts(None, rows, sum(lag.values()), topic, lag, gaps=True)

    def origin(self, taken: SourceRange) -> float | None:  # noqa: ARG002
        """Records have timestamps since 1970."""
        return 0.0

    def arrival_times(self, taken: SourceRange, rows: NDArray[np.int_]) -> NDArray[np.float64] | None:
        """By the timestamps of the records; the broker is asked for them."""
        found = self.arrivals.of(taken)
        return None if found is None or not taken.rows else found.at((rows + 0.5) / taken.rows)

    def arrival_process(self, taken: SourceRange) -> tuple[float | None, float | None] | None:
        """By timestamps, which count milliseconds: single gaps between records say little."""
        found = self.arrivals.of(taken)
        if found is None or not taken.rows:
            return None
        early, late = found.at(np.array([_EARLY, 1 - _EARLY]))
        enough = late > early and taken.rows * _EARLY >= 1
        return (1 - 2 * _EARLY) * taken.rows / float(late - early) if enough else None, self.arrivals.variation

    def partition_times(self, taken: SourceRange, shares: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """By the timestamps of each partition's records."""
        found = self.arrivals.of(taken)
        return {} if found is None else {str(each): found.at(shares, each) for each in found.partitions}


def _limit(folder: ControlFolder, spout: str, declared: int | None) -> int | None:
    """Records a batch: what the control folder has for the spout, or what was declared."""
    with suppress(ForetideError):
        return folder.orders.admission().get(spout, declared)
    return declared


class BatchArrivals:
    """The arrivals of the last batch that was asked for. Asking takes at most a share of the time, and ends in time."""

    def __init__(self, finder: OffsetFinder) -> None:
        self._finder = finder
        self._end: Mapping[str, Any] | None = None
        self._found: Arrivals | None = None
        self._span_ms: int | None = None
        self._not_before = 0.0
        self._counts: deque[list[int]] = deque(maxlen=_BATCHES_OF_COUNTS)

    def of(self, taken: SourceRange) -> Arrivals | None:
        """The arrivals of a batch; None when they are not known, or were asked for too recently."""
        if taken.end is not self._end:
            self._end, self._found = taken.end, None
            ranges = _ranges(taken)
            if ranges is not None and time.monotonic() >= self._not_before:
                began = time.monotonic()
                self._found = self._ask(ranges, began + _ASK_SECONDS)
                self._not_before = began + (time.monotonic() - began) / _SHARE_OF_TIME
        return self._found

    @property
    def variation(self) -> float | None:
        """The squared variation coefficient of the time between arrivals, over the last batches."""
        return variation(list(self._counts))

    def _ask(self, ranges: Ranges, deadline: float) -> Arrivals | None:
        def find(instant_ms: int) -> Mapping[int, int | None] | None:
            left = deadline - time.monotonic()
            return self._finder.first_since(instant_ms, ranges.first, left) if left > 0 else None

        found = find_arrivals(find, ranges, int(time.time() * 1000) + 1, self._span_ms)
        if found is not None:
            self._span_ms = max(1, int(found.span_ms * _SPAN_MARGIN))
            counts = counts_in_windows(find, ranges, found)
            self._counts.extend([] if counts is None else [counts])
        return found


def _ranges(taken: SourceRange) -> Ranges | None:
    """The offsets by partition; None when there are none, or the batch was the first and has no beginning."""
    (topic, ends), *_ = taken.end.items() or [("", {})]
    starts = taken.start.get(topic, {})
    last = {int(partition): at for partition, at in ends.items() if at > starts.get(partition, at)}
    return Ranges({partition: starts[str(partition)] for partition in last}, last) if last else None


def parsed(records: DataFrame, schema: str, spout: str, extra: list[Any]) -> DataFrame:
    """The values as columns; a record that is not such an object is a dead letter with its place and its text."""
    columns = StructType.fromDDL(schema)
    with_corrupt = StructType([*columns.fields]).add(_CORRUPT, "string")  # type: ignore[attr-defined]
    text = F.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    row = F.from_json(text, with_corrupt, options)
    rows = records.withColumn("_ft_row", row)
    place = F.format_string("MalformedRecord: offset %d of partition %d of %s", "offset", "partition", "topic")
    bad = F.col("_ft_row").isNull() | F.col(f"_ft_row.{_CORRUPT}").isNotNull()
    letter = F.struct(
        F.lit(spout).alias("bolt"),
        place.alias("error"),
        F.lit(1).alias("attempts"),
        F.substring(F.make_valid_utf8(text), 1, _MAX_TEXT).alias("tuple"),
    )
    fields = [F.col(f"_ft_row.{quoted(each.name)}").alias(each.name) for each in columns.fields]  # type: ignore[attr-defined]
    return rows.select(*fields, *extra, F.when(bad, letter).cast(DEAD_TYPE).alias(DEAD_COLUMN))


def _is_topic(value: object) -> bool:
    return isinstance(value, dict) and all(str(name).isdigit() and isinstance(at, int) for name, at in value.items())
