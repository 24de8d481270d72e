"""Reaches the JVM of every executor while tasks run: sets properties (routes), creates counters, reads counters.

There are three ways: direct calls where the driver is the executor, a control topic that a second real-time query reads
(milliseconds), and a job with a task for each executor (where there is no broker, or no answer).
"""

from __future__ import annotations

import importlib.util
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from foretide.spark.realtime.commands import Command
from foretide.spark.realtime.jvm import COUNTERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "driver"
"""The id of the one executor of a local master."""

TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class Acknowledged:
    """Which executors have carried out a command, and the seconds until each answered.

    `missing` have not answered. Executors that run no task and are given none, as in quarantine, are not among them.
    """

    executors: Mapping[str, float]
    missing: frozenset[str]

    @property
    def by_all(self) -> bool:
        """Whether it is in force everywhere."""
        return not self.missing


@dataclass(frozen=True)
class Reply:
    """An executor's answer: the seconds it took, and the counters that were asked for as text."""

    seconds: float
    read: Mapping[str, str] = field(default_factory=dict)


class Agent(ABC):
    """A way to the executors. Any thread may call it. Executors that do not answer in time are reported, not raised.

    One that could not be reached gets the properties that it has missed when it answers again.

    Attributes:
        problem: What is wrong with the way, or None.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._properties: dict[str, str] = {}
        self._behind: frozenset[str] = frozenset()
        self._setting = threading.Lock()

    def start(self, timeout: float = 60.0) -> None:
        """Get ready: returns once every executor has answered, or after the timeout, with `problem` set."""
        self.run(Command(), timeout)

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Give back what it holds."""

    @abstractmethod
    def executors(self) -> Mapping[str, str]:
        """The live executors and the host of each."""

    @abstractmethod
    def run(self, command: Command, timeout: float) -> Mapping[str, Reply]:
        """Have every executor carry out a command; the replies that came in time."""

    def unused(self) -> frozenset[str]:
        """The executors that run no task and are given none, as in quarantine."""
        return frozenset()

    def set_properties(self, values: Mapping[str, str], timeout: float = TIMEOUT_SECONDS) -> Acknowledged:
        """Set system properties in every executor's JVM, one change after the other."""
        with self._setting:
            self._properties |= values
            replies = self.run(Command(properties=self._properties), timeout)
            self._behind = frozenset(self.executors()) - replies.keys()
            return self._acknowledged(replies)

    def create_counters(self, sizes: Mapping[str, int], timeout: float = TIMEOUT_SECONDS) -> Acknowledged:
        """Create counters in every executor's JVM, all 0, where there are none under that key."""
        return self._acknowledged(self.run(Command(counters=sizes), timeout))

    def read_counters(self, keys: Collection[str], timeout: float = TIMEOUT_SECONDS) -> Mapping[str, Mapping[str, str]]:
        """By executor, the counters of each key that it has, as text such as `[0, 17, 4]`."""
        replies = self.run(Command(read=keys), timeout)
        if self._behind & replies.keys() and not self._setting.locked():
            self.set_properties({}, timeout)
        return {executor: reply.read for executor, reply in replies.items()}

    def _acknowledged(self, replies: Mapping[str, Reply]) -> Acknowledged:
        missing = frozenset(self.executors()) - replies.keys()
        seconds = {executor: reply.seconds for executor, reply in replies.items()}
        return Acknowledged(seconds, missing - self.unused() if missing else missing)


class LocalAgent(Agent):
    """Direct calls, where the driver's JVM is the only executor."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self._jvm: Any = spark._jvm  # noqa: SLF001 - the way to the JVM
        self._host = socket.gethostname()

    def executors(self) -> Mapping[str, str]:
        """The driver."""
        return {DRIVER: self._host}

    def run(self, command: Command, timeout: float) -> Mapping[str, Reply]:  # noqa: ARG002 - it takes no time
        """Carry out a command in the driver's JVM."""
        began = time.monotonic()
        properties = self._jvm.java.lang.System.getProperties()
        for name, value in command.properties.items():
            properties.setProperty(name, value)
        for key, size in command.counters.items():
            properties.putIfAbsent(key, getattr(self._jvm, COUNTERS)(size))
        found = {key: properties.get(key) for key in command.read}
        read = {key: str(counters.toString()) for key, counters in found.items() if counters is not None}
        return {DRIVER: Reply(time.monotonic() - began, read)}


def open_agent(spark: SparkSession, key: str, servers: str | None, options: Mapping[str, str], folder: str) -> Agent:
    """The best way to the executors of a session; call `start` before it is needed.

    Args:
        spark: A session with the settings of real-time mode.
        key: Tells the queries of an application apart; the topics are called after it.
        servers: Addresses of Kafka brokers, or None to do without.
        options: Options of the Kafka source; those about security are used, and never shown.
        folder: Where the checkpoint of the control query may be.
    """
    from foretide.spark.realtime.control_topic import ControlTopicAgent  # noqa: PLC0415 - builds on this module
    from foretide.spark.realtime.push_job import JobAgent  # noqa: PLC0415

    if is_local(spark):
        return LocalAgent(spark)
    if not servers:
        return JobAgent(spark)
    if importlib.util.find_spec("confluent_kafka") is None:
        agent = JobAgent(spark)
        agent.problem = "executors are reached by jobs: for a control topic install the extra 'kafka'"
        return agent
    return ControlTopicAgent(spark, key, servers, options, folder)


def is_local(spark: SparkSession) -> bool:
    """Whether the driver's JVM is the only executor."""
    master = spark.sparkContext.master or ""
    return master.startswith("local") and not master.startswith("local-cluster")
