"""Compares the results of a run through Kafka with what has to be there, worked out without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from foretide.apps.experiment import Verification, compared, last_committed, last_planned, updates_of
from foretide.cli.running.kafka_run import KafkaRun, real_time_of
from foretide.topology.modes import REAL_TIME

if TYPE_CHECKING:
    import pandas as pd

    from foretide.metrics.batch import SourceRange


def verify(run: KafkaRun) -> Verification:
    """Compare the last update of each result with that of all rows."""
    rows = _input(run)
    expected, found = real_time_of(run.app).truth(rows), _found(run)
    return compared(len(rows), expected, found[list(expected.columns)])


def verify_stopped(run: KafkaRun) -> Verification | None:
    """Compare the output with what the rows that were taken give; None where it cannot be told which they are.

    Real-time mode writes the results of a batch long before it commits their offsets.
    """
    checkpoint = Path(run.pipeline.checkpoint)
    committed, planned = last_committed(checkpoint), last_planned(checkpoint)
    if run.mode == REAL_TIME.name or committed is None or planned is None:
        return None
    form, rows, found = real_time_of(run.app), _input(run), _found(run)
    taken = rows[rows["row"].isin(_numbers(run, committed))]
    cut_off = rows[rows["row"].isin(_numbers(run, planned))]
    expected = updates_of(form.truth(taken), form.truth(cut_off), found, list(form.keys))
    return compared(len(taken), expected, found[list(expected.columns)])


def _input(run: KafkaRun) -> pd.DataFrame:
    """All rows of the load, as the feed sends them."""
    total = run.curve.total_rows or 0
    rows: pd.DataFrame = run.rows.rows(0, total).to_pandas()
    rows["row"] = np.arange(total)
    rows["due"] = int(run.origin * 1e6) + np.rint(run.curve.due_times(0, total) * 1e6).astype(np.int64)
    return rows


def _numbers(run: KafkaRun, taken: SourceRange) -> pd.Series[int]:
    """The numbers of the rows up to some offsets, read from the topic."""
    reader = run.pipeline.spark.read.format("kafka").option("kafka.bootstrap.servers", run.brokers.servers)
    reader = reader.options(**run.brokers.options).option("subscribe", run.topics["input"])
    records = reader.option("startingOffsets", "earliest").option("endingOffsets", json.dumps(taken.end)).load()
    number = "cast(get_json_object(cast(value AS string), '$.row') AS bigint) AS row"
    found: pd.Series[int] = records.selectExpr(number).toPandas()["row"]
    return found


def _found(run: KafkaRun) -> pd.DataFrame:
    """The last update of each result."""
    form = real_time_of(run.app)
    updates: pd.DataFrame = run.pipeline.output(form.result).toPandas()
    last = updates.sort_values(form.order).groupby(list(form.keys), as_index=False).last()
    return last[[*form.keys, form.order]]
