"""Workers and machines side by side: their main features, and how far each is above its peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level, Metric
from foretide.status.views.seen import Seen
from foretide.status.views.topology import hosts_of

MAIN: dict[Level, tuple[str, ...]] = {
    Level.WORKER: (
        "worker_slowness", "worker_tuple_execution_time_ms", "worker_inbound_tuples_per_second",
        "worker_inbound_queuing_time_ms", "worker_outbound_batch_sending_time_ms", "worker_cpu_user_percent",
        "worker_cpu_wait_percent", "worker_heap_bytes", "worker_gc_ms_per_second",
    ),
    Level.MACHINE: (
        "machine_cpu_busy_percent", "machine_busiest_core_percent", "machine_load_1m", "machine_running_processes",
        "machine_memory_used_percent", "machine_disk_busy_percent", "machine_cpu_pressure_percent",
    ),
}  # fmt: skip
"""The features that tell most of a worker or machine."""

_HUNDRED = 100.0
_PEERS = 3.0
"""A value of so many times the median of its peers is as hot as it gets."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A metric, in words, with its unit and meaning."""

    metric: str
    words: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure: its value, how it is written, and its heat from 0 (as its peers, or idle) to 1."""

    value: float | None
    text: str
    heat: float


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A row of cells for each subject, in the order of the features.

    Attributes:
        hosts: The machine of each subject; empty where it is not known. Workers of a machine follow each other.
    """

    level: Level
    features: tuple[Feature, ...]
    subjects: tuple[str, ...]
    hosts: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def heat_map(seen: Seen, level: Level) -> HeatMap:
    """The main features of all workers, or of all machines."""
    values = {name: found for name in MAIN[level] if (found := seen.of(name))}
    known = {subject for found in values.values() for subject in found}
    hosts = hosts_of(seen) if level is Level.WORKER else {name: name for name in known}
    subjects = tuple(sorted(known, key=lambda name: (hosts.get(name, ""), len(name), name)))
    features = tuple(_feature(CATALOGUE[name]) for name in values)
    rows = tuple(
        tuple(_cell(CATALOGUE[name], subject, found) for name, found in values.items()) for subject in subjects
    )
    return HeatMap(level, features, subjects, tuple(hosts.get(name, "") for name in subjects), rows)


def _feature(metric: Metric) -> Feature:
    return Feature(metric.name, metric.words, metric.symbol, metric.meaning)


def _cell(metric: Metric, subject: str, found: dict[str, float]) -> Cell:
    value = found.get(subject)
    if value is None:
        return Cell(None, "-", 0.0)
    peers = [other for name, other in found.items() if name != subject]
    return Cell(value, metric.figure(value), _heat(metric, value, peers))


def _heat(metric: Metric, value: float, peers: Sequence[float]) -> float:
    """Shares of time by themselves; all else against the median of the peers."""
    if metric.unit == "percent":
        return min(1.0, max(0.0, value / _HUNDRED))
    usual = median(peers) if peers else 1.0 if metric.unit == "ratio" else 0.0
    return min(1.0, max(0.0, (value / usual - 1) / (_PEERS - 1))) if usual > 0 else 0.0
