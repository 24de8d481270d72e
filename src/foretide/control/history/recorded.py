"""What a replay needs besides samples: what the query was made of, what was to be held, and what was in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foretide.control.world.observed import Observed
from foretide.control.world.setup import Setup, Target
from foretide.joins.view import JoinView


@dataclass(frozen=True, slots=True)
class RecordedWorld:
    """How a query was set up, from a moment on until the next such record.

    Attributes:
        at: Seconds since 1970.
        setup: What the query is made of.
        target: What is to be held.
        observed: What is in force. Its routes count for batches that read its route version.
        policies: The names of those that control it, in order of rank.
        joins: What was known of its joins, window by window.
    """

    at: float
    setup: Setup
    target: Target = field(default_factory=Target)
    observed: Observed = field(default_factory=Observed)
    policies: tuple[str, ...] = ()
    joins: Mapping[str, JoinView] = field(default_factory=dict)
