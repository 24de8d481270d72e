"""Records of the store besides samples, and checks of what can be stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from foretide.control.decisions.decision import Decision, to_json
from foretide.control.history import RecordedWorld
from foretide.metrics.metric import Sample

MAX_DECISION_ID = 2**63 - 1
"""The largest number of a decision in the store."""

MAX_NAME_BYTES = 512
"""Maximum bytes of a name. Indexes of PostgreSQL hold three such names, and not much more."""


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """A series: a metric of a subject."""

    metric: str
    subject: str


@dataclass(frozen=True, slots=True)
class AlarmRecord:
    """An alarm.

    Attributes:
        at: Seconds since 1970.
        rule: The name of the alarm rule, or the kind of an audit failure.
        severity: As the rule says.
        subject: What it is about; empty for the whole pipeline.
        message: One sentence.
        source: The likely cause, or what raised it.
    """

    at: float
    rule: str
    severity: str
    subject: str
    message: str
    source: str


Recorded = TypeVar("Recorded", Decision, RecordedWorld)


@dataclass(frozen=True, slots=True)
class Encoded(Generic[Recorded]):
    """A decision or setup and its JSON, or the `problem` for which there is none."""

    record: Recorded
    json: str = ""
    problem: str | None = None

    @classmethod
    def of(cls, record: Recorded) -> Self:
        """Encode it."""
        try:
            return cls(record, to_json(record))
        except (TypeError, ValueError) as error:
            return cls(record, problem=f"it cannot be written as JSON ({error})")

    def __str__(self) -> str:
        return str(self.record)


Kept = Sample | AlarmRecord | Encoded[Decision] | Encoded[RecordedWorld]
"""All that a store keeps."""


def storage_problem(record: Kept) -> str | None:
    """Why a record cannot be stored, or None.

    >>> storage_problem(Sample("cpu.percent", "worker-1", at=0.0, value=float("nan")))
    'its value is nan; it must be a finite number'
    """
    if isinstance(record, Encoded):
        return _number_problem("time", record.record.at) or _id_problem(record.record) or record.problem
    if isinstance(record, Sample):
        wrong = _number_problem("value", record.value) or name_problem(record.metric)
    else:
        wrong = name_problem(record.rule) or name_problem(record.severity) or name_problem(record.source)
    return wrong or _number_problem("time", record.at) or name_problem(record.subject)


def _id_problem(record: Decision | RecordedWorld) -> str | None:
    if isinstance(record, Decision) and not 0 < record.id <= MAX_DECISION_ID:
        return f"its number is {record.id}; they count up from 1"
    return None


def _number_problem(what: str, figure: float) -> str | None:
    known = isinstance(figure, (int, float)) and math.isfinite(figure)
    return None if known else f"its {what} is {figure}; it must be a finite number"


def name_problem(name: str) -> str | None:
    """Why a name cannot be stored, or None.

    >>> name_problem("bolt/3")
    >>> name_problem("bolt" * 200)
    "the name 'boltboltboltboltboltboltboltboltboltbolt...' is 800 bytes long; the maximum is 512"
    """
    if storable_text(name) != name:
        return f"the name {name!a} has a character that databases do not accept"
    length = len(name.encode())
    return (
        f"the name '{name[:40]}...' is {length} bytes long; the maximum is {MAX_NAME_BYTES}"
        if length > MAX_NAME_BYTES
        else None
    )


def storable_text(text: str) -> str:
    """A text without the characters that databases do not accept.

    >>> storable_text("lost" + chr(0) + " 3 rows")
    'lost 3 rows'
    """
    return text.replace("\0", "").encode(errors="replace").decode()
