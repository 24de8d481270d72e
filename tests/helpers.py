"""What tests of running pipelines share."""

from __future__ import annotations

import errno
import json
import os
import time
from collections import Counter

import pytest

from foretide.control_folder.filesystem import LocalFilesystem
from foretide.errors import ControlFolderError

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java for short runs on few cores: no compiler and no threads that collect garbage which pay off only in long ones."""

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Spark for many short queries: without checksum files, and with interpreted plans, as compiling takes longer here."""

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Plans as Spark compiles them outside of tests: their graphs look different."""


def wait_for(condition, pipeline=None, seconds=600):
    """Wait until something holds, and return it; fail with the query's own error when it dies first."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if pipeline is not None and not pipeline.query.isActive:
            pipeline.raise_failure()
            if found := condition():
                return found
            pytest.fail("the query ended before the condition held")
        if time.monotonic() > end:
            pytest.fail(f"did not hold within {seconds} s")
        time.sleep(0.05)
    return found


def rows_taken(pipeline):
    return sum(report.input_rows for report in list(pipeline.reports))


def work_off(pipeline, rows):
    """Let a pipeline take that many rows, commit them, and stop."""
    wait_for(lambda: rows_taken(pipeline) >= rows, pipeline)
    pipeline.stop()
    pipeline.raise_failure()


def take_the_rest(pipeline, spout, rows):
    """As `work_off`, with what is left in one large batch: what small batches were for has been seen."""
    pipeline.limit_admission(spout, rows)
    work_off(pipeline, rows)


def multiset(frame):
    return Counter(tuple(row) for row in frame.collect())


def environment():
    """Of processes that tests start: every Java in them, executors included, is a quick one."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", "JDK_JAVA_OPTIONS": QUICK_JAVA}


class FullDisk(LocalFilesystem):
    """A control folder on a disk that can be full, or read-only: nothing can be written or locked then."""

    error: str | None = None

    def write(self, name, text, *, durable=True):
        self._check()
        super().write(name, text, durable=durable)

    def lock(self, seconds=1.0):
        self._check()
        return super().lock(seconds)

    def _check(self):
        if self.error is not None:
            raise ControlFolderError(f"'{self._folder}' cannot be written: {self.error}")


NO_SPACE = os.strerror(errno.ENOSPC)
READ_ONLY = os.strerror(errno.EROFS)


def send_records(broker, topic, values):
    """Write values to a topic, as JSON unless they are bytes, and wait until the broker has them."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value if isinstance(value, bytes) else json.dumps(value).encode())
    assert producer.flush(60) == 0
