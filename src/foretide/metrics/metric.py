"""What a metric is: one name, unit, level and meaning, in store, command line, API and Prometheus alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """What a figure describes. Its subject is the id of one of them."""

    QUERY = "query"
    OPERATOR = "operator"
    EDGE = "edge"
    TASK = "task"
    WORKER = "worker"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class Metric:
    """One thing that is measured."""

    name: str
    unit: str
    level: Level
    meaning: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A measured value: which metric, of what (a bolt, `bolt/3` for its task, an executor, a host), and when.

    What is not known has no sample.
    """

    metric: str
    subject: str
    at: float
    value: float
