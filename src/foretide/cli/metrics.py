"""`foretide metrics`: the metrics of a pipeline, from its store; continuously with `--follow`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table

from foretide.cli.console import (
    AppOption,
    Console,
    DurationOption,
    JsonOption,
    StoreOption,
    Text,
    echo,
    format_ago,
    print_json,
)
from foretide.cli.terms import explained
from foretide.dates import local_date
from foretide.errors import EmptyStoreError
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level, Metric
from foretide.status.stored import Figure, PipelineMetrics, open_store, read_metrics
from foretide.store.export import export_samples, export_steps, export_target
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord

_FOLLOW_SECONDS = 1.0
_MAX_ALARMS = 5
_MAX_COLUMNS = 4
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
"""The metrics in the tables of each level. `--json` and `--level` show all."""


def metrics(
    app: AppOption = None,
    store: StoreOption = None,
    level: Annotated[Level | None, typer.Option(help="Only this level, with all its metrics.")] = None,
    export: Annotated[Path | None, typer.Option(metavar="FILE", help="Export all samples to a Parquet file.")] = None,
    step: Annotated[
        float | None,
        DurationOption(help="Export one level: a column per metric, a row every DURATION, such as 5s."),
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Update continuously, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the metrics of a pipeline.

    The newest values of the query, its operators, edges, workers and machines, and recent alarms.
    """
    _check_options(export, step, level, follow=follow)
    try:
        with open_store(app, store) as (found, name):
            if export is not None:
                _tell_export(found, name, export, level, step, as_json=as_json)
            elif follow:
                _follow(found, name, level, as_json=as_json)
            elif as_json:
                print_json(read_metrics(found, name, time.time(), level))
            else:
                Console().print(_page(found, name, level))
    except EmptyStoreError as empty:
        if export is not None:
            raise
        if as_json:
            print_json(PipelineMetrics("", time.time(), (), ()))
        else:
            echo(str(empty))


def _check_options(export: Path | None, step: float | None, level: Level | None, *, follow: bool) -> None:
    """Refuse options that would be ignored."""
    if step is not None and export is None:
        raise typer.BadParameter("is for exports; add --export FILE", param_hint="--step")
    if step is not None and level is None:
        raise typer.BadParameter("exports one level; choose it with --level", param_hint="--step")
    if follow and export is not None:
        raise typer.BadParameter("an export is made once; leave out one of the two", param_hint="--follow and --export")


def _tell_export(
    store: MetricStore, name: str, file: Path, level: Level | None, step: float | None, *, as_json: bool
) -> None:
    replaced = export_target(file, store).exists()
    rows = _export(store, name, file, level, step)
    told = f"{rows} rows in {file}{', which was replaced' if replaced else ''}"
    if as_json:
        print_json({"file": str(file), "rows": rows, "replaced": replaced})
    else:
        echo(told)


def _export(store: MetricStore, name: str, file: Path, level: Level | None, step: float | None) -> int:
    if step is None or level is None:
        return export_samples(store, name, file)
    return export_steps(store, name, file, level=level, step=step)


def _follow(store: MetricStore, name: str, level: Level | None, *, as_json: bool) -> None:
    try:
        if as_json:
            while True:
                print_json(read_metrics(store, name, time.time(), level))
                time.sleep(_FOLLOW_SECONDS)
        with Live(_page(store, name, level), console=Console(), refresh_per_second=2) as live:
            while True:
                time.sleep(_FOLLOW_SECONDS)
                live.update(_page(store, name, level))
    except KeyboardInterrupt:
        return


def _page(store: MetricStore, name: str, level: Level | None) -> Group:
    found = read_metrics(store, name, time.time(), level)
    if not found.figures:
        others = level is not None and bool(store.series(name))
        where = f" at the level '{level}'; there are metrics of other levels" if others else " yet"
        return Group(Text(f"{name}: nothing has been measured{where}"))
    newest = min(found.figures, key=lambda figure: figure.age)
    head = Text(f"{name}, measured {format_ago(newest.at, newest.at + newest.age)}", style="bold")
    levels, known = [level] if level else list(Level), {figure.metric for figure in found.figures}
    tables = [table for each in levels for table in _level_tables(each, found.figures, whole=level is not None)]
    alarms = [Text(f"alarm: {_describe_alarm(alarm)}", style="red") for alarm in found.alarms[-_MAX_ALARMS:]]
    terms = [] if level is not None else explained(name for shown in _SHOWN.values() for name in shown if name in known)
    return Group(head, *tables, *alarms, *terms)


def _describe_alarm(alarm: AlarmRecord) -> str:
    return f"{local_date(alarm.at, '%m-%d %H:%M:%S')} {alarm.rule}: {alarm.message}"


def _level_tables(level: Level, figures: Sequence[Figure], *, whole: bool) -> list[Table]:
    """One level: its main metrics down, its subjects across, as many at a time as fit a terminal."""
    own = [figure for figure in figures if figure.level is level]
    if whole:
        return [_long_table(level, own)]
    shown = [name for name in _SHOWN[level] if any(figure.metric == name for figure in own)]
    subjects = list(dict.fromkeys(figure.subject for figure in own if figure.metric in shown))
    values = {(figure.subject, figure.metric): figure.value for figure in own}
    starts = range(0, len(subjects), _MAX_COLUMNS)
    return [_wide_table(level, shown, subjects[start : start + _MAX_COLUMNS], values) for start in starts]


def _wide_table(level: Level, shown: list[str], subjects: Sequence[str], values: dict[tuple[str, str], float]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(level.value, overflow="fold")
    for subject in subjects:
        table.add_column(subject, justify="right", overflow="fold")
    table.add_column("", style="dim", overflow="fold")
    for name in shown:
        metric = CATALOGUE[name]
        table.add_row(name, *(_value(metric, values.get((subject, name))) for subject in subjects), metric.symbol)
    return table


def _long_table(level: Level, figures: list[Figure]) -> Table:
    """Every metric of a level, with its meaning below its name."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in (level.value, "metric and meaning"):
        table.add_column(heading, overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit", overflow="fold")
    order = {name: place for place, name in enumerate(CATALOGUE)}
    for figure in sorted(figures, key=lambda figure: (figure.subject, order[figure.metric])):
        metric = CATALOGUE[figure.metric]
        name = Text.assemble(metric.name, "\n", (metric.meaning, "dim"))
        table.add_row(figure.subject, name, _value(metric, figure.value), metric.symbol)
    return table


def _value(metric: Metric, value: float | None) -> str:
    return f"{_number(100 * value)}%" if value is not None and metric.is_share_of_time else _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e9:  # noqa: PLR2004
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004
