"""Sends commands to executors through a Kafka topic that a second real-time query reads, for milliseconds.

Each task of that query carries out the commands of its partition in the JVM of its own executor, and answers on a
second topic. Every command goes to all partitions, and an executor counts as reached once all its partitions have
answered: then no older command can still be on its way to it.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from foretide.secrets import HIDDEN
from foretide.spark.jars import KAFKA_CONNECTOR, add_library
from foretide.spark.kafka_options import client_options, security_options
from foretide.spark.realtime.agent import Agent, Reply
from foretide.spark.realtime.commands import Answer, Command, answer_of
from foretide.spark.realtime.push_job import JobAgent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_BATCH = "300 seconds"
_LEAST_PARTITIONS = 4
_PARTITIONS_PER_EXECUTOR = 2
_ADMIN_SECONDS = 20.0
_RESEND_SECONDS = 1.0
_RESTART_SECONDS = 60.0
_PAUSE_SECONDS = 10.0
_TOPIC_CONFIG = {"retention.ms": "600000", "segment.ms": "600000", "segment.bytes": "16777216"}
_QUIET = {"log_level": 0}


def control_slots(executors: int) -> int:
    """The slots that the control query takes."""
    return max(_LEAST_PARTITIONS, _PARTITIONS_PER_EXECUTOR * executors)


class ControlTopic:
    """The driver's side: a producer of commands, and a thread that collects answers."""

    def __init__(self, key: str, servers: str, options: Mapping[str, str], partitions: int) -> None:
        name = re.sub(r"[^\w.-]", "_", key, flags=re.ASCII)
        self.commands, self.answers = f"foretide-control-{name}", f"foretide-acks-{name}"
        self.partitions = partitions
        self._settings: dict[str, Any] = {"bootstrap.servers": servers, **_QUIET, **client_options(options)[0]}
        self._waiting: dict[str, dict[int, tuple[float, Answer]]] = {}
        self._changed, self._closed = threading.Condition(), threading.Event()
        self._producer: Any = None
        self._collector: threading.Thread | None = None

    def open(self) -> None:
        """Create the topics where they are missing, and connect."""
        from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition  # noqa: PLC0415 - optional

        self._create_topics()
        reader = {"group.id": self.answers, "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        consumer = Consumer({**self._settings, **reader})
        consumer.assign([TopicPartition(self.answers, 0, OFFSET_END)])
        writer = {"linger.ms": 0, "acks": 1, "max.in.flight": 1, "message.timeout.ms": 5000}  # in order, never late
        self._producer = Producer({**self._settings, **writer})
        self._collector = threading.Thread(
            target=self._collect, args=(consumer,), name="foretide-agent-answers", daemon=True
        )
        self._collector.start()

    def close(self) -> None:
        """Disconnect. The topics stay."""
        self._closed.set()
        if self._collector is not None:
            self._collector.join(_ADMIN_SECONDS)

    def ask(
        self, name: str, text: str, timeout: float, alive: Callable[[], bool]
    ) -> Mapping[int, tuple[float, Answer]]:
        """Send a command to all partitions; the answers by partition, with the seconds that each took.

        Where none comes it is sent again, for the query may have started later: commands may be carried out twice.
        """
        began, answers = time.monotonic(), dict[int, tuple[float, Answer]]()
        end, again = began + timeout, began
        with self._changed:
            self._waiting[name] = answers
        try:
            while (now := time.monotonic()) < end:
                if now >= again:
                    if now > began and not alive():
                        break
                    self._send(text, [each for each in range(self.partitions) if each not in answers])
                    again = now + _RESEND_SECONDS
                with self._changed:
                    if self._changed.wait_for(lambda: len(answers) == self.partitions, min(end, again) - now):
                        break
        finally:
            with self._changed:
                del self._waiting[name]
        return {partition: (at - began, answer) for partition, (at, answer) in answers.items()}

    def _send(self, text: str, partitions: list[int]) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an optional dependency

        for partition in partitions:
            with suppress(BufferError, KafkaException):  # the brokers have been away for long: it is sent again
                self._producer.produce(self.commands, text.encode(), partition=partition)
        self._producer.poll(0)

    def _collect(self, consumer: Any) -> None:
        while not self._closed.is_set():
            try:
                message = consumer.poll(0.2)
            except Exception:  # noqa: BLE001 - whatever the client says, the next answer may come
                self._closed.wait(1.0)
                continue
            if message is None or message.error():
                continue
            try:
                answer = Answer.of(message.value())
            except (ValueError, KeyError, TypeError):  # not from our query
                continue
            with self._changed:
                if answer.id in self._waiting:
                    self._waiting[answer.id].setdefault(answer.partition, (time.monotonic(), answer))
                    self._changed.notify_all()
        consumer.close()

    def _create_topics(self) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an optional dependency
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415
        from confluent_kafka.cimpl import NewPartitions, NewTopic  # noqa: PLC0415

        admin = AdminClient(self._settings)
        found = admin.list_topics(timeout=_ADMIN_SECONDS).topics
        wanted = {self.commands: self.partitions, self.answers: 1}
        new = [NewTopic(name, count, -1, config=_TOPIC_CONFIG) for name, count in wanted.items() if name not in found]
        created = admin.create_topics(new) if new else {}
        if self.commands in found and len(found[self.commands].partitions) < self.partitions:
            created |= admin.create_partitions([NewPartitions(self.commands, self.partitions)])
        for done in created.values():
            try:
                done.result(_ADMIN_SECONDS)
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise


class ControlTopicAgent(Agent):
    """Reaches executors through a control topic, and by jobs those that do not answer there.

    A control query that ended is started again in the background when it is needed next.
    """

    def __init__(self, spark: SparkSession, key: str, servers: str, options: Mapping[str, str], folder: str) -> None:
        super().__init__()
        self._spark, self._key, self._servers, self._folder = spark, key, servers, folder
        self._options = security_options(options)
        self._job = JobAgent(spark)
        self._topic: ControlTopic | None = None
        self._query: StreamingQuery | None = None
        self._checkpoint: str | None = None
        self._ready, self._closed, self._not_before = False, False, 0.0
        self._placed: dict[int, str] = {}
        self._starting = threading.Lock()

    def executors(self) -> Mapping[str, str]:
        """The live executors and the host of each."""
        return self._job.executors()

    def start(self, timeout: float = _RESTART_SECONDS) -> None:
        """Start the control query, and wait until each of its tasks has answered."""
        with self._starting:
            try:
                self._start(timeout)
            except Exception as error:  # noqa: BLE001 - whatever Kafka or Spark say, jobs are the other way
                self.problem = f"no control query, executors are reached by jobs: {self._reason(error)}"
            self._not_before = time.monotonic() + _PAUSE_SECONDS

    def close(self) -> None:
        """Stop the control query and disconnect."""
        self._closed = True
        with self._starting:
            self._ready = False
            self._stop_query()
            if self._topic is not None:
                self._topic.close()
                self._topic = None

    def unused(self) -> frozenset[str]:
        """The executors that run no task and are given none."""
        return self._job.unused()

    def run(self, command: Command, timeout: float) -> Mapping[str, Reply]:
        """Have every executor carry out a command."""
        began, replies, problem = time.monotonic(), dict[str, Reply](), self.problem
        if self._ready:
            replies, problem = self._by_topic(command, timeout / 2), None
        if not self._ready:
            self._start_again()
        missing = self.executors().keys() - replies.keys()
        if missing:
            passed = time.monotonic() - began
            by_job = self._job.run(command, timeout - passed, missing)
            replies |= {executor: Reply(passed + reply.seconds, reply.read) for executor, reply in by_job.items()}
            problem = self._job.problem or problem
        if self._ready:
            self.problem = problem
        return replies

    def _by_topic(self, command: Command, timeout: float) -> dict[str, Reply]:
        topic = self._topic
        if topic is None:
            return {}
        name = uuid.uuid4().hex
        text = command.text(self._spark.sparkContext.applicationId, name)
        answers = topic.ask(name, text, timeout, self._is_active)
        self._placed |= {partition: answer.executor for partition, (_, answer) in answers.items()}
        silent = {self._placed.get(partition) for partition in range(topic.partitions) if partition not in answers}
        if silent:
            self._ready = self._is_active()
        replies: dict[str, Reply] = {}
        for seconds, answer in sorted(answers.values(), key=lambda each: each[0]):
            if answer.executor not in silent:
                replies[answer.executor] = Reply(seconds, answer.read)
        return replies

    # ---- the control query

    def _start_again(self) -> None:
        """Start the query in the background, unless somebody does or it was tried just now."""
        if self._closed or self._starting.locked() or time.monotonic() < self._not_before:
            return
        self.problem = "the control query has ended and is started again; executors are reached by jobs meanwhile"
        threading.Thread(target=self.start, name="foretide-agent-start", daemon=True).start()

    def _start(self, timeout: float) -> None:
        if self._closed or self._ready:
            return
        if self._topic is None:
            topic = ControlTopic(self._key, self._servers, self._options, control_slots(len(self.executors())))
            topic.open()
            self._topic = topic
        if not self._is_active():
            self._stop_query()
            self._query, self._placed = self._start_query(self._topic), {}
        self._by_topic(Command(), timeout)
        answered = len(self._placed) == self._topic.partitions
        self._ready, self.problem = answered, None
        if not answered:
            error = None if self._query is None else self._query.exception()
            reason = f"no answer within {timeout:g} s" if error is None else self._reason(error)
            self.problem = f"the control query does not answer, executors are reached by jobs: {reason}"

    def _start_query(self, topic: ControlTopic) -> StreamingQuery:
        spark = self._spark
        add_library(spark, KAFKA_CONNECTOR)
        self._checkpoint = f"{self._folder}/{uuid.uuid4().hex}"
        places = f'{{"{topic.commands}": {list(range(topic.partitions))}}}'
        records = (
            spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._servers)
            .option("assign", places).option("startingOffsets", "latest").option("failOnDataLoss", value=False)
            .options(**self._options).load()
        )  # fmt: skip
        answer = answer_of(spark, F.col("value").cast("string"), F.col("partition"))
        writer: Any = records.select(answer.alias("value")).where("value is not null").writeStream.format("kafka")
        query: StreamingQuery = (
            writer.option("kafka.bootstrap.servers", self._servers).option("topic", topic.answers)
            .options(**self._options).option("checkpointLocation", self._checkpoint)
            .queryName(f"foretide-agent-{self._key}").outputMode("update").trigger(realTime=_BATCH).start()
        )  # fmt: skip
        return query

    def _stop_query(self) -> None:
        with suppress(Exception):  # of a session that is gone
            if self._query is not None:
                self._query.stop()
            if self._checkpoint is not None:
                jvm: Any = self._spark._jvm  # noqa: SLF001 - Spark's own file systems
                path = jvm.org.apache.hadoop.fs.Path(self._checkpoint)
                path.getFileSystem(self._spark._jsc.hadoopConfiguration()).delete(path, True)  # noqa: SLF001, FBT003
        self._query = self._checkpoint = None

    def _is_active(self) -> bool:
        try:
            return self._query is not None and self._query.isActive
        except Exception:  # noqa: BLE001 - the session is gone
            return False

    def _reason(self, error: Exception) -> str:
        """The first line of an error without values of options; options that librdkafka lacks are the usual cause."""
        text = next(iter(str(error).splitlines()), "") or type(error).__name__
        known, unknown = client_options(self._options)
        for value in (*self._options.values(), *known.values()):
            text = text.replace(value, HIDDEN) if value else text
        return f"{text[:300]}{'; no setting of librdkafka for ' + ', '.join(unknown) if unknown else ''}"
