"""The executors of an application: listing them, excluding one from scheduling, and changing their number.

Quarantine goes through Spark's own list of excluded executors. Every offer of a free core is checked against it, so
from the next stage on no task goes to an executor on it; stateful partitions are loaded elsewhere from the checkpoint
by Spark itself. The list is internal to Spark. Where it cannot be reached, a bad executor is killed and another one
asked for: the same end, at the price of a start. Both, and the number of executors, need a cluster manager and the
driver's JVM; `limits` says what is not possible and why.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from py4j.protocol import Py4JError

from foretide.errors import ActionError
from foretide.metrics.metric import Sample
from foretide.probes.executor_metrics import PORT_SETTING, ExecutorMetrics, SentMetrics
from foretide.spark.rest import RestUnavailableError, SparkRest

if TYPE_CHECKING:
    from pyspark import SparkContext


QUARANTINE_SETTINGS: Mapping[str, str] = {
    "spark.excludeOnFailure.application.enabled": "true",  # makes the list; plain `enabled` would kill executors too
    "spark.excludeOnFailure.taskAndStage.enabled": "false",
    "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "2147483647",
    "spark.locality.wait": "100ms",  # or tasks with state wait 3 s for the executor that is not to be used
}
"""What a session needs for quarantine; `foretide.session` sets them."""

_FOR_EVER = 2**63 - 1
_TRIES = 3
_TIMEOUT_SECONDS = 5.0


class _Application:
    """A running application and its REST interface. `local` means that the driver's own JVM is the one worker."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._rest: SparkRest | None = None
        master = context.master or ""
        self.local = master.startswith("local") and not master.startswith("local-cluster")

    @classmethod
    def of_active(cls) -> Self:
        """Of the context that is running."""
        from pyspark import SparkContext  # noqa: PLC0415 - there is one by now

        return cls(SparkContext.getOrCreate())

    def _listed_executors(self) -> list[dict[str, Any]]:
        if self._rest is None:
            self._rest = SparkRest.of(self._context)
        return self._rest.get("executors", _TIMEOUT_SECONDS) or []

    def close(self) -> None:
        """Close the connection to Spark's REST interface."""
        if self._rest is not None:
            self._rest.close()


class Executors(_Application):
    """The executors of one application. Every call is short, and harmless when repeated.

    `most` executors may be asked for, by default as many as there were at first.
    """

    def __init__(self, context: SparkContext) -> None:
        super().__init__(context)
        self._hosts: dict[str, str] = {}
        self.limits: list[str] = []
        self._cores: int | None = None
        self._list = None if self.local else self._exclusions()
        self.can_resize = not self.local and self._is_ours()
        self.most = len(self.executors())
        if self.local:
            self.limits.append("local mode has one worker, the driver: no executor can be taken out or asked for")

    def _exclusions(self) -> ExclusionList | None:
        try:
            return ExclusionList.of(self._context)
        except QuarantineUnavailableError as error:
            instead = "bad executors are killed and replaced instead" if self._is_ours() else "none can be taken out"
            self.limits.append(f"no quarantine: {error}; {instead}")
            return None

    @property
    def cores(self) -> int:
        """Tasks that an executor runs at the same time; 1 as long as the cluster manager has given none."""
        if self._cores is None:
            self._cores = self._find_cores()
        return self._cores or 1

    def _find_cores(self) -> int | None:
        """As it is set, or else as the cluster manager has decided; None before the first executor is there."""
        if self.local:
            return self._context.defaultParallelism
        if cores := self._context.getConf().get("spark.executor.cores", ""):
            return int(cores)
        master = self._context.master or ""
        if master.startswith("local-cluster"):
            return int(master.split("[")[1].split(",")[1])
        with suppress(RestUnavailableError):
            listed = self._listed_executors()
            return max((int(each["maxTasks"]) for each in listed if each["id"] != "driver"), default=None)
        return None

    def _is_ours(self) -> bool:
        """Whether the number of executors is left to us: somebody else's dynamic allocation would fight over it."""
        return self._context.getConf().get("spark.dynamicAllocation.enabled", "false") != "true"

    @property
    def can_quarantine(self) -> bool:
        """Whether workers can be taken out, one way or the other."""
        return self._list is not None or self.can_resize

    # ---- what is in force

    def executors(self) -> dict[str, str]:
        """The live executors and the host of each."""
        if self.local:
            return {"driver": socket.gethostname()}
        listed = self._driver.getExecutorIds().mkString("\n")
        ids = listed.split("\n") if listed else []
        if any(executor not in self._hosts for executor in ids):
            self._hosts |= self._listed_hosts()
        return {executor: self._hosts.get(executor, "unknown") for executor in sorted(ids)}

    def quarantined(self) -> frozenset[str]:
        """The executors that get no tasks."""
        return frozenset() if self._list is None else self._list.executors()

    # ---- what can be done

    def take_out(self, executor: str) -> None:
        """Give an executor no more tasks, or replace it by another one."""
        live = self.executors()
        if executor not in live:
            return
        if self._list is not None:
            self._list.put(executor, live[executor])
        elif self.can_resize:
            self._kill([executor])
            self._ask_for(len(live))
        else:
            raise ActionError(f"executor {executor} cannot be taken out: {'; '.join(self.limits)}")

    def let_in(self, executor: str) -> None:
        """Give an executor tasks again."""
        if self._list is not None:
            self._list.release(executor)

    def resize(self, count: int) -> None:
        """Have `count` executors: ask for more, or give back quarantined ones first, then the newest."""
        if not self.can_resize:
            raise ActionError(f"the number of executors cannot be changed: {'; '.join(self.limits)}")
        live, out = self.executors(), self.quarantined()
        surplus = sorted(live, key=lambda executor: (executor not in out, -int(executor)))[: max(len(live) - count, 0)]
        if surplus:
            self._kill(surplus)
        self._ask_for(count)

    def _kill(self, executors: list[str]) -> None:
        if not self._driver.killExecutors(self._scala.toSeq(executors)):
            raise ActionError(f"the cluster manager does not give back executors {', '.join(executors)}")

    def _ask_for(self, count: int) -> None:
        if not self._driver.requestTotalExecutors(count, 0, self._scala.toScalaMap({})):
            raise ActionError(f"the cluster manager does not take a request for {count} executors")

    @property
    def _driver(self) -> Any:
        driver: Any = self._context._jsc  # noqa: SLF001 - the scheduler lives in the driver's JVM
        return driver.sc()

    @property
    def _scala(self) -> Any:
        jvm: Any = self._context._jvm  # noqa: SLF001
        return jvm.PythonUtils

    def _listed_hosts(self) -> dict[str, str]:
        try:
            listed = self._listed_executors()
        except RestUnavailableError:
            return {}
        return {each["id"]: each["hostPort"].rsplit(":", maxsplit=1)[0] for each in listed}


@dataclass(frozen=True)
class WorkerListing:
    """Samples of the workers that Spark knows, and why it did not answer."""

    samples: list[Sample]
    problem: str | None = None


class Workers(_Application):
    """Asks Spark for its executors."""

    def __init__(self, context: SparkContext) -> None:
        super().__init__(context)
        self.application = context.applicationId
        self.driver_pid = driver_pid(context)
        port = context.getConf().get(PORT_SETTING, "")
        self.sent = SentMetrics(ExecutorMetrics.on(int(port)) if port.isdigit() else None, self.application)

    def listed(self) -> WorkerListing:
        """The executors that are alive; the driver counts only in local mode."""
        try:
            executors = self._listed_executors()
        except RestUnavailableError as error:
            return WorkerListing([], f"Spark's REST interface does not answer ({error})")
        at = time.time()
        working = [each for each in executors if each["isActive"] and (self.local or each["id"] != "driver")]
        return WorkerListing(
            [Sample("worker_active_tasks", each["id"], at, float(each["activeTasks"])) for each in working]
        )


def driver_pid(context: SparkContext) -> int:
    """The process of the driver's JVM."""
    jvm: Any = context._jvm  # noqa: SLF001 - the only way to the driver's own process
    return int(jvm.java.lang.ProcessHandle.current().pid())


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
            driver: Any = context._jsc  # noqa: SLF001 - the scheduler lives in the driver's JVM
            tracker = driver.sc().taskScheduler().healthTrackerOpt()
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
