"""What one batch showed: rows read, the route version in force, and what went over each edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class EdgeFlow:
    """Records over one edge in one batch, as Spark's shuffle counted them.

    `readers` is how many operators read the exchange; `per_task` is None where it cannot be told.
    """

    written: int
    read: int
    readers: int = 1
    per_task: tuple[int, ...] | None = None
    busy_ms: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TupleIds:
    """Tuples and the XOR of their 64-bit ids on both sides of an edge (the audit on request)."""

    sent_rows: int
    sent_ids: int | None
    received_rows: int
    received_ids: int | None


@dataclass(frozen=True, slots=True)
class SourceRange:
    """What a source handed out in a batch: offsets as the source writes them, and rows where it counts them."""

    start: Mapping[str, Any]
    end: Mapping[str, Any]
    latest: Mapping[str, Any]
    input_rows: int
    description: str = ""

    @property
    def spout(self) -> str | None:
        """The spout, for sources that name it in their offsets."""
        return self.end.get("spout")

    @property
    def rows(self) -> int | None:
        """Rows between the two offsets, for sources whose offsets count rows."""
        return self.end["row"] - self.start.get("row", 0) if "row" in self.end else None

    @property
    def backlog(self) -> int | None:
        """Rows that were due but not taken, for sources that report it."""
        return max(0, self.latest["row"] - self.end["row"]) if "row" in self.latest and "row" in self.end else None


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch. `edges` is None when Spark could not be asked (not the same as 'no edges')."""

    batch: int
    finished: float
    duration: float
    input_rows: int
    route_version: int | None
    edges: Mapping[str, EdgeFlow] | None
    sources: tuple[SourceRange, ...] = ()
    ids: Mapping[str, TupleIds] = field(default_factory=dict)
    retried: bool = False
    stateful: bool = False
