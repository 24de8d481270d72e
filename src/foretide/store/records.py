"""What goes in and out besides samples, and what cannot be stored."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foretide.control.decisions.decision import Decision
from foretide.control.decisions.decision_json import to_json
from foretide.control.history.recorded import RecordedWorld
from foretide.metrics.metric import Sample

LARGEST_NUMBER = 2**63 - 1
"""The largest number that a decision can have in the store."""

LONGEST_NAME = 512
"""Bytes of a pipeline's, metric's or subject's name: PostgreSQL's indexes take three such names, and not much more."""


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """What samples are of: a metric of a subject."""

    metric: str
    subject: str


@dataclass(frozen=True, slots=True)
class AlarmRecord:
    """An alarm as it is kept.

    Attributes:
        at: Seconds since 1970.
        rule: What was broken, such as a rule's name or a kind of the audit.
        severity: As the rule says.
        subject: What it speaks of; empty for the whole pipeline.
        message: A sentence for people.
        source: Where the cause probably lies, or who raised it.
    """

    at: float
    rule: str
    severity: str
    subject: str
    message: str
    source: str


Kept = Sample | AlarmRecord | Decision | RecordedWorld
"""All that a store keeps."""


def flaw(record: Kept) -> str | None:
    """Why something cannot be kept, None for a good one.

    >>> flaw(Sample("cpu.percent", "worker-1", at=0.0, value=float("nan")))
    'its value is nan; what is not known has no sample'
    """
    if isinstance(record, Decision | RecordedWorld):
        return _figure_flaw("time", record.at) or _text_flaw(record)
    if isinstance(record, Sample):
        wrong = _figure_flaw("value", record.value) or name_flaw(record.metric)
    else:
        wrong = name_flaw(record.rule) or name_flaw(record.severity) or name_flaw(record.source)
    return wrong or _figure_flaw("time", record.at) or name_flaw(record.subject)


def _text_flaw(record: Decision | RecordedWorld) -> str | None:
    if isinstance(record, Decision) and not 0 < record.id <= LARGEST_NUMBER:
        return f"its number is {record.id}; they count up from 1"
    try:
        to_json(record)
    except (TypeError, ValueError) as error:
        return f"it cannot be written as JSON ({error})"
    return None


def _figure_flaw(what: str, figure: float) -> str | None:
    known = isinstance(figure, (int, float)) and math.isfinite(figure)
    return None if known else f"its {what} is {figure}; what is not known has no sample"


def name_flaw(name: str) -> str | None:
    """Why a name cannot be kept, None for a good one.

    >>> name_flaw("bolt/3")
    >>> name_flaw("bolt" * 200)
    "the name 'boltboltboltboltboltboltboltboltboltbolt...' is 800 bytes long; 512 is the most"
    """
    if storable_text(name) != name:
        return f"the name {name!a} has a character that no database takes"
    length = len(name.encode())
    return (
        f"the name '{name[:40]}...' is {length} bytes long; {LONGEST_NAME} is the most"
        if length > LONGEST_NAME
        else None
    )


def storable_text(text: str) -> str:
    """A text for people, without the characters that no database takes.

    >>> storable_text("lost" + chr(0) + " 3 rows")
    'lost 3 rows'
    """
    return text.replace("\0", "").encode(errors="replace").decode()
