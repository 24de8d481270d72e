"""Reaches executors by a job: one task for each, placed there by its preferred location. Needs a free slot on each."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from foretide.spark.realtime.agent import Agent, Reply
from foretide.spark.realtime.commands import Answer, Command, answer_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_POLL_SECONDS = 0.05
_CANCEL_SECONDS = 1.0
_TRIES = 3
_AVOID_SECONDS = 10.0


@dataclass(frozen=True)
class _Executor:
    host: str
    slots: int
    tasks: int

    @property
    def is_free(self) -> bool:
        return self.tasks < self.slots


class JobAgent(Agent):
    """Runs a small job for each command. A job that finds no free slot in time is cancelled."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self._spark = spark
        self._avoid: dict[str, float] = {}
        self._hosts: dict[str, str] = {}

    def executors(self) -> Mapping[str, str]:
        """The live executors and the host of each."""
        try:
            listed = self._driver.getExecutorIds().mkString("\n")
            ids = listed.split("\n") if listed else []
            if any(executor not in self._hosts for executor in ids):
                self._hosts |= {executor: each.host for executor, each in self._listed().items()}
        except Py4JError:  # the session is being stopped
            ids = []
        return {executor: self._hosts.get(executor, "unknown") for executor in sorted(ids)}

    def unused(self) -> frozenset[str]:
        """The executors that run no task and were given none by the last jobs."""
        try:
            listed = self._listed() if self._avoid else {}
        except Py4JError:
            listed = {}
        return frozenset(name for name, each in listed.items() if each.tasks == 0 and name in self._avoid)

    def run(self, command: Command, timeout: float, only: Collection[str] | None = None) -> Mapping[str, Reply]:
        """Have every executor, or only some, carry out a command."""
        began, reason = time.monotonic(), "has no free slot; keep one on each"
        replies: dict[str, Reply] = {}
        elsewhere: Counter[str] = Counter()
        text = command.text(self._spark.sparkContext.applicationId, uuid.uuid4().hex)
        while missing := self._wanted(only) - replies.keys():
            left = began + timeout - time.monotonic()
            if left <= 0:
                break
            try:
                free = {name: each.host for name, each in self._listed().items() if name in missing and each.is_free}
                for answer in self._job(text, free, left) if free else []:
                    replies.setdefault(answer.executor, Reply(time.monotonic() - began, answer.read))
                elsewhere.update(free.keys() - replies.keys())
                self._note_avoided(replies, {name for name, times in elsewhere.items() if times >= _TRIES})
            except (Py4JError, PySparkException) as error:
                reason = f"ran no task in time ({type(error).__name__})"
            if not missing & replies.keys():
                time.sleep(_POLL_SECONDS)
        if avoided := self._avoid.keys() & (self.executors().keys() if only is None else only) - replies.keys():
            missing, reason = missing | avoided, "gets no tasks, as in quarantine"
        names = ", ".join(sorted(missing))
        self.problem = f"executor {names} was not reached by a job: it {reason}" if missing else None
        return replies

    def _note_avoided(self, replies: Collection[str], elsewhere: Collection[str]) -> None:
        """Note the executors whose tasks Spark has run elsewhere; other threads may be reading what was noted."""
        known = {**self._avoid, **dict.fromkeys(elsewhere, time.monotonic())}
        self._avoid = {name: since for name, since in known.items() if name not in replies}

    def _wanted(self, only: Collection[str] | None) -> set[str]:
        """The live executors, or only some of them, without those that Spark gave no task to just now."""
        avoided = {name for name, since in self._avoid.items() if time.monotonic() < since + _AVOID_SECONDS}
        live = set(self.executors()) - avoided
        return live if only is None else live & set(only)

    def _job(self, text: str, hosts: Mapping[str, str], timeout: float) -> list[Answer]:
        jvm: Any = self._spark._jvm  # noqa: SLF001 - the way to the scheduler
        places = [
            jvm.scala.Tuple2(text, self._seq([f"executor_{host}_{executor}"])) for executor, host in hosts.items()
        ]
        strings = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.String"))
        rows = self._driver.makeRDD(self._seq(places), strings)
        session: Any = self._spark._jsparkSession  # noqa: SLF001
        frame = DataFrame(session.createDataset(rows, jvm.org.apache.spark.sql.Encoders.STRING()).toDF(), self._spark)
        with _Cancelling(self._spark, timeout):
            return [Answer.of(row.answer) for row in frame.select(self._answer).collect()]

    @cached_property
    def _answer(self) -> Column:
        return answer_of(self._spark, F.col("value"), F.spark_partition_id()).alias("answer")

    def _listed(self) -> dict[str, _Executor]:
        """The executors that run tasks, with their free slots. Spark updates them ten times a second."""
        found, each = {}, self._driver.statusStore().executorList(True).iterator()  # noqa: FBT003 - only active ones
        while each.hasNext():
            executor = each.next()
            if executor.totalCores() > 0:
                host = executor.hostPort().rsplit(":", 1)[0]
                found[executor.id()] = _Executor(host, executor.totalCores(), executor.activeTasks())
        return found

    def _seq(self, parts: list[Any]) -> Any:
        jvm: Any = self._spark._jvm  # noqa: SLF001
        return jvm.org.apache.spark.api.python.PythonUtils.toSeq(parts)

    @property
    def _driver(self) -> Any:
        driver: Any = self._spark.sparkContext._jsc  # noqa: SLF001 - the scheduler lives in the driver's JVM
        return driver.sc()


class _Cancelling:
    """Cancels the jobs that this thread starts within it and that have not ended after a timeout."""

    def __init__(self, spark: SparkSession, timeout: float) -> None:
        self._context, self._timeout = spark.sparkContext, timeout
        self._tag, self._done = f"foretide-{uuid.uuid4().hex}", threading.Event()

    def __enter__(self) -> None:
        self._context.addJobTag(self._tag)
        threading.Thread(target=self._watch, name="foretide-agent-timeout", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._context.removeJobTag(self._tag)

    def _watch(self) -> None:
        wait = self._timeout
        while not self._done.wait(wait):  # again, in case the job was submitted since
            self._context.cancelJobsWithTag(self._tag)
            wait = _CANCEL_SECONDS
