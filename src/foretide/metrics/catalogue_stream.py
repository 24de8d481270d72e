"""Queries, operators, edges and tasks, every batch. Names are those of Storm, Flink and Spark where they have one."""

from __future__ import annotations

from foretide.metrics.metric import Metric

QUERY: tuple[Metric, ...] = ()
OPERATOR: tuple[Metric, ...] = ()
EDGE: tuple[Metric, ...] = ()
TASK: tuple[Metric, ...] = ()
