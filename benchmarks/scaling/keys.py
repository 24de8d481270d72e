"""What a join's key statistics and plans cost by the number of its keys. Spark tells the frequent ones only."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from benchmarks.scaling.growth import gathered
from benchmarks.scaling.loop import cpu_ms
from foretide.joins.plan import JoinPlan, loads_of
from foretide.joins.planning.planner import plan_join
from foretide.metrics.batch import BatchReport, JoinSide
from foretide.runtime.live_joins import KeyWindows
from foretide.settings.settings import Settings
from foretide.spark.joins.statistics import TOP_KEYS

KEYS = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
ROWS, PARTITIONS, ZIPF = 10_000_000, 64, 1.0


def figures(*, quick: bool) -> dict[str, Any]:
    """Tables by the number of distinct keys, and by the number that the planner is given."""
    cycles = 1 if quick else 5
    asked = [100, 1_000, 10_000, 100_000]
    return {
        f"CPU ms of a join of {PARTITIONS} partitions by its keys, {TOP_KEYS} of them told": gathered(
            KEYS, lambda count: of_join(count, TOP_KEYS, cycles)
        ),
        "the same by the keys that the planner is given": gathered(asked, lambda count: of_join(KEYS[3], count, 1)),
    }


def of_join(keys: int, told: int, cycles: int) -> dict[str, float]:
    """CPU milliseconds of a window's statistics and of a plan, and what the plan is like."""
    counts = top_counts(keys, told)
    rows = (ROWS, ROWS // 10)
    settings = Settings().policies["hot_keys"]
    works = {
        "statistics of a window": lambda: seen_window(counts, settings.windows),
        "a plan": lambda: planned(counts, rows, settings.planning),
    }
    costs = {name: statistics.median(cpu_ms(work)[1] for _ in range(cycles)) for name, work in works.items()}
    plan = planned(counts, rows, settings.planning)
    return {**costs, "keys placed": float(len(plan.grids)), "predicted LI": plan.imbalance}


def top_counts(keys: int, told: int) -> dict[int, int]:
    """Rows of the most frequent keys of a Zipf distribution over so many."""
    weights = 1.0 / np.arange(1, keys + 1) ** ZIPF
    share = ROWS / weights.sum()
    return {key * 7919: int(rows) for key, rows in enumerate(weights[:told] * share) if rows >= 1}


def planned(counts: dict[int, int], rows: tuple[int, int], settings: Any) -> JoinPlan:
    """The plan for these keys on one side and a tenth of them on the other."""
    left = {key: float(count) for key, count in counts.items()}
    hot, tail = loads_of(left, {key: count / 10 for key, count in left.items()}, rows, PARTITIONS)
    return plan_join(hot, tail, PARTITIONS, settings)


def seen_window(counts: dict[int, int], windows: Any) -> KeyWindows:
    """Thirty batches of a window and the one that closes it."""
    kept = KeyWindows(windows)
    side = JoinSide(sum(counts.values()), None, counts)
    for batch in range(40):
        kept.see(BatchReport(batch, 1000.0 + batch, 1.0, side.rows, None, None), side, side)
    return kept
