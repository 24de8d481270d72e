"""No control at all: the rival that everything else has to beat."""

from __future__ import annotations

from dataclasses import dataclass

from foretide.control.decisions.decision import Wish
from foretide.control.world.world import World


@dataclass(frozen=True, slots=True)
class Static:
    """Never wishes anything."""

    name: str = "static"

    def start(self) -> None:
        """Nothing to remember."""

    def wish(self, state: None, world: World) -> tuple[None, list[Wish]]:  # noqa: ARG002
        """Nothing to wish for."""
        return None, []
