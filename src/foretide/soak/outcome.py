"""What a campaign found, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foretide.soak.schedule import KILLS, Kind


@dataclass(frozen=True, slots=True)
class Comparison:
    """The output of a pipeline against that of plain Spark, row for row.

    Attributes:
        rows: Rows that plain Spark gives, by output stream.
        lost: How many of them are not there, each counted as often as it is missing.
        doubled: How often rows that plain Spark gives are there too often.
        foreign: Rows that plain Spark does not give.
        examples: Some of the rows that differ.
    """

    rows: Mapping[str, int]
    lost: int
    doubled: int
    foreign: int
    examples: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the output is that of plain Spark."""
        return not (self.lost or self.doubled or self.foreign) and sum(self.rows.values()) > 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a campaign ended.

    Attributes:
        seed: That of its schedule and rows.
        seconds: How long it took.
        done: How often each kind of fault and change was done.
        refused: How often one was refused or had nothing to apply to, by kind.
        lives: How often the driver was started.
        batches: Batches that were committed.
        comparison: The output against plain Spark; None if the pipeline did not come to its end.
        problems: Everything else that is not as promised.
        status_lag: The most batches that were committed after a fault before the status showed one.
        figures: What else was counted.
    """

    seed: int
    seconds: float
    done: Mapping[Kind, int]
    refused: Mapping[Kind, int]
    lives: int
    batches: int
    comparison: Comparison | None
    problems: tuple[str, ...] = ()
    status_lag: int = 0
    figures: Mapping[str, int] = field(default_factory=dict)

    @property
    def kills(self) -> int:
        """Processes that were killed, a whole session counted as one."""
        return sum(times for kind, times in self.done.items() if kind in KILLS)

    @property
    def passed(self) -> bool:
        """Whether everything is as promised."""
        return self.comparison is not None and self.comparison.exact and not self.problems
