"""Writes docs/grafana/foretide.json, a dashboard for Grafana, from the metric catalogue. `make docs` runs it."""  # noqa: INP001

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from foretide.metrics.catalogue import CATALOGUE

FILE = Path(__file__).resolve().parent.parent / "docs" / "grafana" / "foretide.json"
PREFIX = "foretide_"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_UNITS = {"ms": "ms", "tuples/s": "suffix: tuples/s", "percent": "percent", "bytes": "bytes", "ms/s": "suffix: ms/s"}
_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 8


class Panel(NamedTuple):
    """A graph of metrics of one unit; with `by_subject`, it has a line for each operator, worker or host."""

    title: str
    metrics: tuple[str, ...]
    by_subject: bool = False


ROWS: dict[str, tuple[Panel, ...]] = {
    "Query": (
        Panel("Latency of tuples", ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms")),
        Panel("Load", ("input_rows_per_second", "processed_rows_per_second", "sustainable_rows_per_second")),
        Panel("Backlog", ("total_lag",)),
        Panel("Batches", ("batch_duration_ms", "add_batch_ms", "query_planning_ms", "commit_ms")),
    ),
    "Operators and edges": (
        Panel("Capacity: near 1 the busiest replica cannot take more", ("capacity",), by_subject=True),
        Panel("Tuples that arrive", ("arrival_rate",), by_subject=True),
        Panel("Work on a tuple", ("service_time_ms",), by_subject=True),
        Panel("Replicas that got tuples", ("active_tasks",), by_subject=True),
        Panel("Skew: tuples of the fullest replica over the mean", ("skew",), by_subject=True),
        Panel("Imbalance of joins", ("join_imbalance",), by_subject=True),
    ),
    "Workers": (
        Panel("Slowness: 1 is as fast as the others", ("worker_slowness",), by_subject=True),
        Panel("Time for a tuple", ("worker_tuple_execution_time_ms",), by_subject=True),
        Panel("Processor time in user mode", ("worker_cpu_user_percent",), by_subject=True),
        Panel("Waiting for a core", ("worker_cpu_wait_percent",), by_subject=True),
        Panel("Heap in use", ("worker_heap_bytes",), by_subject=True),
        Panel("Garbage collection", ("worker_gc_ms_per_second",), by_subject=True),
    ),
    "Machines": (
        Panel("Processors busy", ("machine_cpu_busy_percent",), by_subject=True),
        Panel("Memory in use", ("machine_memory_used_percent",), by_subject=True),
    ),
}


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = [_alarms()]
    y = _HEIGHT
    for title, row in ROWS.items():
        panels.append({"type": "row", "title": title, "gridPos": _place(0, y, 24, 1), "collapsed": False, "panels": []})
        y += 1
        for number, panel in enumerate(row):
            column, line = number % _COLUMNS, number // _COLUMNS
            panels.append(_graph(panel, _place(column * _WIDTH, y + line * _HEIGHT)))
        y += _HEIGHT * -(-len(row) // _COLUMNS)
    return {
        "title": "Foretide",
        "uid": "foretide",
        "tags": ["foretide", "spark"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource(), _pipeline()]},
        "annotations": {"list": [_alarm_annotation()]},
        "panels": [{**panel, "id": number} for number, panel in enumerate(panels, 1)],
    }


def _place(x: int, y: int, width: int = _WIDTH, height: int = _HEIGHT) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _pipeline() -> dict[str, Any]:
    query = f"label_values({PREFIX}batch, pipeline)"
    return {
        "name": "pipeline",
        "label": "Pipeline",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": "pipelines"},
        "refresh": 2,
        "sort": 1,
        "multi": False,
        "includeAll": False,
    }


def _alarm_annotation() -> dict[str, Any]:
    return {
        "name": "Alarms",
        "datasource": _SOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": f'{PREFIX}alarm{{pipeline="$pipeline"}}',
        "titleFormat": "{{rule}}",
        "textFormat": "{{subject}} ({{severity}})",
    }


def _alarms() -> dict[str, Any]:
    return {
        "type": "table",
        "title": "Alarms that hold now",
        "datasource": _SOURCE,
        "gridPos": _place(0, 0, 24),
        "targets": [
            {
                "refId": "A",
                "datasource": _SOURCE,
                "expr": f'{PREFIX}alarm{{pipeline="$pipeline"}}',
                "format": "table",
                "instant": True,
            }
        ],
        "transformations": [
            {
                "id": "organize",
                "options": {"excludeByName": dict.fromkeys(("Time", "Value", "__name__", "instance", "job"), True)},
            }
        ],
    }


def _graph(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    metrics = [CATALOGUE[name] for name in panel.metrics]
    (unit,) = {metric.unit for metric in metrics}
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": "\n".join(f"{metric.name}: {metric.meaning}" for metric in metrics),
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {
                "unit": _UNITS.get(unit, "short"),
                "min": 0,
                "custom": {"fillOpacity": 8, "showPoints": "never", "spanNulls": 60_000},
            },
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": f'{PREFIX}{metric.name}{{pipeline="$pipeline"}}',
                "legendFormat": "{{subject}}" if panel.by_subject else metric.words,
            }
            for number, metric in enumerate(metrics)
        ],
    }


def main() -> None:
    """Write the file."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(dashboard(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
