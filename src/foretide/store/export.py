"""Exports samples to Parquet: one row per sample, or one row per time step for training.

Files are replaced atomically. The export may be larger than memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from foretide.errors import StoreError
from foretide.files import atomic_path
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level, Sample
from foretide.store.metric_store import MetricStore

UNKNOWN_LEVEL = "unknown"
"""The level of a metric that the catalogue does not know."""

CHUNK = 50_000
"""Maximum of rows in memory."""

LONG_SCHEMA = pa.schema(
    {"at": pa.float64(), "level": pa.string(), "metric": pa.string(), "subject": pa.string(), "value": pa.float64()}
)

Row = tuple[Any, ...]


def export_samples(
    store: MetricStore, pipeline: str, path: str | Path, *, since: float | None = None, until: float | None = None
) -> int:
    """Write one row per sample: at, level, metric, subject, value. Returns the number of rows.

    They are from `since` on, up to and without `until`, subject by subject, each in the order of time.
    """
    if not store.series(pipeline):
        known = ", ".join(f"'{name}'" for name in store.pipelines()) or "no pipeline"
        raise StoreError(f"the store has no samples of '{pipeline}'; it has some of {known}")
    chunks = store.scan(pipeline, since=since, until=until, chunk=CHUNK)
    rows = ([(s.at, level_of(s.metric), s.metric, s.subject, s.value) for s in chunk] for chunk in chunks)
    return _write(path, LONG_SCHEMA, rows)


def level_of(metric: str) -> str:
    """The level of a metric, by the catalogue."""
    return CATALOGUE[metric].level.value if metric in CATALOGUE else UNKNOWN_LEVEL


def export_steps(
    store: MetricStore,
    pipeline: str,
    path: str | Path,
    *,
    level: Level,
    step: float,
    since: float | None = None,
    until: float | None = None,
) -> int:
    """Write one row per subject and time step, with a column per metric of one level. Returns the number of rows.

    The columns are `subject`, `at` (when the step begins) and the metrics by name. A value is the last one in its
    step, null where there is none. Steps without any sample have no row. Steps last `step` seconds and begin at
    multiples of it since 1970. The rest is as in `export_samples`.
    """
    if not (math.isfinite(step) and step > 0):
        raise StoreError(f"step must be greater than 0 s, got {step:g}")
    metrics = sorted({series.metric for series in store.series(pipeline) if level_of(series.metric) == level.value})
    if not metrics:
        raise StoreError(f"the store has no samples of '{pipeline}' at the level '{level}'")
    schema = pa.schema([("subject", pa.string()), ("at", pa.float64()), *((name, pa.float64()) for name in metrics)])
    chunks = store.scan(pipeline, metrics=metrics, since=since, until=until, chunk=CHUNK)
    return _write(path, schema, _in_chunks(_steps((sample for chunk in chunks for sample in chunk), metrics, step)))


def _steps(samples: Iterator[Sample], metrics: Sequence[str], step: float) -> Iterator[Row]:
    """Rows of a table of steps, from samples that come subject by subject in the order of time."""
    current: tuple[str, float] | None = None
    values: dict[str, float] = {}
    for sample in samples:
        begins = sample.subject, math.floor(sample.at / step) * step
        if current is not None and begins != current:
            yield *current, *map(values.get, metrics)
            values = {}
        current = begins
        values[sample.metric] = sample.value
    if current is not None:
        yield *current, *map(values.get, metrics)


def _in_chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


def _write(path: str | Path, schema: Any, chunks: Iterator[list[Row]]) -> int:
    """Write chunks of rows to a Parquet file; returns the number of rows."""
    count = 0
    try:
        with atomic_path(Path(path)) as temporary, parquet.ParquetWriter(temporary, schema) as file:
            for rows in filter(None, chunks):
                columns = zip(zip(*rows, strict=True), schema.types, strict=True)
                file.write_batch(pa.record_batch([pa.array(values, kind) for values, kind in columns], schema=schema))
                count += len(rows)
    except OSError as error:
        raise StoreError(f"cannot export to '{path}': {error}") from error
    return count
