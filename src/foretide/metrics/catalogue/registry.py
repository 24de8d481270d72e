"""Every metric once. `docs/reference/metrics.md` is made from this."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from foretide.metrics.catalogue.machine import MACHINE
from foretide.metrics.catalogue.stream import EDGE, OPERATOR, QUERY, TASK
from foretide.metrics.catalogue.worker import WORKER
from foretide.metrics.metric import Level, Metric

CATALOGUE: Mapping[str, Metric] = MappingProxyType(
    {metric.name: metric for metric in (*QUERY, *OPERATOR, *EDGE, *TASK, *WORKER, *MACHINE)}
)
"""All metrics by name."""


def at_level(level: Level) -> list[Metric]:
    """The metrics of one level, in the order of the catalogue."""
    return [metric for metric in CATALOGUE.values() if metric.level is level]
