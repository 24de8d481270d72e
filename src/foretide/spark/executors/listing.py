"""The workers of an application as Spark lists them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foretide.metrics.metric import Sample
from foretide.spark.progress.rest import RestUnavailableError, SparkRest

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True)
class Listed:
    """Samples of the workers that Spark knows, and what kept it from telling."""

    samples: list[Sample]
    problem: str | None = None


class Workers:
    """Asks Spark for its executors. `local` means that the driver's own JVM is the worker."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._rest: SparkRest | None = None
        self.application = context.applicationId
        master = context.master or ""
        self.local = master.startswith("local") and not master.startswith("local-cluster")
        self.driver_pid = driver_pid(context)

    @classmethod
    def of_active(cls) -> Workers:
        """The workers of the context that is running."""
        from pyspark import SparkContext  # noqa: PLC0415 - there is one by now

        return cls(SparkContext.getOrCreate())

    def listed(self) -> Listed:
        """The executors that are alive; the driver counts only in local mode."""
        try:
            if self._rest is None:
                self._rest = SparkRest.of(self._context, timeout=5.0)
            executors = self._rest.get("executors") or []
        except RestUnavailableError as error:
            return Listed([], f"Spark's REST interface does not answer ({error})")
        at = time.time()
        return Listed([sample for each in executors if self._works(each) for sample in _samples(each, at)])

    def close(self) -> None:
        """Let go of the connection to Spark."""
        if self._rest is not None:
            self._rest.close()

    def _works(self, executor: dict[str, Any]) -> bool:
        return bool(executor["isActive"]) and (self.local or executor["id"] != "driver")


def _samples(executor: dict[str, Any], at: float) -> list[Sample]:
    return [Sample("worker_active_tasks", executor["id"], at, float(executor["activeTasks"]))]


def driver_pid(context: SparkContext) -> int:
    """The process of the driver's JVM."""
    jvm: Any = context._jvm  # noqa: SLF001 - the only way to the driver's own process
    return int(jvm.java.lang.ProcessHandle.current().pid())
