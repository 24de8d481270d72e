"""All that is known of a pipeline at one instant, as the views take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foretide.control.decisions.decision import Decision
from foretide.control.history import RecordedWorld
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Key, Snapshot
from foretide.routing.table import RouteTable
from foretide.status.pipelines import PipelineState

STALE_SECONDS = 60.0
"""Without a report for so long, what is shown of a running pipeline is old."""


@dataclass(frozen=True)
class Seen:
    """A pipeline at one instant.

    Attributes:
        id: Its name in addresses, unlike that of any other pipeline.
        running: Whether its process is alive; what is known of others is as it was at their end.
        state: What its control folder says; None if there is none.
        world: The setup that was recorded last.
        decisions: The last decisions, the newest last.
        problems: What could not be read.
    """

    id: str
    name: str
    at: float
    running: bool
    pid: int | None = None
    state: PipelineState | None = None
    routes: RouteTable | None = None
    samples: Mapping[Key, Sample] = field(default_factory=dict)
    world: RecordedWorld | None = None
    decisions: tuple[Decision, ...] = ()
    problems: tuple[str, ...] = ()

    def value(self, metric: str, subject: str | None = None) -> float | None:
        """The newest value of a metric; the subject is the pipeline itself by default."""
        sample = self.samples.get((metric, self.name if subject is None else subject))
        return None if sample is None else sample.value

    def of(self, metric: str) -> dict[str, float]:
        """The newest value of a metric for all its subjects, without those that have gone silent."""
        newest = self.updated or 0.0
        return {
            subject: sample.value
            for (name, subject), sample in self.samples.items()
            if name == metric and sample.at >= newest - STALE_SECONDS
        }

    @property
    def updated(self) -> float | None:
        """When anything was measured last."""
        return max((sample.at for sample in self.samples.values()), default=None)

    @property
    def snapshot(self) -> Snapshot:
        """The newest values as the control loop would see them."""
        return Snapshot(self.at, self.name, {key: (each.value, each.at) for key, each in self.samples.items()})
