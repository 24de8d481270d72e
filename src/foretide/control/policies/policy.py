"""What a policy is: a value with a state of its own that turns a world into wishes."""

from __future__ import annotations

from typing import Protocol, TypeVar

from foretide.control.decisions.decision import Wish
from foretide.control.world.world import World

S = TypeVar("S")


class Policy(Protocol[S]):
    """One point of view. `wish` neither changes its input nor looks at anything else.

    A policy says what it wants even where that is in force already: guards need to know that it is still wanted.
    """

    @property
    def name(self) -> str:
        """How decisions call it."""
        ...

    def start(self) -> S:
        """The state before the first cycle."""
        ...

    def wish(self, state: S, world: World) -> tuple[S, list[Wish]]:
        """The next state, and what it would like to do."""
        ...
