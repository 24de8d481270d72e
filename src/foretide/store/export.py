"""Exports samples to Parquet: one row per sample, or one row per time step for training.

Parquet files are replaced atomically, other files never. The export may be larger than memory.
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
from foretide.metrics.metric import Level
from foretide.metrics.steps import StepSample
from foretide.store.metric_store import MetricStore
from foretide.store.records import storable_text

UNKNOWN_LEVEL = "unknown"
"""The level of a metric that the catalogue does not know."""

CHUNK = 50_000
"""Maximum of rows in memory."""

LONG_SCHEMA = pa.schema(
    {"at": pa.float64(), "level": pa.string(), "metric": pa.string(), "subject": pa.string(), "value": pa.float64()}
    | {"count": pa.int64(), "mean": pa.float64(), "low": pa.float64(), "high": pa.float64()}
)

_PARQUET = b"PAR1"

Row = tuple[Any, ...]


def export_samples(
    store: MetricStore, pipeline: str, path: str | Path, *, since: float | None = None, until: float | None = None
) -> int:
    """Write one row per sample: at, level, metric, subject, value, and what it stands for. Returns the number of rows.

    They are from `since` on, up to and without `until`, subject by subject, each in the order of time. An older sample
    stands for `count` samples, whose mean, minimum and maximum are `mean`, `low` and `high`.
    """
    target = export_target(path, store)
    if not store.series(pipeline):
        known = ", ".join(f"'{name}'" for name in store.pipelines()) or "no pipeline"
        raise StoreError(f"the store has no samples of '{pipeline}'; it has some of {known}")
    chunks = store.scan(pipeline, since=since, until=until, chunk=CHUNK)
    rows = ([_row(sample) for sample in chunk] for chunk in chunks)
    return _write(target, LONG_SCHEMA, rows)


def _row(sample: StepSample) -> Row:
    figures = sample.count, sample.mean, sample.low, sample.high
    return sample.at, level_of(sample.metric), sample.metric, sample.subject, sample.value, *figures


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
    target = export_target(path, store)
    metrics = sorted({series.metric for series in store.series(pipeline) if level_of(series.metric) == level.value})
    if not metrics:
        raise StoreError(f"the store has no samples of '{pipeline}' at the level '{level}'")
    schema = pa.schema([("subject", pa.string()), ("at", pa.float64()), *((name, pa.float64()) for name in metrics)])
    chunks = store.scan(pipeline, metrics=metrics, since=since, until=until, chunk=CHUNK)
    return _write(target, schema, _in_chunks(_steps((sample for chunk in chunks for sample in chunk), metrics, step)))


def _steps(samples: Iterator[StepSample], metrics: Sequence[str], step: float) -> Iterator[Row]:
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


def export_target(path: str | Path, store: MetricStore) -> Path:
    """The file to export to, links followed. Only a Parquet file or an empty one is replaced, nothing else.

    Raises:
        StoreError: The path is the store, or what is there must not be replaced.
    """
    try:
        target = Path(path).resolve()
        str(target).encode()
        reason = _why_not(target, store)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a valid path"
    if reason:
        raise StoreError(f"cannot export to '{storable_text(str(path))}': {reason}")
    return target


def _why_not(target: Path, store: MetricStore) -> str | None:
    if target in store.files:
        return "it is the store itself; give another file"
    if not target.exists():
        return None
    if not target.is_file():
        return "it is not a regular file; give the name of a new file"
    with target.open("rb") as file:
        begin = file.read(len(_PARQUET))
    return None if begin in {b"", _PARQUET} else "it exists and is not a Parquet file; give another name, or delete it"


def _write(target: Path, schema: Any, chunks: Iterator[list[Row]]) -> int:
    """Write chunks of rows to a Parquet file; returns the number of rows."""
    count = 0
    try:
        with atomic_path(target) as temporary, parquet.ParquetWriter(temporary, schema) as file:
            for rows in filter(None, chunks):
                columns = zip(zip(*rows, strict=True), schema.types, strict=True)
                file.write_batch(pa.record_batch([pa.array(values, kind) for values, kind in columns], schema=schema))
                count += len(rows)
    except OSError as error:
        raise StoreError(f"cannot export to '{target}': {error.strerror or error}") from error
    return count
