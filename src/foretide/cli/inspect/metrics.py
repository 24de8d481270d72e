"""`foretide metrics APP`: what is measured of a pipeline, from its store; live with `--follow`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from foretide.cli.pipelines import JsonOption
from foretide.cli.stores import AppArgument, StoreOption, opened_store
from foretide.errors import StoreError
from foretide.metrics.catalogue.registry import CATALOGUE
from foretide.metrics.metric import Level, Sample
from foretide.store.export import export_samples, export_steps
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord

_FOLLOW = 1.0
_RECENT_ALARMS = 5
_ACROSS = 4
_SHOWN: dict[Level, tuple[str, ...]] = {
    Level.QUERY: (
        "batch", "input_rows_per_second", "batch_duration_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms",
        "total_lag", "route_version",
    ),
    Level.OPERATOR: (
        "arrival_rate", "service_time_ms", "service_scv", "utilization", "capacity", "true_processing_rate",
        "selectivity", "active_tasks", "failed",
    ),
    Level.EDGE: ("rows_written", "rows_read", "skew", "flow_fraction"),
    Level.TASK: ("task_rows", "task_busy_ms", "task_service_time_ms"),
    Level.WORKER: (
        "worker_tuple_execution_time_ms", "worker_inbound_tuples_per_second", "worker_inbound_queuing_time_ms",
        "worker_outbound_batch_sending_time_ms", "worker_cpu_user_percent", "worker_cpu_wait_percent",
        "worker_heap_bytes", "worker_gc_ms_per_second",
    ),
    Level.MACHINE: (
        "machine_cpu_busy_percent", "machine_busiest_core_percent", "machine_load_1m", "machine_running_processes",
        "machine_memory_used_percent", "machine_disk_busy_percent", "machine_cpu_pressure_percent",
    ),
}  # fmt: skip
"""What the tables show of each level; `--json` and `--level` show everything."""


def metrics(
    app: AppArgument = None,
    store: StoreOption = None,
    level: Annotated[Level | None, typer.Option(help="Only this level, with all its metrics.")] = None,
    export: Annotated[Path | None, typer.Option(help="Write all that is kept to a Parquet file.")] = None,
    step: Annotated[
        float | None,
        typer.Option(min=0.001, help="Export one level with a column a metric, a row every so many seconds."),
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show it live, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the metrics of a pipeline.

    The newest values of the query, its operators, edges, workers and machines, and recent alarms.
    """
    with opened_store(app, store) as (found, name):
        if export is not None:
            rows = _export(found, name, export, level, step)
            typer.echo(json.dumps({"file": str(export), "rows": rows}) if as_json else f"{rows} rows in {export}")
        elif follow:
            _follow(found, name, level, as_json=as_json)
        elif as_json:
            typer.echo(json.dumps(_as_json(found, name, level)))
        else:
            Console().print(_page(found, name, level))


def _export(store: MetricStore, name: str, file: Path, level: Level | None, step: float | None) -> int:
    if step is None:
        return export_samples(store, name, file)
    if level is None:
        raise StoreError("an export by steps has a column for each metric of one level; say which with --level")
    return export_steps(store, name, file, level=level, step=step)


def _follow(store: MetricStore, name: str, level: Level | None, *, as_json: bool) -> None:
    try:
        if as_json:
            while True:
                typer.echo(json.dumps(_as_json(store, name, level)))
                time.sleep(_FOLLOW)
        with Live(_page(store, name, level), refresh_per_second=2) as live:
            while True:
                time.sleep(_FOLLOW)
                live.update(_page(store, name, level))
    except KeyboardInterrupt:
        return


def _as_json(store: MetricStore, name: str, level: Level | None) -> dict[str, Any]:
    now = time.time()
    figures = [_figure(sample, now) for sample in _latest(store, name, level)]
    alarms = [{slot: getattr(alarm, slot) for slot in alarm.__slots__} for alarm in store.alarms(name)]
    return {"pipeline": name, "at": now, "figures": figures, "alarms": alarms}


def _figure(sample: Sample, now: float) -> dict[str, Any]:
    metric = CATALOGUE.get(sample.metric)
    return {
        "metric": sample.metric,
        "unit": metric.unit if metric else None,
        "level": metric.level if metric else None,
        "subject": sample.subject,
        "value": sample.value,
        "at": sample.at,
        "age": max(0.0, now - sample.at),
    }


def _latest(store: MetricStore, name: str, level: Level | None) -> list[Sample]:
    names = None if level is None else [metric.name for metric in CATALOGUE.values() if metric.level is level]
    return store.latest(name, names)


def _page(store: MetricStore, name: str, level: Level | None) -> Group:
    samples = _latest(store, name, level)
    if not samples:
        return Group(Text(f"{name}: nothing was measured yet"))
    newest = max(sample.at for sample in samples)
    head = Text(f"{name}, measured {max(0.0, time.time() - newest):.0f} s ago", style="bold")
    levels = [level] if level else list(Level)
    tables = [table for each in levels for table in _level_tables(each, samples, whole=level is not None)]
    alarms = [Text(f"alarm: {_said(alarm)}", style="red") for alarm in store.alarms(name)[-_RECENT_ALARMS:]]
    return Group(head, *tables, *alarms)


def _said(alarm: AlarmRecord) -> str:
    return f"{time.strftime('%H:%M:%S', time.localtime(alarm.at))} {alarm.rule}: {alarm.message}"


def _level_tables(level: Level, samples: list[Sample], *, whole: bool) -> list[Table]:
    """One level: its main metrics down, its subjects across, as many at a time as fit a terminal."""
    mine = [s for s in samples if (metric := CATALOGUE.get(s.metric)) is not None and metric.level is level]
    if whole:
        return [_long_table(level, mine)]
    shown = [name for name in _SHOWN[level] if any(sample.metric == name for sample in mine)]
    subjects = list(dict.fromkeys(sample.subject for sample in mine if sample.metric in shown))
    values = {(sample.subject, sample.metric): sample.value for sample in mine}
    return [_wide_table(level, shown, each, values) for each in batched(subjects, _ACROSS)]


def _wide_table(level: Level, shown: list[str], subjects: Sequence[str], values: dict[tuple[str, str], float]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(level.value, no_wrap=True)
    for subject in subjects:
        table.add_column(subject, justify="right")
    table.add_column("", style="dim")
    for name in shown:
        table.add_row(name, *(_number(values.get((subject, name))) for subject in subjects), CATALOGUE[name].unit)
    return table


def batched(items: Sequence[str], size: int) -> list[Sequence[str]]:
    """Parts of at most so many.

    >>> batched(["a", "b", "c"], 2)
    [['a', 'b'], ['c']]
    """
    return [items[begin : begin + size] for begin in range(0, len(items), size)]


def _long_table(level: Level, samples: list[Sample]) -> Table:
    """Every metric of a level, with its meaning."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in (level.value, "metric"):
        table.add_column(heading, no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("meaning", style="dim")
    order = {name: place for place, name in enumerate(CATALOGUE)}
    for sample in sorted(samples, key=lambda sample: (sample.subject, order[sample.metric])):
        metric = CATALOGUE[sample.metric]
        table.add_row(sample.subject, metric.name, _number(sample.value), metric.unit, metric.meaning)
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e9:  # noqa: PLR2004
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004
