"""A replayed run from beginning to end: when it is over, and whether what came out is what had to come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foretide.spark.sources.replay import ReplayPlan
from foretide.topology.sources import Replay

if TYPE_CHECKING:
    import pandas as pd

    from foretide.metrics.batch import BatchReport, SourceRange
    from foretide.runtime.pipeline.submit import Pipeline
    from foretide.topology.graph import Topology

_CHUNK = 500_000


@dataclass(frozen=True)
class Verification:
    """What was handed out, and how the output compares with the truth, row by row."""

    handed_out: int
    expected_rows: int
    found_rows: int
    missing: int
    surplus: int

    @property
    def exact(self) -> bool:
        """Whether not a single row is missing, doubled or different."""
        return not self.missing and not self.surplus


def replay_of(topology: Topology) -> ReplayPlan:
    """The replay of a topology's one spout."""
    (spout,) = topology.spouts
    assert isinstance(spout.source, Replay)  # noqa: S101 - the applications replay
    return ReplayPlan(spout.source)


def taken_by(report: BatchReport) -> SourceRange | None:
    """The rows that a batch took from the replay."""
    return next((source for source in report.sources if source.rows is not None), None)


def is_over(pipeline: Pipeline, plan: ReplayPlan) -> bool:
    """Whether the last row was committed and, where Spark keeps state, the batch after it that closes the windows."""
    reports = list(pipeline.reports)
    ends = [taken.end["row"] for report in reports if (taken := taken_by(report))]
    needed = 2 if reports and reports[-1].stateful else 1
    return len(ends) >= needed and ends[-needed:] == [plan.total_rows] * needed


def origin_of(pipeline: Pipeline) -> float:
    """When the replay began, in seconds since 1970."""
    taken = next(taken for report in list(pipeline.reports) if (taken := taken_by(report)))
    return float(taken.end["origin_ms"]) / 1000


def input_rows(plan: ReplayPlan, origin: float) -> pd.DataFrame:
    """All rows with a payload that the replay handed out, made again."""
    import pyarrow as pa  # noqa: PLC0415 - only for the check at the end

    total = plan.payload_rows or 0
    cuts = range(0, total, _CHUNK)
    batches = [plan.rows(first, min(first + _CHUNK, total), origin) for first in cuts]
    frame: pd.DataFrame = pa.Table.from_batches(batches, plan.schema).to_pandas()
    return frame


def verify(
    pipeline: Pipeline, plan: ReplayPlan, result: str, truth: Callable[[pd.DataFrame], pd.DataFrame]
) -> Verification:
    """Compare an output stream with the truth worked out from the input without Spark."""
    expected = truth(input_rows(plan, origin_of(pipeline)))
    columns = list(expected.columns)
    found = pipeline.output(result).toPandas()[columns]
    wanted, there = _multiset(expected), _multiset(found)
    return Verification(
        plan.total_rows or 0, len(expected), len(found), (wanted - there).total(), (there - wanted).total()
    )


def _multiset(frame: pd.DataFrame) -> Counter[tuple[Any, ...]]:
    plain = frame.copy()
    for name in plain.columns:
        if str(plain[name].dtype).startswith("datetime64"):
            stamps = plain[name].dt.tz_localize(None) if plain[name].dt.tz is not None else plain[name]
            plain[name] = stamps.astype("datetime64[us]").astype("int64")
    return Counter(plain.itertuples(index=False, name=None))
