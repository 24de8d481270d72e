"""Maximal frequent patterns in the last 50,000 transactions (drs, Fig 5).

entering -+
          +-> generator (dynamic) -> detector (custom) -> reporter (global) -+
leaving --+                             ^ (all) ------------- feedback ------+

The generator makes all itemsets of a transaction, counted up where it enters the window and down where it leaves. Each
task of the detector keeps some of them; see `pattern_detector`. What it announces is written by the reporter, and comes
back to all tasks through what was written. That is Spark's state with work in Python, which real-time mode does not
have, so the application has no form for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from foretide.apps.app import App, Load
from foretide.apps.pattern_detector import Detector, itemsets
from foretide.topology.graph import Arrow, Bolt, From, Spout, Topology
from foretide.topology.groupings import All, Custom, Dynamic, Global
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.transactions import Transactions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_WINDOW = 50_000
SUPPORT = 0.005
"""The share of the window in which an itemset is more often than the threshold."""

DETECTORS = 4
"""Tasks of the detector. The pool is part of the state, so it is fixed."""

_CHANGE = "itemset string, change bigint"


def window_of(load: Load) -> int:
    """Transactions in the window: 50,000, or half of a load with less than twice as many, so that some leave it."""
    return max(1, min(MAX_WINDOW, round(load.seconds * load.rate) // 2))


def threshold_of(load: Load) -> int:
    """An itemset is frequent if more transactions of the window contain it."""
    return int(SUPPORT * window_of(load))


def generate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The itemsets of transactions, and by how much the occurrences of each change."""
    changes: Counter[str] = Counter()
    for batch in batches:
        for items, spout in zip(batch["items"].to_pylist(), batch["_source"].to_pylist(), strict=True):
            for itemset in itemsets(items):
                changes[itemset] += 1 if spout == "entering" else -1
    changed = {itemset: change for itemset, change in changes.items() if change}
    yield pa.record_batch({"itemset": list(changed), "change": pa.array(list(changed.values()), pa.int64())})


def detect(threshold: int) -> Callable[[DataFrame], DataFrame]:
    """The detector for a threshold: what each task announces and withdraws."""

    def step(_: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        detector = Detector.from_json(state.get[0]) if state.exists else Detector(threshold)
        counted: Counter[str] = Counter()
        heard: Counter[str] = Counter()
        for frame in frames:
            for itemset, change, is_heard in zip(frame["itemset"], frame["change"], frame["is_heard"], strict=True):
                (heard if is_heard else counted)[itemset] += change
        changes = detector.take(counted, heard)
        state.update((detector.to_json(),))
        yield pd.DataFrame({"itemset": list(changes), "change": list(changes.values())})

    def work(both: DataFrame) -> DataFrame:
        is_heard = (F.col("_source") == "reporter").alias("is_heard")
        told = both.select(F.spark_partition_id().alias("task"), "itemset", "change", is_heard)
        known = told.groupBy("task")
        return known.applyInPandasWithState(step, _CHANGE, "known string", "append", GroupStateTimeout.NoTimeout)

    return work


def report(changes: DataFrame) -> DataFrame:
    """The reporter writes what it receives."""
    return changes.select("itemset", "change")


def build(load: Load) -> Topology:
    """The topology under random arrivals; patterns become others four times in the run."""
    rows, window = round(load.seconds * load.rate), window_of(load)
    curve = Curve.constant(load.rate, load.seconds).with_poisson_arrivals(load.seed)
    spouts = {
        name: Replay(Transactions(load.seed, change_every=rows // 4, delay=delay), curve, paced=load.paced)
        for name, delay in (("entering", 0), ("leaving", window))
    }
    by_row = Dynamic(by=("row",))
    own = Custom(f"pmod(xxhash64(itemset), {DETECTORS})")
    return Topology(
        "frequent-patterns",
        spouts=[Spout(name, source) for name, source in spouts.items()],
        bolts=[
            Bolt("generator", Arrow(generate, _CHANGE), [From("entering", by_row), From("leaving", by_row)], pool=3),
            Bolt(
                "detector",
                detect(threshold_of(load)),
                [From("generator", own), From("reporter", All(), feedback=True)],
            ),
            Bolt("reporter", report, [From("detector", Global())]),
        ],
    )


def truth(rows: dict[str, pd.DataFrame], load: Load) -> pd.DataFrame:
    """The maximal frequent patterns of the last window, worked out the plain way."""
    window = rows["entering"]["items"].tail(window_of(load))
    counts = Counter(itemset for items in window for itemset in itemsets(items))
    frequent = [set(itemset.split()) for itemset, count in counts.items() if count > threshold_of(load)]
    maximal = [items for items in frequent if not any(items < other for other in frequent)]
    return pd.DataFrame({"itemset": [" ".join(sorted(items)) for items in maximal]})


def in_force(changes: pd.DataFrame) -> pd.DataFrame:
    """The patterns that were announced and not withdrawn."""
    balance = changes.groupby("itemset")["change"].sum()
    return balance[balance != 0].reset_index()


APP = App("frequent-patterns", build, edge="generator", ratio="3:2:1", result="reporter", truth=truth, settle=in_force)
