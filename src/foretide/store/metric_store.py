"""The store of metrics, alarms and decisions, on SQLite or PostgreSQL. Calls are short, and safe from any thread.

Samples are ordered by their time, not by arrival: after a clock has jumped back, new samples lie among older ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sqlalchemy import Connection, Engine, Select, select, tuple_
from sqlalchemy.exc import IntegrityError

from foretide.control.decisions.decision import Decision
from foretide.control.history import RecordedForecasts, RecordedWorld
from foretide.errors import StoreError
from foretide.metrics.metric import Sample
from foretide.metrics.steps import StepSample
from foretide.store import queries, records, retention
from foretide.store.compaction import Part, compact
from foretide.store.database import (
    database_url,
    file_identity,
    file_of,
    give_back_space,
    open_database,
    store_errors,
    writing,
)
from foretide.store.queries import ALARMS, SAMPLES, SERIES
from foretide.store.records import AlarmRecord, Encoded, StoredSeries, storable_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

NAMES_AT_ONCE = 1_000
"""Series looked up in one statement; databases limit its parameters."""

log = logging.getLogger("foretide")

SeriesName = tuple[str, str, str]
"""Pipeline, metric, subject."""

OnRefused = Callable[[str], None]
Record = TypeVar("Record", bound=records.Kept)


class MetricStore:
    """Metrics, alarms and decisions of any number of pipelines.

    Several processes may use one store at the same time. A call that the database refuses raises StoreError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, MetricStore.open(f"{folder}/metrics.db") as store:
    ...     store.write("words", [Sample("cpu.percent", "worker-1", at=10.0, value=31.5)])
    ...     store.latest("words")
    [Sample(metric='cpu.percent', subject='worker-1', at=10.0, value=31.5)]
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._writing, self._lock = engine, writing(engine), Lock()
        self._path = file_of(engine.url)
        self._file = file_identity(self._path)
        self._ids: dict[SeriesName, int] = {}

    @classmethod
    def open(cls, location: str | Path, *, create: bool = True) -> Self:
        """Open the store at a path, `sqlite:///file`, or `postgresql://user@host/database`.

        It is created if it does not exist; without `create`, StoreError is raised instead.
        """
        return cls(open_database(database_url(location), create=create))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The store can still be used, and then connects again."""
        self._engine.dispose()

    def write(self, pipeline: str, samples: Sequence[Sample], *, on_refused: OnRefused | None = None) -> None:
        """Keep samples, all or none. A sample of the same series and time as an older one takes its place.

        `on_refused` is told why a sample cannot be stored, which is then left out; None raises instead.

        Raises:
            StoreError: A value or time is NaN or infinite, a name is unfit, or the database refuses.
        """
        samples = _checked(pipeline, samples, on_refused)
        if not samples:
            return
        with self._errors("write to the store"), self._lock:
            try:
                self._write(pipeline, samples)
            except IntegrityError:  # another process forgot a series since its id was looked up
                self._ids.clear()
                self._write(pipeline, samples)

    def _write(self, pipeline: str, samples: Sequence[Sample]) -> None:
        with self._writing.begin() as connection:
            ids = self._series_ids(connection, {(pipeline, sample.metric, sample.subject) for sample in samples})
            values = {(ids[pipeline, s.metric, s.subject], float(s.at)): float(s.value) for s in samples}
            rows = [{"series_id": key[0], "at": key[1], "value": value} for key, value in sorted(values.items())]
            connection.execute(queries.upsert(SAMPLES, connection.dialect), rows)
        self._ids |= ids  # only once committed: what was rolled back may become the id of another series

    def _series_ids(self, connection: Connection, wanted: set[SeriesName]) -> dict[SeriesName, int]:
        ids = {name: self._ids[name] for name in wanted if name in self._ids}
        unknown = iter(sorted(wanted - ids.keys()))  # in one order for all writers, so that they never wait in a ring
        while names := list(islice(unknown, NAMES_AT_ONCE)):
            rows = [{"pipeline": pipeline, "metric": metric, "subject": subject} for pipeline, metric, subject in names]
            connection.execute(queries.insert_missing(SERIES, connection.dialect), rows)
            name = (SERIES.c.pipeline, SERIES.c.metric, SERIES.c.subject)
            found = connection.execute(select(*name, SERIES.c.id).where(tuple_(*name).in_(names)))
            ids |= {(pipeline, metric, subject): number for pipeline, metric, subject, number in found}
        return ids

    def read(
        self,
        pipeline: str,
        *,
        metrics: Collection[str] | None = None,
        subjects: Collection[str] | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int | None = None,
    ) -> list[Sample]:
        """Samples in the order of time, from `since` on, up to and without `until`; with `limit` only the newest."""
        wanted = queries.Selection(pipeline, metrics, subjects, since, until)
        if limit is None:
            return [_sample(row) for row in self._rows(queries.samples_oldest_first(wanted))]
        return [_sample(row) for row in reversed(self._rows(queries.samples_newest_first(wanted).limit(limit)))]

    def scan(
        self,
        pipeline: str,
        *,
        metrics: Collection[str] | None = None,
        since: float | None = None,
        until: float | None = None,
        chunk: int = 50_000,
    ) -> Iterator[list[StepSample]]:
        """As `read_steps`, subject by subject, each in the order of time, in chunks: for more than fits into memory."""
        for subject in dict.fromkeys(series.subject for series in self.series(pipeline)):
            query = queries.steps_oldest_first(queries.Selection(pipeline, metrics, [subject], since, until))
            with self._errors("read the store"), self._engine.connect() as connection:
                for rows in connection.execution_options(yield_per=chunk).execute(query).partitions():
                    yield [_step(row) for row in rows]

    def read_steps(
        self,
        pipeline: str,
        *,
        metrics: Collection[str] | None = None,
        subjects: Collection[str] | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> list[StepSample]:
        """As `read`, each with the mean, minimum and maximum of the samples that it stands for."""
        wanted = queries.Selection(pipeline, metrics, subjects, since, until)
        return [_step(row) for row in self._rows(queries.steps_oldest_first(wanted))]

    def latest(self, pipeline: str, metrics: Collection[str] | None = None) -> list[Sample]:
        """The newest sample of each series by its time."""
        rows = self._rows(queries.newest_of_each_series(queries.Selection(pipeline, metrics)))
        return [_sample(row) for row in rows if row[2] is not None]

    def series(self, pipeline: str) -> list[StoredSeries]:
        """What there are samples of, in the order in which it was first seen."""
        return [StoredSeries(*row) for row in self._rows(queries.series_of(pipeline))]

    def pipelines(self) -> list[str]:
        """Pipelines with samples or alarms, by name."""
        named = select(SERIES.c.pipeline).union(select(ALARMS.c.pipeline)).subquery()
        return sorted(str(name) for (name,) in self._rows(select(named.c.pipeline)))

    def write_alarms(
        self, pipeline: str, alarms: Sequence[AlarmRecord], *, on_refused: OnRefused | None = None
    ) -> None:
        """Keep alarms, all or none. One that is there already (rule, subject, source, time) is not kept twice."""
        alarms = _checked(pipeline, alarms, on_refused)
        rows = [{"pipeline": pipeline, **asdict(each), "message": storable_text(each.message)} for each in alarms]
        if rows:
            with self._errors("write to the store"), self._lock, self._writing.begin() as connection:
                connection.execute(queries.insert_missing(ALARMS, connection.dialect), rows)

    def alarms(
        self, pipeline: str, *, since: float | None = None, until: float | None = None, limit: int | None = None
    ) -> list[AlarmRecord]:
        """Alarms in the order of time; with `limit` only the newest."""
        query = queries.alarms_newest_first(queries.Selection(pipeline, since=since, until=until)).limit(limit)
        return [records.read_row(AlarmRecord, ALARMS.name, row) for row in reversed(self._rows(query))]

    def write_decisions(
        self,
        pipeline: str,
        decisions: Sequence[Decision],
        *,
        max_decisions: int = records.MAX_DECISIONS,
        on_refused: OnRefused | None = None,
    ) -> None:
        """Keep decisions, all or none, and add the effects that they report to earlier ones.

        One of the same number replaces the old one. Beyond the newest `max_decisions`, the oldest go.
        """
        entries = _checked(pipeline, map(Encoded[Decision].of, decisions), on_refused)
        if entries:
            with self._errors("write to the store"), self._lock, self._writing.begin() as connection:
                records.write_decisions(connection, pipeline, entries, max_decisions)

    def decisions(
        self,
        pipeline: str,
        *,
        last: int | None = None,
        since: float | None = None,
        ids: Collection[int] | None = None,
        acted: bool = False,
        on_problem: records.OnProblem = log.warning,
    ) -> list[Decision]:
        """Decisions by their number, with `acted` only those that changed something, with `last` only the newest.

        `on_problem` is called for a damaged decision, which is left out.
        """
        query = records.decisions_newest_first(pipeline, last=last, since=since, ids=ids, acted=acted)
        rows = reversed(self._rows(query))
        return list(records.read_back(rows, Decision, "decision", on_problem))

    def last_decision_id(self, pipeline: str) -> int:
        """The highest number of a decision, 0 if there is none."""
        newest = self._rows(records.newest_id(pipeline))[0][0] or 0
        if not isinstance(newest, int):
            raise StoreError(f"the store is damaged: a decision has the number {newest!r:.40}; move the store away")
        return newest

    def write_setups(
        self, pipeline: str, setups: Sequence[RecordedWorld], *, on_refused: OnRefused | None = None
    ) -> None:
        """Keep how a pipeline is set up from a moment on, all or none. One of the same time replaces the old one."""
        entries = _checked(pipeline, map(Encoded[RecordedWorld].of, setups), on_refused)
        if entries:
            with self._errors("write to the store"), self._lock, self._writing.begin() as connection:
                records.write_setups(connection, pipeline, entries)

    def setups(
        self, pipeline: str, *, last: int | None = None, on_problem: records.OnProblem = log.warning
    ) -> list[RecordedWorld]:
        """The setups of a pipeline in the order of time, with `last` only the newest. A damaged one is left out."""
        rows = reversed(self._rows(records.setups_of(pipeline, last)))
        return list(records.read_back(rows, RecordedWorld, "setup", on_problem))

    def write_forecasts(
        self, pipeline: str, forecasts: Sequence[RecordedForecasts], *, on_refused: OnRefused | None = None
    ) -> None:
        """Keep what was forecast, all or none, for half a day."""
        entries = _checked(pipeline, map(Encoded[RecordedForecasts].of, forecasts), on_refused)
        if entries:
            with self._errors("write to the store"), self._lock, self._writing.begin() as connection:
                records.write_forecasts(connection, pipeline, entries)

    def forecasts(
        self,
        pipeline: str,
        *,
        since: float | None = None,
        until: float | None = None,
        on_problem: records.OnProblem = log.warning,
    ) -> list[RecordedForecasts]:
        """The forecasts of a pipeline in the order of time. A damaged record is reported and left out."""
        rows = self._rows(records.forecasts_of(pipeline, since, until))
        return list(records.read_back(rows, RecordedForecasts, "forecast", on_problem))

    def recorded_before(
        self, pipeline: str, now: float, age: float, on_pause: retention.OnPause = lambda _begin, _end: None
    ) -> float:
        """The time before which samples of a pipeline are older than `age` seconds of recorded time.

        `on_pause` is told of each pause of more than a day, which does not count.
        """
        with self._errors("read the store"), self._engine.connect() as connection:
            return retention.recorded_before(connection, pipeline, now, age, on_pause)

    def delete_before(self, pipeline: str, before: float, *, at_most: int | None = None) -> int:
        """Delete what a pipeline measured and decided before a moment. Returns the number of samples deleted.

        Each transaction is small, so that writers do not wait for long. With `at_most`, call again while that many
        are deleted.
        """
        with self._errors("delete old samples in the store"):
            removed = retention.delete_samples(self._writing, pipeline, before, at_most)
            if at_most is None or removed < at_most:
                retention.delete_alarms(self._writing, pipeline, before)
                retention.delete_decisions(self._writing, pipeline, before)
                retention.delete_empty_series(self._writing, pipeline)
        return removed

    def compact(self, part: Part) -> Part | None:
        """Keep one sample of each step of a part, a small piece at a time; returns what is left, None if nothing is."""
        with self._errors("compact the store"), self._lock, self._writing.begin() as connection:
            return compact(connection, part)

    def give_back_space(self, pages: int) -> bool:
        """Make the file of an SQLite store smaller by at most so many pages; False if there is not much to give."""
        with self._errors("compact the store"), self._lock:
            return give_back_space(self._engine, pages)

    @property
    def files(self) -> list[Path]:
        """The files of an SQLite store, links followed; none of a server."""
        if self._path is None:
            return []
        file = self._path.resolve()
        return [file.with_name(file.name + suffix) for suffix in ("", "-wal", "-shm", "-journal")]

    @property
    def deleted(self) -> bool:
        """Whether the file of the store was deleted or replaced since it was opened."""
        return self._path is not None and self._file != file_identity(self._path)

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        with self._errors("read the store"), self._engine.connect() as connection:
            return connection.execute(query).all()

    def _errors(self, doing: str) -> AbstractContextManager[None]:
        return store_errors(doing, self._engine.url)


_sample = partial(records.read_row, Sample, SAMPLES.name)
_step = partial(records.read_row, StepSample, SAMPLES.name)


def _checked(pipeline: str, entries: Iterable[Record], on_refused: OnRefused | None) -> list[Record]:
    """Those that can be stored. The others are reported and left out, or raise if nobody is to be told."""
    if wrong := records.name_problem(pipeline):
        raise StoreError(f"the pipeline cannot be stored: {wrong}")
    good: list[Record] = []
    for record in entries:
        wrong = records.storage_problem(record)
        if wrong is None:
            good.append(record)
        elif on_refused is None:
            raise StoreError(f"{record} cannot be stored: {wrong}")
        else:
            on_refused(wrong)
    return good
