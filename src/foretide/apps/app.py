"""The applications by name: each has a topology to build, and a way to check what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from foretide.errors import PipelineNotFoundError

if TYPE_CHECKING:
    from foretide.topology.graph import Topology
    from foretide.topology.sources import Source
    from foretide.workloads.curve import Curve


@dataclass(frozen=True)
class Load:
    """How much an application is given: seconds of replay, mean rows a second, seed, and the pace.

    `surge` is a pair: a second of the replay, and the factor by which the load is higher from then on.
    """

    seconds: float = 45.0
    rate: float = 20_000.0
    seed: int = 7
    paced: bool = True
    surge: tuple[float, float] | None = None

    def shaped(self, curve: Curve) -> Curve:
        """A curve with the surge on top, if there is one."""
        return curve if self.surge is None else curve.surging(*self.surge)


@dataclass(frozen=True)
class App:
    """An application.

    Attributes:
        name: What people call it.
        build: Its topology for a load.
        edge: The edge that the demonstration splits anew, and `ratio` how.
        ratio: The new split.
        result: The output stream that `truth` describes.
        truth: The rows that must be in `result`, worked out from all input rows without Spark (pandas in, pandas out).
            Of several spouts it gets a dict, by spout.
        real_time: The same application in real-time mode; None where it has none.
        check: Raises an error that says what is missing on this machine, if anything.
        settle: What of the rows in `result` is compared, where these are changes of it.
    """

    name: str
    build: Callable[[Load], Topology]
    edge: str
    ratio: str
    result: str
    truth: Callable[[Any, Load], Any]
    real_time: RealTime | None = None
    settle: Callable[[Any], Any] = lambda found: found
    check: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class RealTime:
    """An application in real-time mode. Its source has the generated columns, `row` and `due` (microseconds).

    Attributes:
        build: Its topology for a source.
        result: The output stream with a row for each update; `due` and `row` are those of the tuple that led to it.
        keys: The columns that tell one result from another; the last update of each counts.
        order: The column that grows with each update of a result.
        truth: The last updates, worked out from all input rows without Spark.
    """

    build: Callable[[Source], Topology]
    result: str
    keys: tuple[str, ...]
    order: str
    truth: Callable[[Any], Any]


NEXMARK = {
    "q0": "bids as they are",
    "q1": "bids in another currency",
    "q2": "bids on some auctions",
    "q5": "auctions with most bids",
    "q7": "highest bids",
    "q11": "sessions of bidders",
    "q12": "bids of each bidder",
}
"""The queries of Nexmark that are applications: those that do not join the stream with itself."""

APPS = {
    "url-count": "windowed URL count of request lines (predictive-control)",
    "url-count-sliding": "the same over the past two minutes, by windows that overlap (predictive-control)",
    "continuous-queries": "vehicles over the limit and their owners (predictive-control)",
    "continuous-queries-scan": "the same at the paper's cost: a scan of the table for each query (predictive-control)",
    "unique-users": "unique users per event and second (storm-at-twitter)",
    "twitter-classification": "tweets by topic and author (pa-sps, Fig 7)",
    "twitter-branches": "news and opinions in tweets, on branches of their own (pa-sps, Fig 11)",
    "dns-classification": "DNS queries of programs that hide, and queries that fail (pa-sps)",
    "log-events": "events in the logs of a distributed system (pa-sps)",
    "taxi-join": "taxi orders with the free vehicles in their cell (aj-stream)",
    "frequent-patterns": "maximal frequent patterns over a window of transactions (drs)",
    "logo-detection": "logos in the frames of a video, by SIFT (drs); needs OpenCV",
    "word-count": "words of tweets, counted in windows (Storm's first example)",
    **{f"nexmark-{name}": f"{what} (Nexmark)" for name, what in NEXMARK.items()},
}
"""What each application does. Its module has the same name, with underscores; Nexmark's queries have one together."""

RATES = {"taxi-join": 600.0, "frequent-patterns": 320.0, "logo-detection": 13.0}
"""Mean rows a second of applications that do much work for each row; all others get 20,000, unless a rate is given."""


def find_app(name: str) -> App:
    """The application of that name, or an error that lists them."""
    if name not in APPS:
        raise PipelineNotFoundError(f"there is no application '{name}'; choose one of {', '.join(APPS)}")
    _, is_nexmark, query = name.partition("nexmark-")
    if is_nexmark:
        app: App = import_module("foretide.apps.nexmark.topologies").app(query)
    else:
        app = import_module(f"foretide.apps.{name.replace('-', '_')}").APP
    return app
