"""Nexmark's events in files, one a batch, so that several runs read the same batches."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from foretide.workloads.nexmark import NexmarkEvents

_BEGIN_SECONDS = 1_700_000_000
_END_MICROS = 24 * 3_600_000_000
"""The row that ends the stream is so much later, so that all windows close."""


def write_files(folder: Path, made: NexmarkEvents, sizes: Sequence[int]) -> None:
    """Write files of so many events each, and a last one with a row of no kind that closes all windows."""
    folder.mkdir(parents=True)
    cuts = [0, *np.cumsum(sizes).tolist()]
    end = _events(made, cuts[-1], cuts[-1] + 1, _END_MICROS)
    end = end.set_column(end.schema.get_field_index("kind"), "kind", pa.array(["end"]))
    for place, table in enumerate([*(_events(made, *cut) for cut in pairwise(cuts)), end]):
        path = folder / f"{place:05}.parquet"
        pq.write_table(table, path)
        os.utime(path, (_BEGIN_SECONDS + place, _BEGIN_SECONDS + place))  # Spark reads them in this order


def _events(made: NexmarkEvents, first: int, last: int, later: int = 0) -> pa.Table:
    times = _BEGIN_SECONDS * 1_000_000 + later + np.arange(first, last) * 1_000_000 // made.rate
    table = pa.Table.from_batches([made.rows(first, last)])
    return table.append_column("event_time", pa.array(times.astype(np.int64)).cast(pa.timestamp("us", tz="UTC")))


def read_events(folder: Path) -> pd.DataFrame:
    """All events, for the truth."""
    events: pd.DataFrame = pa.concat_tables(pq.read_table(each) for each in sorted(folder.iterdir())).to_pandas()
    return events


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    """The events as a stream, a file a batch, in the order of their numbers."""
    schema = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).option("maxFileAge", "36500d")
    events: DataFrame = reader.parquet(str(folder))
    return events
