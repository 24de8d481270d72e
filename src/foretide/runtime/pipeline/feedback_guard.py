"""Stops a pipeline whose feedback loop keeps growing."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from foretide.errors import FeedbackGrowthError
from foretide.metrics.audit import LoopGain

if TYPE_CHECKING:
    from foretide.metrics.batch import BatchReport
    from foretide.topology.graph import Topology
    from foretide.topology.sinks import Sink


class FeedbackGuard:
    """Follows the tuples that come back through the sink's files and raises when they keep growing."""

    def __init__(self, topology: Topology, sink: Sink, patience: int) -> None:
        self._topology = topology
        self._path = getattr(sink, "path", None)
        self._feedback = [
            f"{source.component} -> {bolt.id}" for bolt in topology.bolts for source in bolt.inputs if source.feedback
        ]
        self._gain = LoopGain(patience)

    def see(self, report: BatchReport) -> None:
        """Note a batch; an error when the loop has been growing for too long."""
        if not self._feedback or self._path is None:
            return
        returned = sum(source.input_rows for source in report.sources if _reads(source.description, self._path))
        self._gain.see(returned, report.input_rows)
        if self._gain.growing:
            raise FeedbackGrowthError(
                self._topology.name,
                ", ".join(self._feedback),
                self._gain.gain or 0.0,
                self._gain.patience,
                returned,
            )


def _reads(description: str, path: str) -> bool:
    """Whether a source reads this folder. Spark writes `FileStreamSource[file:/data/out]`, however it was given."""
    parts = PurePosixPath(re.sub("^[a-z0-9]+:(//[^/]*)?", "", path)).parts
    tail = "/".join(part for part in parts if part not in ("/", ".."))
    return description.endswith(f"/{tail}]")
