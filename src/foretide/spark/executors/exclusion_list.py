"""Keeping tasks off an executor, through Spark's own list of excluded executors.

Every offer of a free core is checked against that list, so from the next stage on no task goes to an executor on it;
stateful partitions are loaded elsewhere from the checkpoint by Spark itself. The list is internal to Spark: whether it
can be reached is probed once, and where it cannot, `Unavailable` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from foretide.errors import ActionError

if TYPE_CHECKING:
    from pyspark import SparkContext

QUARANTINE_SETTINGS: Mapping[str, str] = {
    "spark.excludeOnFailure.application.enabled": "true",  # makes the list; plain `enabled` would kill executors too
    "spark.excludeOnFailure.taskAndStage.enabled": "false",
    "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "2147483647",
    "spark.locality.wait": "100ms",  # or tasks with state wait 3 s for the executor that is not to be used
}
"""What a session needs for it; `foretide.session` sets them."""

_FOR_EVER = 2**63 - 1
_TRIES = 3


class QuarantineUnavailableError(Exception):
    """This Spark cannot keep tasks off an executor from outside; says why."""


class ExclusionList:
    """The executors that get no tasks. Made by `of`, which probes whether the list can be reached."""

    def __init__(self, context: SparkContext, excluded: Any) -> None:
        self._context, self._excluded = context, excluded

    @classmethod
    def of(cls, context: SparkContext) -> ExclusionList:
        """Reach for the list; raises `QuarantineUnavailableError` when it is not there."""
        if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
            raise QuarantineUnavailableError(
                "dynamic allocation takes idle executors away, quarantined ones too; set "
                "spark.dynamicAllocation.enabled=false and let Foretide ask for executors"
            )
        try:
            tracker = _scheduler(context).healthTrackerOpt()
            if tracker.isEmpty():
                missing = "spark.excludeOnFailure.application.enabled=true"
                raise QuarantineUnavailableError(f"Spark keeps no list of excluded executors; set {missing}")
            excluded = tracker.get().executorIdToExcludedStatus()
            excluded.size()
        except Py4JError as error:
            raise QuarantineUnavailableError(f"Spark's exclusion list cannot be reached: {error}") from error
        return cls(context, excluded)

    def put(self, executor: str, host: str) -> None:
        """Send no more tasks there. Putting one there twice changes nothing."""
        for _ in range(_TRIES):  # the scheduler's own map, not made for other threads: look whether it took it
            if self._excluded.contains(executor):
                return
            self._excluded.put(executor, self._entry(host))
        if not self._excluded.contains(executor):
            raise ActionError(f"Spark did not take executor {executor} onto its exclusion list")

    def release(self, executor: str) -> None:
        """Send tasks there again."""
        for _ in range(_TRIES):
            if not self._excluded.contains(executor):
                return
            self._excluded.remove(executor)
        if self._excluded.contains(executor):
            raise ActionError(f"Spark did not let executor {executor} off its exclusion list")

    def executors(self) -> frozenset[str]:
        """The executors that get no tasks at present."""
        listed = self._excluded.keys().mkString("\n")
        return frozenset(listed.split("\n")) if listed else frozenset()

    def _entry(self, host: str) -> Any:
        """What Spark keeps of an excluded executor, made by reflection: its class is not public."""
        jvm: Any = self._context._jvm  # noqa: SLF001 - the way to the driver's classes
        kind = jvm.java.lang.Class.forName("org.apache.spark.scheduler.ExcludedExecutor")
        gateway: Any = self._context._gateway  # noqa: SLF001
        arguments = gateway.new_array(jvm.java.lang.Object, 2)
        arguments[0], arguments[1] = host, _FOR_EVER
        return kind.getConstructors()[0].newInstance(arguments)


def _scheduler(context: SparkContext) -> Any:
    driver: Any = context._jsc  # noqa: SLF001 - the scheduler lives in the driver's JVM
    return driver.sc().taskScheduler()
