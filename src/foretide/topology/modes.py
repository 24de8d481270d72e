"""Execution modes: the ways in which Spark runs a streaming query, and what is possible in each.

What a mode means to Spark (trigger, session settings) is in `foretide.spark.session`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from foretide.errors import Problem
from foretide.topology.graph import Topology
from foretide.topology.sinks import GUARANTEES, Guarantee, KafkaSink, Sink
from foretide.topology.sources import KafkaSource, Source

Mode = Literal["micro-batch", "real-time"]


@dataclass(frozen=True)
class ExecutionMode:
    """A way in which Spark runs a streaming query: the sources, sinks and guarantees that are possible in it.

    Attributes:
        live_limits: Whether the rows of a batch can be limited.
        guarantee: The strongest guarantee that is possible.
    """

    name: str
    sources: tuple[type[Source], ...] = (Source,)
    sinks: tuple[type[Sink], ...] = (Sink,)
    guarantees: tuple[Guarantee, ...] = GUARANTEES
    live_limits: bool = True

    @property
    def guarantee(self) -> Guarantee:
        """The strongest guarantee that is possible."""
        return self.guarantees[0]

    def problems(self, topology: Topology, sink: Sink, guarantee: str) -> Iterator[Problem]:
        """What of a topology, its sink and its guarantee is not possible in this mode."""
        for spout in topology.spouts:
            yield from self._spout_problems(spout.id, spout.source)
        if not isinstance(sink, self.sinks):
            known = ", ".join(kind.__name__ for kind in self.sinks)
            yield Problem("sink", f"{self.name} mode cannot write to {type(sink).__name__}", f"Use {known}")
        if guarantee not in self.guarantees:
            known = ", ".join(self.guarantees)
            yield Problem("guarantee", f"{self.name} mode cannot give {guarantee}", f"Use {known}")

    def _spout_problems(self, spout: str, source: Source) -> Iterator[Problem]:
        if not isinstance(source, self.sources):
            known = ", ".join(kind.__name__ for kind in self.sources)
            yield Problem(spout, f"{self.name} mode cannot read {type(source).__name__}", f"Use {known}")
        elif not self.live_limits and getattr(source, "max_rows", None) is not None:
            yield Problem(spout, f"{self.name} mode takes every record at once, so max_rows has no effect", "Drop it")


MICRO_BATCH = ExecutionMode("micro-batch")
"""A batch is planned, run and committed before the next one starts. Any source, any operator, any sink."""

REAL_TIME = ExecutionMode("real-time", (KafkaSource,), (KafkaSink,), ("at-least-once", "none"), live_limits=False)
"""All stages run at the same time, and a task lives as long as a batch; a record passes in milliseconds."""

MODES: dict[str, ExecutionMode] = {mode.name: mode for mode in (MICRO_BATCH, REAL_TIME)}
