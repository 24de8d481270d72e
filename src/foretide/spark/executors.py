"""The executors of an application: listing them, excluding one from scheduling, and changing their number.

Quarantine goes through Spark's own list of excluded executors. Every offer of a free core is checked against it, so
from then on no task goes to an executor on it; stateful partitions are loaded elsewhere from the checkpoint by Spark
itself. Tasks that run there already can be copied to other executors (`running_tasks`). The list is internal to Spark.
Where it cannot be reached, a bad executor is killed and another one asked for: the same end, at the price of a start.
Both, and the number of executors, need a cluster manager and the driver's JVM; `limits` says what is not possible and
why.
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
from foretide.spark.running_tasks import TaskCopies, TasksUnavailableError

if TYPE_CHECKING:
    from pyspark import SparkContext


QUARANTINE_SETTINGS: Mapping[str, str] = {
    "spark.excludeOnFailure.application.enabled": "true",  # makes the list; plain `enabled` would kill executors too
    "spark.excludeOnFailure.taskAndStage.enabled": "false",
    "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "2147483647",
    "spark.locality.wait": "100ms",  # or tasks with state wait 3 s for the executor that is not to be used
    "spark.executor.heartbeatInterval": "2s",  # how old the rows are that a running task is known to have read
    "spark.executor.heartbeat.maxFailures": "300",  # ten minutes, as with Spark's own interval
}
"""What a session needs for quarantine; `foretide.session` sets them."""

_FOR_EVER = 2**63 - 1
_TRIES = 3
_LEAVING_SECONDS = 60.0
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

    Attributes:
        changed: When one was taken out or let in last, in seconds since 1970; 0 before that.
    """

    def __init__(self, context: SparkContext) -> None:
        super().__init__(context)
        self._hosts: dict[str, str] = {}
        self.limits: list[str] = []
        self._cores: int | None = None
        self.changed = 0.0
        self._list = None if self.local else self._exclusions()
        self._copies: TaskCopies | None = None
        if self._list is not None:
            self._copies = self._list.locked = self._copier()
        self.can_resize = not self.local and self._is_ours()
        self._least, self._seen = 1, 0
        self._most: int | None = None
        self._leaving: dict[str, float] = {}
        self._removed: set[str] = set()
        if self.local:
            self.limits.append("in local mode no executor can be taken out or asked for")

    def allow(self, least: int, most: int | None = None) -> None:
        """Keep between `least` and `most` executors; None for as many as there have been at one time."""
        self._least, self._most = least, most

    @property
    def allowed(self) -> tuple[int, int]:
        """The fewest and the most that may be asked for. Executors that are still starting count once they run."""
        return self._least, self._most or max(self._seen, self._least)

    @property
    def range(self) -> tuple[int, int] | None:
        """The same, or None where their number cannot be changed."""
        return self.allowed if self.can_resize and self.allowed[1] > 1 else None

    def _exclusions(self) -> ExclusionList | None:
        try:
            return ExclusionList.of(self._context)
        except QuarantineUnavailableError as error:
            instead = "bad executors are killed and replaced instead" if self._is_ours() else "none can be taken out"
            self.limits.append(f"no quarantine: {error}; {instead}")
            return None

    def _copier(self) -> TaskCopies | None:
        try:
            return TaskCopies.of(self._context)
        except TasksUnavailableError as error:
            self.limits.append(f"{error}; a slow executor keeps the tasks that it runs when it is taken out")
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

    @property
    def can_exclude(self) -> bool:
        """Whether an executor can be taken out while it runs tasks, without losing what it has done."""
        return self._list is not None

    # ---- what is in force

    def executors(self) -> dict[str, str]:
        """The live executors and the host of each."""
        if self.local:
            return {"driver": socket.gethostname()}
        listed = self._driver.getExecutorIds().mkString("\n")
        ids = listed.split("\n") if listed else []
        self._seen = max(self._seen, len(ids))
        if any(executor not in self._hosts for executor in ids):
            self._hosts |= self._listed_hosts()
        return {executor: self._hosts.get(executor, "unknown") for executor in sorted(ids)}

    def quarantined(self) -> frozenset[str]:
        """The executors that get no tasks, other than those that are about to be given back."""
        return frozenset() if self._list is None else self._list.executors() - frozenset(self._leaving)

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
        self.changed = time.time()

    def copy_tasks(self, executor: str, run_id: str, *, results: bool) -> int:
        """Start a copy elsewhere of each task of a query that runs on an executor only; returns how many.

        `results` says whether that may be done with tasks that write to the sink.
        """
        if self._copies is None:
            return 0
        live, out = self.executors(), self.quarantined()
        hosts = {host for other, host in live.items() if other not in out and other != executor}
        if not hosts:
            return 0
        return self._copies.copy(run_id, executor, results=results, same_host=hosts == {live.get(executor)})

    def let_in(self, executor: str) -> None:
        """Give an executor tasks again."""
        if self._list is not None:
            self._list.release(executor)
            self.changed = time.time()

    def resize(self, count: int) -> None:
        """Have `count` executors: ask for more, or give back quarantined ones first, then the newest.

        One that is given back gets no more tasks, and is removed by `remove_idle`: a batch that is running may still
        read what its tasks have written there. Without the exclusion list it is killed at once, and Spark repeats what
        is lost.
        """
        if not self.can_resize:
            raise ActionError(f"the number of executors cannot be changed: {'; '.join(self.limits)}")
        live, out = self.executors(), self.quarantined()
        surplus = sorted(live, key=lambda executor: (executor not in out, -int(executor)))[: max(len(live) - count, 0)]
        if self._list is None and surplus:
            self._kill(surplus)
        elif self._list is not None:
            self._give_back(surplus, live, self._list)
        self._ask_for(count)
        self.remove_idle(frozenset(live), 0.0)

    def _give_back(self, surplus: list[str], live: Mapping[str, str], exclusions: ExclusionList) -> None:
        """Have exactly these executors leave."""
        for executor in set(self._leaving) - set(surplus):
            exclusions.release(executor)
        now = time.time()
        self._leaving = {executor: self._leaving.get(executor, now) for executor in surplus}
        for executor in surplus:
            exclusions.put(executor, live[executor])

    def remove_idle(self, busy: frozenset[str], until: float) -> None:
        """Remove executors that are given back: after a batch without them, while nothing runs, or after a minute.

        Args:
            busy: The executors that ran tasks in the last batch.
            until: The time at which that batch ended. If an executor is given back later, the next batch counts.
        """
        if not self._leaving:
            return
        live, now, calm = self.executors(), time.time(), self._runs_nothing()
        self._leaving = {executor: since for executor, since in self._leaving.items() if executor in live}
        self._removed &= set(live)  # Spark takes its time, and refuses to remove an executor twice
        idle = [
            executor
            for executor, since in self._leaving.items()
            if calm or (executor not in busy and since < until) or now - since > _LEAVING_SECONDS
            if executor not in self._removed
        ]
        if idle:
            self._removed.update(idle)
            self._kill(idle)
            self._ask_for(len(live) - len(self._leaving))

    def _runs_nothing(self) -> bool:
        return not self._context.statusTracker().getActiveStageIds()

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
    """The executors that get no tasks. Made by `of`, which probes whether the list can be reached.

    Without `locked`, which has the scheduler's lock, its map may not take a change: it is not made for other threads.
    """

    locked: TaskCopies | None = None

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
        for _ in range(_TRIES):
            if self._excluded.contains(executor):
                return
            if self.locked is not None:
                self.locked.exclude(self._excluded, executor, self._entry(host))
            else:
                self._excluded.put(executor, self._entry(host))
        if not self._excluded.contains(executor):
            raise ActionError(f"Spark did not take executor {executor} onto its exclusion list")

    def release(self, executor: str) -> None:
        """Send tasks there again."""
        for _ in range(_TRIES):
            if not self._excluded.contains(executor):
                return
            if self.locked is not None:
                self.locked.exclude(self._excluded, executor, None)
            else:
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
