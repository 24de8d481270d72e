"""The rows of a campaign: files that follow from a seed and their number, and cost little to make and to read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "row long, key int, payload long, at timestamp"
SECONDS_PER_FILE = 10
"""Seconds of event time in a file."""

END_AT = 4_000_000_000
"""Event time of the last rows, which close all windows; those of others are before."""

_BEGIN_AT = 1_700_000_000
_MICROS = 1_000_000
_KEYS = 1000
_MALFORMED_EVERY = 500
_PAYLOADS = 2**40
_END_ROWS = 4


def file_rows(seed: int, number: int, rows: int, malformed: int = 0) -> pa.Table:
    """The rows of a file. One in 500 has no payload, and so have the last `malformed`.

    >>> file_rows(7, 3, 4)["row"].to_pylist()
    [12, 13, 14, 15]
    """
    rng = np.random.default_rng((seed, number))
    ids = np.arange(number * rows, (number + 1) * rows)
    keys = (rng.random(rows) ** 3 * _KEYS).astype(np.int32)
    payloads = rng.integers(_PAYLOADS, size=rows)
    missing = (ids % _MALFORMED_EVERY == 0) | (np.arange(rows) >= rows - malformed)
    offsets = np.sort(rng.integers(SECONDS_PER_FILE * _MICROS, size=rows))
    at = (_BEGIN_AT + number * SECONDS_PER_FILE) * _MICROS + offsets
    return _table(ids, keys, pa.array(payloads, mask=missing), at)


def end_rows() -> pa.Table:
    """Rows far in the future, with numbers below 0."""
    ids = np.arange(-_END_ROWS, 0)
    return _table(ids, np.zeros(_END_ROWS, np.int32), pa.array(ids), np.full(_END_ROWS, END_AT * _MICROS))


def _table(ids: np.ndarray, keys: np.ndarray, payloads: pa.Array, at: np.ndarray) -> pa.Table:
    times = pa.array(at, pa.timestamp("us", tz="UTC"))
    return pa.table({"row": pa.array(ids, pa.int64()), "key": keys, "payload": payloads, "at": times})


class Feed:
    """Puts files into a folder, each all at once, and in an order that Spark keeps."""

    def __init__(self, folder: Path, seed: int, rows: int) -> None:
        self.folder, self.seed, self.rows = folder, seed, rows
        self.files, self.rows_put = 0, 0
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, malformed: int = 0) -> None:
        """Put the next file."""
        self._put(file_rows(self.seed, self.files, self.rows, malformed))

    def end(self) -> int:
        """Put the last files, of which the second one has event time go on past the first; how many files there are."""
        for _ in range(2):
            self._put(end_rows())
        return self.files

    def _put(self, table: pa.Table) -> None:
        hidden = self.folder / f".{self.files:06}.parquet"
        pq.write_table(table, hidden)
        stamp = _BEGIN_AT + self.files  # Spark takes files in the order of their times
        os.utime(hidden, (stamp, stamp))
        hidden.rename(self.folder / f"{self.files:06}.parquet")
        self.files += 1
        self.rows_put += table.num_rows
