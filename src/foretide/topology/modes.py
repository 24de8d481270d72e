"""Execution modes as values: what a query of each mode may consist of.

What a mode means to Spark (trigger, session settings) is in `foretide.spark.modes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foretide.topology.sinks import GUARANTEES, Guarantee, Sink
from foretide.topology.sources import Source

OutputMode = Literal["append", "update", "complete"]


@dataclass(frozen=True)
class ExecutionMode:
    """A way in which Spark runs a streaming query.

    Attributes:
        name: What the mode is called in settings and messages.
        sources: Kinds of sources it can read.
        sinks: Kinds of sinks it can write to.
        guarantees: Guarantees it can give.
        output_modes: Output modes of Spark that it knows.
    """

    name: str
    sources: tuple[type[Source], ...] = (Source,)
    sinks: tuple[type[Sink], ...] = (Sink,)
    guarantees: tuple[Guarantee, ...] = GUARANTEES
    output_modes: tuple[OutputMode, ...] = ("append", "update", "complete")


MICRO_BATCH = ExecutionMode("micro-batch")
"""A batch is planned, run and committed before the next one starts. Any source, any operator, any sink."""
