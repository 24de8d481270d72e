"""Workers, every 5 seconds: what the paper's hook collects (its Table I), and the process itself."""

from __future__ import annotations

from foretide.metrics.metric import Metric

WORKER: tuple[Metric, ...] = ()
