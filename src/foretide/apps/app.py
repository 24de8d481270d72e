"""What an application is to the command line: a topology to build, and a word about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from foretide.topology.graph import Topology


@dataclass(frozen=True)
class Load:
    """How much an application is given: seconds of replay, mean rows a second, seed, and the pace."""

    seconds: float = 45.0
    rate: float = 20_000.0
    seed: int = 7
    paced: bool = True


@dataclass(frozen=True)
class App:
    """An application: its name, what it does, and how its topology is built for a load."""

    name: str
    summary: str
    build: Callable[[Load], Topology]
    edge: str
    """The edge that the demonstration splits anew."""
