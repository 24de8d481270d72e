"""Experiments with a run whose input can be made again: is it over, is its output exact, and a slow executor."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.errors import WorkloadError
from foretide.metrics.batch import SourceRange
from foretide.probes.workers import find_executors
from foretide.spark.sources.registry import source_port

if TYPE_CHECKING:
    import pandas as pd

    from foretide.metrics.batch import BatchReport
    from foretide.runtime.pipeline.submit import Pipeline
    from foretide.spark.sources.port import SourcePort
    from foretide.topology.graph import Topology


@dataclass(frozen=True)
class Verification:
    """What was handed out, and how the output compares with the truth, row by row.

    Attributes:
        open_rows: Results of windows that were open when the run was stopped; a later start writes them.
    """

    handed_out: int
    expected_rows: int
    found_rows: int
    missing: int
    surplus: int
    open_rows: int = 0

    @property
    def exact(self) -> bool:
        """Whether not a single row is missing, doubled or different."""
        return not self.missing and not self.surplus


def replay_of(topology: Topology) -> SourcePort[Any]:
    """The source of a topology's first spout, whose load is the one that is shown."""
    return source_port(topology.spouts[0].source)


def taken_by(report: BatchReport) -> SourceRange | None:
    """The rows that a batch took from a source that counts them."""
    return next((source for source in report.sources if source.rows is not None), None)


def is_over(pipeline: Pipeline, source: SourcePort[Any]) -> bool:
    """Whether the last row was committed and, where Spark keeps state, the batch after it that closes the windows.

    Where tuples come back through a loop, whether the last batch sent nothing to the bolts that send them back.
    """
    reports = list(pipeline.reports)
    ports = {spout.id: source_port(spout.source) for spout in pipeline.topology.spouts}
    ends = [
        all(ports.get(each.spout or "", source).is_over(each) for each in counted)
        for report in reports
        if (counted := [each for each in report.sources if each.rows is not None])
    ]
    if loops := pipeline.topology.feedback():
        edges = reports[-1].edges if reports else None
        entered = [(edges or {}).get(source.component) for _, source in loops]
        return ends[-1:] == [True] and edges is not None and not any(each and each.written for each in entered)
    needed = 2 if reports and reports[-1].stateful else 1
    return len(ends) >= needed and all(ends[-needed:])


def origin_of(pipeline: Pipeline) -> float:
    """When the source began, in seconds since 1970."""
    return replay_of(pipeline.topology).origin(_first_taken(pipeline)) or 0.0


def last_committed(checkpoint: Path) -> SourceRange | None:
    """What the source of a query had handed out by its last committed batch; None if there is none."""
    return _handed_out(checkpoint, "commits")


def replays_began(checkpoint: Path) -> dict[str, SourceRange]:
    """The last planned range of each replay of a query, by spout."""
    offsets = [json.loads(text) for text in _offsets(checkpoint, "offsets")]
    return {each["spout"]: SourceRange(0, end=each) for each in offsets if "spout" in each}


def last_planned(checkpoint: Path) -> SourceRange | None:
    """The same by the last batch that was planned, which a stop may have cut off."""
    return _handed_out(checkpoint, "offsets")


def _handed_out(checkpoint: Path, log: str) -> SourceRange | None:
    """By the last batch in one of Spark's logs."""
    offsets = _offsets(checkpoint, log)
    return SourceRange(0, end=json.loads(offsets[0])) if offsets else None


def _offsets(checkpoint: Path, log: str) -> list[str]:
    """Those of the last batch in a log. Spark writes an offset for each place in the plan that reads the source."""
    batches = [int(each.name) for each in (checkpoint / log).glob("*") if each.name.isdigit()]
    if not batches:
        return []
    _version, _metadata, *offsets = (checkpoint / "offsets" / str(max(batches))).read_text("utf-8").splitlines()
    return offsets


def verify(
    pipeline: Pipeline,
    source: SourcePort[Any],
    result: str,
    truth: Callable[[Any], pd.DataFrame],
    taken: SourceRange | None = None,
    settle: Callable[[pd.DataFrame], pd.DataFrame] = lambda found: found,
) -> Verification:
    """Compare an output stream with the truth worked out from the input without Spark.

    `taken` is anything that was read from the source, for a pipeline that has read nothing since its start. `settle`
    makes of the rows of the stream what `truth` describes.
    """
    ports = {spout.id: source_port(spout.source) for spout in pipeline.topology.spouts}
    if len(ports) == 1:
        expected = truth(_input_of(source, taken or _first_taken(pipeline)))
    else:
        began = replays_began(Path(pipeline.checkpoint))
        expected = truth({spout: _input_of(port, began[spout]) for spout, port in ports.items()})
    found = settle(pipeline.output(result).toPandas())
    return compared(sum(port.total_rows or 0 for port in ports.values()), expected, found[list(expected.columns)])


def _input_of(port: SourcePort[Any], taken: SourceRange) -> pd.DataFrame:
    table = port.input_table(taken)
    if table is None:
        raise WorkloadError("the input cannot be read again: verify needs a source that makes its rows again")
    rows: pd.DataFrame = table.to_pandas()
    return rows


def verify_stopped(
    pipeline: Pipeline, source: SourcePort[Any], result: str, truth: Callable[[pd.DataFrame], pd.DataFrame]
) -> Verification | None:
    """Compare the output of a pipeline that was stopped, and has one spout, with the truth of the rows that it took.

    A stop may cut a batch off after it has written its files and before Spark has committed it. Then the output is that
    of the rows of this batch, too. None if it took no row, has several spouts, or its input cannot be made again.
    """
    if len(pipeline.topology.spouts) > 1:
        return None
    reports = list(pipeline.reports)
    taken = [each for report in reports if (each := taken_by(report)) is not None]
    if not taken:
        return None
    checkpoint = Path(pipeline.checkpoint)
    ranges = [each for each in (taken[-1], last_committed(checkpoint), last_planned(checkpoint)) if each is not None]
    first: Verification | None = None
    for table in (source.input_table(each, whole=False) for each in ranges):
        verdict = None if table is None else _verdict(pipeline, result, truth, table)
        first = first or verdict
        if verdict is not None and verdict.exact:
            return verdict
    return first


def _verdict(
    pipeline: Pipeline, result: str, truth: Callable[[pd.DataFrame], pd.DataFrame], table: Any
) -> Verification:
    """How the output compares with the truth of these rows, windows that are still open left out."""
    expected = truth(table.to_pandas())
    found = pipeline.output(result).toPandas()[list(expected.columns)]
    stateful = any(report.stateful for report in list(pipeline.reports))
    closed = _closed(expected, found) if stateful else expected
    return replace(compared(table.num_rows, closed, found), open_rows=len(expected) - len(closed))


def _closed(expected: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """The results of windows that have ended: Spark writes all results of a window in one batch."""
    times = next((name for name in expected.columns if str(expected[name].dtype).startswith("datetime64")), None)
    if times is None or found.empty:
        return expected.iloc[:0] if found.empty else expected
    last, zone = found[times].max(), expected[times].dt.tz
    if zone is None or last.tzinfo is None:
        last = last.tz_localize(zone) if last.tzinfo is None else last.tz_convert(None)
    closed: pd.DataFrame = expected.loc[expected[times] <= last]
    return closed


def updates_of(committed: pd.DataFrame, planned: pd.DataFrame, found: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The results that have to be there after a batch that was cut off: each is as before that batch, or as after it.

    Args:
        committed: The results of the rows that were committed.
        planned: Those with the rows of the batch that was cut off.
        found: The results that are there.
        keys: The columns that tell one result from another.
    """
    import pandas as pd  # noqa: PLC0415 - takes a while to load

    before, after = _plain(committed), _plain(found).merge(_plain(planned))
    unchanged = ~before.set_index(keys).index.isin(after.set_index(keys).index)
    return pd.concat([before[unchanged], after])


def compared(handed_out: int, expected: pd.DataFrame, found: pd.DataFrame) -> Verification:
    """How the rows that were found compare with those that were expected."""
    wanted, written = _multiset(expected), _multiset(found)
    return Verification(handed_out, len(expected), len(found), (wanted - written).total(), (written - wanted).total())


def _first_taken(pipeline: Pipeline) -> SourceRange:
    return next(taken for report in list(pipeline.reports) if (taken := taken_by(report)))


def _multiset(frame: pd.DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(_plain(frame).itertuples(index=False, name=None))


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with times as microseconds, whatever their type and zone."""
    plain = frame.copy()
    for name in plain.columns:
        if str(plain[name].dtype).startswith("datetime64"):
            stamps = plain[name].dt.tz_localize(None) if plain[name].dt.tz is not None else plain[name]
            plain[name] = stamps.astype("datetime64[us]").astype("int64")
    return plain


_BUSY = """
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""
"""A busy loop that ends with its parent, even if that is killed."""


def pin_executors(application: str) -> dict[str, int]:
    """Give each executor of an application on this machine a core of its own, in turn; the core of each."""
    cores = sorted(os.sched_getaffinity(0))
    found = sorted(find_executors(application), key=lambda executor: int(executor.executor_id))
    pinned = {executor.executor_id: cores[place % len(cores)] for place, executor in enumerate(found)}
    for executor in found:
        pin(executor.pid, pinned[executor.executor_id])
    return pinned


def pin(pid: int, core: int) -> None:
    """Keep a process on one core: every thread there is; later ones inherit it."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), {core})


@contextlib.contextmanager
def cpu_hog(pinned: Mapping[str, int], executor: str, loops: int = 8) -> Iterator[None]:
    """Busy loops on the core of one executor."""
    command = [sys.executable, "-c", _BUSY, str(os.getpid())]
    hogs = [subprocess.Popen(command) for _ in range(loops)]
    try:
        for hog in hogs:
            os.sched_setaffinity(hog.pid, {pinned[executor]})
        yield
    finally:
        for hog in hogs:
            hog.kill()
        for hog in hogs:
            hog.wait()
