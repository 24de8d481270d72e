"""What happens in sessions that somebody else starts: new sessions, and queries that start in one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

OnQuery = Callable[[str], object]


class QueryStarts:
    """Tells of every query that starts in a session, from a thread of Spark's, before its first batch.

    Implements Spark's Java interface itself: PySpark's own base class copies every progress, which costs time.
    """

    class Java:
        """Read by Py4J."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)

    def __init__(self, spark: Any, on_start: OnQuery) -> None:
        self._on_start = on_start
        context = spark.sparkContext
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as PySpark
        self._streams: Any = spark._jsparkSession.streams()  # noqa: SLF001
        wrapper = context._jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper  # noqa: SLF001
        self._in_java = wrapper(self)

    def add(self) -> None:
        """Listen from now on."""
        self._streams.addListener(self._in_java)

    def remove(self) -> None:
        """Listen no longer."""
        self._streams.removeListener(self._in_java)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - the names are Spark's
        """Tell of it."""
        self._on_start(str(event.id()))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""


def is_classic(spark: Any) -> bool:
    """Whether the driver's JVM can be reached: not over Spark Connect."""
    return hasattr(spark, "_jsparkSession")


@contextmanager
def prepared_sessions(settings: Mapping[str, str], on_session: Callable[[Any], object]) -> Iterator[None]:
    """Give the first session that is built in here these settings, unless they are set, and tell of every session.

    What a program, the command line of spark-submit or `spark-defaults.conf` sets goes before them.
    """
    builder: Any = SparkSession.Builder
    session: Any = SparkSession
    build, construct = builder.getOrCreate, session.__init__
    seen: set[int] = set()

    def get_or_create(self: Any) -> Any:
        if SparkContext._active_spark_context is None:  # noqa: SLF001 - PySpark has no other way to ask
            for name, value in _unset(settings, self._options).items():
                self.config(name, value)
        return build(self)

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        construct(self, *arguments, **options)
        number = int(self._jvm.java.lang.System.identityHashCode(self._jsparkSession))
        if number not in seen:
            seen.add(number)
            on_session(self)

    builder.getOrCreate, session.__init__ = get_or_create, init
    try:
        yield
    finally:
        builder.getOrCreate, session.__init__ = build, construct


def _unset(settings: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, str]:
    """The settings that neither the program nor what started Spark has set. Starts the driver's JVM."""
    if given.get("spark.remote") or os.environ.get("SPARK_REMOTE"):
        return {}
    conf = SparkConf()
    for name, value in given.items():
        conf.set(name, str(value))
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - as SparkContext does
    known = SparkConf()
    return {name: value for name, value in settings.items() if name not in given and not known.contains(name)}
