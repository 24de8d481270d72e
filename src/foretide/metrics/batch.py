"""What one batch showed: rows read, the route version in force, and what went over each edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

TIME_EVERY = 10
"""Python bolts time one tuple out of this many unless set otherwise (N_m of DRS)."""


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
class TaskRun:
    """One task of a batch as Spark counted it.

    `operator` did the work, as replica `task`, and `edge` is what it read; None where that cannot be told. A task that
    only passes on what an operator made, through an exchange that several readers share, is `passing`. `feeds` is the
    edge or operator that it wrote to, None for the sink. Where an operator has exchanges of Spark's own inside, `inner`
    tasks write to one, and `later` ones read it: tuples enter before them and leave after them. A task that reads an
    exchange of Spark's own is `shuffled`.

    `known` says what was measured: all, or in real time only tuples and work (`run_ms`), or tuples alone, or only the
    tuples that entered (`rows_in`). What was not measured is 0.
    """

    operator: str | None
    task: int | None
    edge: str | None
    feeds: str | None
    passing: bool
    worker: str
    host: str
    waited_ms: float
    run_ms: float
    cpu_ms: float
    deserialize_ms: float
    gc_ms: float
    fetch_wait_ms: float
    write_ms: float
    rows_in: int
    rows_out: int
    bytes_read: int
    bytes_written: int
    spilled_bytes: int
    failed: bool = False
    inner: bool = False
    later: bool = False
    shuffled: bool = False
    known: Literal["all", "work", "tuples", "entries"] = "all"

    @property
    def timed(self) -> bool:
        """Whether its work was measured."""
        return self.known in {"all", "work"}

    @property
    def service_ms(self) -> float:
        """Time spent on the tuples themselves: not waiting for them, not sending them on."""
        return max(0.0, self.run_ms - self.fetch_wait_ms - self.write_ms)


@dataclass(frozen=True, slots=True)
class BoltTimes:
    """What a Python bolt measured of itself, or meters of any operator: tuples seen, and those timed, in seconds.

    `squares` is None where tuples are not timed one by one, and `dead` where dead letters are not counted.
    """

    tuples: int
    timed: int
    seconds: float
    squares: float | None
    dead: int | None = 0


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Event times of a batch's tuples (seconds since 1970), from an observation that was asked for."""

    tuples: int
    mean: float
    at: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class StateSize:
    """What Spark's stateful operators hold, the rows they refused as too late in this batch, and their partitions.

    `join_rows` and `join_bytes` are those of its joins alone.
    """

    rows: int
    bytes: int
    late_rows: int
    partitions: int | None = None
    join_rows: int = 0
    join_bytes: int = 0


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of a join in a batch: rows, the highest event time (microseconds; None without any), frequent keys.

    `keys` are rows by the hash of the key, an estimate for the most frequent ones; None where they are not counted.
    `names` are what a person calls these keys.
    """

    rows: int
    latest: int | None
    keys: Mapping[int, int] | None = None
    names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JoinBatch:
    """What a batch said of a join: the version of the plan it read, and both sides; None where it said nothing."""

    plan: int | None
    left: JoinSide | None
    right: JoinSide | None


@dataclass(frozen=True, slots=True)
class TupleIds:
    """Tuples and the XOR of their 64-bit ids on both sides of an edge (the audit on request)."""

    sent_rows: int
    sent_ids: int | None
    received_rows: int
    received_ids: int | None

    @property
    def agree(self) -> bool:
        """Whether what was sent has arrived."""
        return (self.sent_rows, self.sent_ids) == (self.received_rows, self.received_ids)


@dataclass(frozen=True, slots=True)
class SourceRange:
    """What a batch took from one source. None where the source cannot tell.

    Attributes:
        input_rows: Rows that Spark counted.
        description: What Spark calls the source.
        start, end: Offsets as the source writes them; only its own port reads them.
        spout: The spout that the source belongs to.
        rows: Rows between the two offsets.
        backlog: Rows that were due but not taken.
        partition_lag: The same by partition, for sources that have them.
    """

    input_rows: int
    description: str = ""
    start: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] = field(default_factory=dict)
    spout: str | None = None
    rows: int | None = None
    backlog: int | None = None
    partition_lag: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lag:
    """Records of a topic that a query in real time has not read yet, also by partition; None where nobody can tell."""

    records: int | None
    partitions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Returned:
    """What came back through a feedback loop in real time.

    Attributes:
        tuples: Tuples that were read again.
        written: Tuples that were written to be read again; None if nobody can tell.
        waiting: Tuples that were written and not read yet; None if nobody can tell.
    """

    tuples: int
    written: int | None = None
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch. `edges` and `tasks` are None when Spark could not be asked (not the same as 'none').

    `phases` are Spark's own names for the parts of a batch, in milliseconds. `python` holds what the Python bolts
    measured since the batch before. `unaudited` means that Spark had dropped its figures of the batch before they were
    read; `unreported` batches just before it were never reported at all. `watermark_times` are the event times in the
    column of the watermark, of which Spark tells the mean and the earliest.

    In real time a report is about a stretch of time, not about one of Spark's batches. `in_flight` are the tuples on
    each edge at its end: as many more were written than read since the start. `arrival_scv` is the variation of the
    arrivals at each operator, measured there. `lag` is that of each spout, `returned` what came back through each
    feedback; `input_rows` are those of the spouts alone. There are no `sources`: Spark tells them once a batch.
    """

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
    tasks: tuple[TaskRun, ...] | None = None
    phases: Mapping[str, int] = field(default_factory=dict)
    python: Mapping[str, BoltTimes] = field(default_factory=dict)
    event_times: Mapping[str, EventTimes] = field(default_factory=dict)
    state: StateSize | None = None
    watermark: float | None = None
    watermark_times: EventTimes | None = None
    joins: Mapping[str, JoinBatch] = field(default_factory=dict)
    unaudited: bool = False
    unreported: int = 0
    in_flight: Mapping[str, int] = field(default_factory=dict)
    arrival_scv: Mapping[str, float] = field(default_factory=dict)
    lag: Mapping[str, Lag] = field(default_factory=dict)
    returned: Mapping[str, Returned] = field(default_factory=dict)
