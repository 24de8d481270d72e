"""What an application is to the command line: a topology to build, and a way to check what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from foretide.topology.graph import Topology
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
    """

    name: str
    build: Callable[[Load], Topology]
    edge: str
    ratio: str
    result: str
    truth: Callable[[Any, Load], Any]
