"""The interface of a policy: a value that turns its own state and the world into wishes."""

from __future__ import annotations

from typing import Protocol, TypeVar

from foretide.control.decisions.decision import Wish
from foretide.control.world.world import World

S = TypeVar("S")


class Policy(Protocol[S]):
    """Decides from one point of view. `wish` depends on its arguments only, and changes none of them.

    A policy states what it wants even where that is in force already: guards need to know that it is still wanted.
    """

    @property
    def name(self) -> str:
        """Its name in settings and decisions."""
        ...

    def start(self) -> S:
        """The state before the first cycle."""
        ...

    def wish(self, state: S, world: World) -> tuple[S, list[Wish]]:
        """The next state, and the actions it would like to take, with reasons."""
        ...
