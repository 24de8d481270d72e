"""Nexmark's queries as applications: `foretide run nexmark-q5`.

events -> query (dynamic), where it has no state
events -> trim (dynamic): what queries read -> query (Spark's own exchange)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from foretide.apps.app import App, Load
from foretide.apps.nexmark.queries import QUERIES
from foretide.apps.nexmark.truth import TRUTHS
from foretide.apps.nexmark.ways import Plain
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import Dynamic, Global
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.nexmark import NexmarkEvents

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

_SPEED_UP = 10
"""Event time runs this much faster than the clock, so that a window closes every second."""


_STATELESS = frozenset({"q0", "q1", "q2"})
_UNREAD = ("email", "credit_card", "item", "initial_bid", "due")


def app(query: str) -> App:
    """A query as an application."""

    def truth(events: pd.DataFrame, _: Load) -> pd.DataFrame:
        return TRUTHS[query](events)

    edge = "query" if query in _STATELESS else "trim"
    return App(f"nexmark-{query}", partial(build, query), edge=edge, ratio="7:3:2", result="query", truth=truth)


def build(query: str, load: Load) -> Topology:
    """The topology of a query under a steady load."""
    made = NexmarkEvents(seed=load.seed, rate=load.rate / _SPEED_UP)
    curve = load.shaped(Curve.constant(load.rate, load.seconds))
    seconds = load.seconds * _SPEED_UP
    events = Replay(made, curve, event_seconds=seconds, flush=2.0 * seconds, paced=load.paced)

    def work(frame: DataFrame) -> DataFrame:
        return QUERIES[query](frame, made, Plain())

    split = [From("events", Dynamic(by=("row",)))]
    if query in _STATELESS:
        bolts = [Bolt("query", work, split, pool=3)]
    else:
        bolts = [Bolt("trim", trim, split, pool=3), Bolt("query", work, [From("trim", Global())])]
    return Topology(f"nexmark-{query}", spouts=[Spout("events", events)], bolts=bolts)


def trim(events: DataFrame) -> DataFrame:
    """The events without what no query reads."""
    return events.drop(*_UNREAD)
