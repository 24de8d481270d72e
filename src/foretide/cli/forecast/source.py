"""The series and the model that a forecasting command is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foretide.errors import ForecastError, PipelineNotFoundError
from foretide.forecasting.load.registry import NAMES
from foretide.forecasting.series import Series, load_series, resampled
from foretide.status.pipelines import find_running, running_store
from foretide.store.metric_store import MetricStore
from foretide.workloads.traces import TRACES

SourceArgument = Annotated[
    str,
    typer.Argument(help="A CSV or Parquet file, the name of a running pipeline, or a trace such as taxi."),
]
ColumnOption = Annotated[
    str | None, typer.Option(help="Column of a file, or metric of a pipeline. Default: the last numeric column.")
]
SeasonOption = Annotated[
    list[int] | None, typer.Option(help="Length of a season in steps; repeatable. Default: a day and a week.", min=2)
]
SeedOption = Annotated[int, typer.Option(help="Seed of the random numbers.", min=0)]

_LOAD_METRIC = "input_rows_per_second"
_STEP_SECONDS = 5.0


def load_source(source: str, column: str | None) -> Series:
    """A file, a packaged trace, or a metric of a running pipeline (by default its input rate)."""
    if source in TRACES or Path(source).suffix in {".csv", ".parquet"}:
        return load_series(source, column)
    try:
        running = find_running(source, "a file (.csv, .parquet)")
    except PipelineNotFoundError as error:
        raise ForecastError(f"'{source}' is not a trace ({', '.join(TRACES)}), and {error}") from error
    metric = column or _LOAD_METRIC
    with MetricStore.open(running_store(running), create=False) as store:
        samples = store.read(running.name, metrics=[metric], subjects=[running.name])
    if not samples:
        raise ForecastError(f"'{running.name}' has no measurements of {metric} yet")
    return resampled(f"{metric} of {running.name}", [(each.at, each.value) for each in samples], _STEP_SECONDS)


def check_model(name: str) -> str:
    """The name of a model, or a usage error that lists them."""
    if name not in NAMES:
        raise typer.BadParameter(f"--model must be one of {', '.join(NAMES)}, got '{name}'")
    return name
