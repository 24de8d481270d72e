"""No control at all: the baseline for all other policies."""

from __future__ import annotations

from dataclasses import dataclass

from foretide.control.decisions.decision import Wish
from foretide.control.world.world import World


@dataclass(frozen=True, slots=True)
class Static:
    """Never wishes anything."""

    name: str = "static"

    def start(self) -> None:
        """No state."""

    def wish(self, state: None, world: World) -> tuple[None, list[Wish]]:  # noqa: ARG002
        """No wishes."""
        return None, []
