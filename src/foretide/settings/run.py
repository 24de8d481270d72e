"""How a pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretide.durations import Seconds
from foretide.errors import SettingsError
from foretide.settings.monitoring import MonitorSettings
from foretide.topology.sinks import Guarantee

_OUTPUT_MODES = ("append", "update", "complete")


@dataclass(frozen=True)
class RunSettings:
    """How a pipeline runs.

    Attributes:
        guarantee: exactly-once, at-least-once, at-most-once (on replay sources), or none.
        trigger: Time between two batches, such as `500 milliseconds`; None takes one batch of what is there and ends.
        audit_ids: Also compare the XOR of tuple ids on both sides of every edge.
        batch_timeout: Seconds after which a batch is cancelled and replayed from the checkpoint; None waits.
        tries: How often one batch may run into its time-out before the pipeline gives up.
        revive: How often a query that died is started again from its checkpoint before the pipeline gives up, each
            time after twice the wait; ten batches in a row make it well again. 0 lets it die at once.
        output_mode: Spark's output mode; files take only `append`.
        loop_patience: Batches over which a feedback loop may grow before it is stopped.
        monitoring: What is measured and kept, and when an alarm is raised; None measures nothing but the audit.
    """

    guarantee: Guarantee = "exactly-once"
    trigger: str | None = "500 milliseconds"
    audit_ids: bool = False
    batch_timeout: Seconds | None = None
    tries: int = 3
    revive: int = 0
    output_mode: str = "append"
    loop_patience: int = 50
    monitoring: MonitorSettings | None = field(default_factory=MonitorSettings)

    def __post_init__(self) -> None:
        timeout = self.batch_timeout
        bounds = {
            "batch_timeout": (timeout is None or timeout > 0, "seconds above 0, or none"),
            "tries": (self.tries >= 1, "1 or more"),
            "revive": (self.revive >= 0, "0 or more"),
            "output_mode": (self.output_mode.lower() in _OUTPUT_MODES, f"one of {', '.join(_OUTPUT_MODES)}"),
            "loop_patience": (self.loop_patience >= 1, "1 or more"),
        }
        bad = [f"{name}={getattr(self, name)} (give {what})" for name, (good, what) in bounds.items() if not good]
        if bad:
            raise SettingsError("run settings", f"out of bounds: {', '.join(bad)}")
