"""How a pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.durations import IntervalText, Seconds
from foretide.settings.monitoring import MonitorSettings
from foretide.topology.sinks import Guarantee


@dataclass(frozen=True)
class RunSettings(Bounded):
    """How a pipeline runs."""

    section: ClassVar[str] = "run"

    guarantee: Annotated[
        Guarantee, Doc("Delivery: exactly-once, at-least-once, at-most-once (on replay sources), or none.")
    ] = "exactly-once"
    trigger: Annotated[
        IntervalText | None,
        Doc("Time between the starts of two batches; none processes what is available in one batch, and ends."),
    ] = "500 milliseconds"
    audit_ids: Annotated[bool, Doc("Also compare the XOR of tuple ids on both sides of every edge.")] = False
    batch_timeout: Annotated[
        Seconds | None,
        Gt(0),
        Doc("Seconds after which a batch is cancelled and replayed from the checkpoint; none never cancels one."),
    ] = None
    tries: Annotated[
        int, Ge(1), Doc("How often a batch may run into its timeout before the pipeline gives up."), Scope.ADVANCED
    ] = 3
    revive: Annotated[
        int,
        Ge(0),
        Doc(
            "How often a query that failed is restarted from its checkpoint before the pipeline gives up, after a wait "
            "that doubles each time; ten batches in a row reset the count. 0 never restarts it."
        ),
    ] = 0
    output_mode: Annotated[
        Literal["append", "update", "complete"], Doc("Spark's output mode; files take only `append`.")
    ] = "append"
    loop_patience: Annotated[
        int, Ge(1), Doc("Batches over which a feedback loop may grow before the query is stopped."), Scope.ADVANCED
    ] = 50
    monitoring: Annotated[
        MonitorSettings | None,
        Doc("Whether metrics other than the audit are measured; the section `monitoring` says which and how."),
    ] = field(default_factory=MonitorSettings)
