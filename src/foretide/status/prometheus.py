"""Samples as gauges of Prometheus: the same names from a pipeline's own endpoint and from the dashboard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily

from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Sample

RaisedRule = tuple[str, str, str]
"""An alarm that holds: its rule, severity and subject."""

PREFIX = "foretide_"


def families(pipelines: Iterable[tuple[str, Iterable[Sample]]]) -> Iterator[GaugeMetricFamily]:
    """A gauge for each metric of the catalogue, labelled with pipeline, level and subject."""
    found: dict[str, GaugeMetricFamily] = {}
    for pipeline, samples in pipelines:
        for sample in samples:
            metric = CATALOGUE.get(sample.metric)
            if metric is not None:
                meaning, labels = f"{metric.meaning} ({metric.unit})", ["pipeline", "level", "subject"]
                name = f"{PREFIX}{metric.name}"
                family = found.setdefault(name, GaugeMetricFamily(name, meaning, labels=labels))
                family.add_metric([pipeline, metric.level.value, sample.subject], sample.value)
    yield from found.values()


def alarm_family(pipelines: Iterable[tuple[str, Iterable[RaisedRule]]]) -> GaugeMetricFamily:
    """A gauge that is 1 for each alarm that holds."""
    labels = ["pipeline", "rule", "severity", "subject"]
    family = GaugeMetricFamily(f"{PREFIX}alarm", "1 while an alarm holds.", labels=labels)
    for pipeline, alarms in pipelines:
        for alarm in alarms:
            family.add_metric([pipeline, *alarm], 1.0)
    return family
