"""The series that a forecasting command means: a file, a packaged trace, or what was measured of a pipeline."""

from __future__ import annotations

from pathlib import Path

from foretide.errors import ForecastError, PipelineNotFoundError
from foretide.forecasting.series import Series, load_series, on_a_grid
from foretide.status.running import default_store, find_running
from foretide.store.metric_store import MetricStore
from foretide.workloads.traces import TRACES

LOAD = "input_rows_per_second"
STEP_SECONDS = 5.0


def load_history(source: str, column: str | None) -> Series:
    """A trace or file by its name, or the load of a running pipeline, from its store.

    For a pipeline `column` is a metric of the query; its input rate unless said otherwise.
    """
    if source in TRACES or Path(source).suffix in {".csv", ".parquet"}:
        return load_series(source, column)
    try:
        running = find_running(source)
    except PipelineNotFoundError as error:
        traces = ", ".join(TRACES)
        raise ForecastError(f"'{source}' is no file (.csv, .parquet), no trace ({traces}), and {error}") from error
    metric = column or LOAD
    with MetricStore.open(running.store or default_store(running.control, running.name), create=False) as store:
        samples = store.read(running.name, metrics=[metric], subjects=[running.name])
    if not samples:
        raise ForecastError(f"nothing was measured of {metric} of '{running.name}' yet")
    return on_a_grid(f"{metric} of {running.name}", [(each.at, each.value) for each in samples], STEP_SECONDS)
