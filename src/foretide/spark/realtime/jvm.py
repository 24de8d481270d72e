"""Expressions that reach into the JVM of the executor that evaluates them, in generated code.

An executor keeps what running tasks share in its system properties: the route of an edge as text, and counters as
arrays of atomic numbers. Spark's own expressions for calling Java (`StaticInvoke`, `Invoke`) read and change them for
each row, for some tens of nanoseconds. None of them is deterministic, or Spark would evaluate it once, at planning, as
it does on purpose with `file_text`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from foretide.errors import EnvironmentNotReadyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SYSTEM, _STRING, _OBJECT = "java.lang.System", "java.lang.String", "java.lang.Object"
COUNTERS = "java.util.concurrent.atomic.AtomicLongArray"
"""The class of the counters."""


class Jvm:
    """Makes such expressions in a session. Needs classic Spark: Spark Connect has no access to the JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        if not hasattr(spark, "_jvm"):
            raise EnvironmentNotReadyError("real-time mode needs classic Spark: Spark Connect cannot reach the JVM")

    def property_code(self, key: str, place: Column) -> Column:
        """The code of the character at a place of a system property; null without the property or the place."""
        length = self._column(self._invoke(self._property(key), "length", self._int))
        code = self._column(self._invoke(self._property(key), "codePointAt", self._int, place))
        return F.when(place < length, code)

    def property_text(self, key: str) -> Column:
        """A system property; null if it is not set."""
        return self._column(self._from_java(self._property(key)))

    def file_text(self, path: str) -> Column:
        """The text of a local file when Spark plans a batch, read in the driver; null if it cannot be read.

        Spark's optimizer evaluates what is deterministic, has constant arguments and returns a type of Spark's, such as
        bytes. So tasks see a literal.
        """
        path_class, files = "java.nio.file.Path", self._class("java.nio.file.Files")
        place = self._spark._jvm.java.nio.file.Paths.get(path, self._no_more_names)  # type: ignore[union-attr]  # noqa: SLF001
        literal = self._catalyst.expressions.Literal.fromObject(place, self._object(path_class))
        propagate_null, nullable, deterministic = True, True, True
        read = self._objects.StaticInvoke(
            files, self._type("BinaryType"), "readAllBytes", self._seq(literal), self._seq(),
            propagate_null, nullable, deterministic, self._spark._jvm.scala.Option.empty(),  # type: ignore[union-attr]  # noqa: SLF001
        )  # fmt: skip
        return self._column(self._catalyst.expressions.TryEval(read)).cast("string")

    def property_set(self, key: Column, value: Column) -> Column:
        """Set a system property and return what it was, null if it was not set."""
        before = self._static("setProperty", self._object(_STRING), self._text(key), self._text(value))
        return self._column(self._from_java(before))

    def nano_time(self) -> Column:
        """Nanoseconds of a clock that never jumps, of the executor's machine."""
        return self._column(self._static("nanoTime", self._long))

    def wall_clock(self) -> Column:
        """Microseconds since 1970 by the clock of the executor's machine, which may be set and jump."""
        now = self._call("java.time.Instant", "now", self._object("java.time.Instant"))
        micros = self._call("org.apache.spark.sql.catalyst.util.DateTimeUtils", "instantToMicros", self._long, now)
        return self._column(micros)

    def log10(self, value: Column) -> Column:
        """The decimal logarithm of a double, as fast as the processor has it: Spark's own is exact to the last bit."""
        return self._column(self._call("java.lang.Math", "log10", self._type("DoubleType"), self._expression(value)))

    def counter_set(self, key: str, index: Column, value: Column) -> Column:
        """Set a counter and return what it was; null where the executor has no such counters."""
        return self._counter(key, "getAndSet", index, value)

    def counter_add(self, key: str, index: Column, value: Column) -> Column:
        """Add to a counter and return what it is now; null where the executor has no such counters."""
        return self._counter(key, "addAndGet", index, value)

    def counter_get(self, key: str, index: Column) -> Column:
        """A counter; null where the executor has no such counters."""
        return self._counter(key, "get", index)

    def counters_text(self, key: Column) -> Column:
        """All counters of a key as text such as `[0, 17, 4]`; null where the executor has none."""
        found = self._invoke(self._properties, "get", self._object(_OBJECT), self._text(key))
        return self._column(self._from_java(self._invoke(found, "toString", self._object(_STRING))))

    def new_counters(self, key: Column, size: int | Column) -> Column:
        """Create counters, all 0, unless there are some; evaluates to false if there were."""
        expressions, java = self._catalyst.expressions, self._class(COUNTERS)
        made = expressions.objects.NewInstance(
            java,
            self._seq(self._expression(F.lit(size))),
            self._seq(),
            False,  # noqa: FBT003 - propagateNull
            self._object(COUNTERS),
            self._spark._jvm.scala.Option.empty(),  # type: ignore[union-attr]  # noqa: SLF001
        )
        put = self._invoke(self._properties, "putIfAbsent", self._object(_OBJECT), self._text(key), made)
        return self._column(put).isNull()

    # ---- expressions of Spark

    def _counter(self, key: str, method: str, index: Column, *values: Column) -> Column:
        counters = self._invoke(self._properties, "get", self._object(COUNTERS), self._literal(key))
        return self._column(self._invoke(counters, method, self._long, index.cast("int"), *values))

    @property
    def _properties(self) -> Any:
        return self._static("getProperties", self._object("java.util.Properties"))

    def _property(self, key: str) -> Any:
        return self._static("getProperty", self._object(_STRING), self._literal(key))

    def _static(self, method: str, kind: Any, *arguments: Any) -> Any:
        propagate_null, nullable, deterministic = True, True, False
        return self._objects.StaticInvoke(
            self._class(_SYSTEM), kind, method, self._seq(*arguments), self._seq(),
            propagate_null, nullable, deterministic, self._spark._jvm.scala.Option.empty(),  # type: ignore[union-attr]  # noqa: SLF001
        )  # fmt: skip

    def _call(self, name: str, method: str, kind: Any, *arguments: Any) -> Any:
        """A call of a static method of any class."""
        propagate_null, nullable, deterministic = True, True, False
        return self._objects.StaticInvoke(
            self._class(name), kind, method, self._seq(*arguments), self._seq(),
            propagate_null, nullable, deterministic, self._spark._jvm.scala.Option.empty(),  # type: ignore[union-attr]  # noqa: SLF001
        )  # fmt: skip

    def _invoke(self, target: Any, method: str, kind: Any, *arguments: Any) -> Any:
        given = [self._expression(each) if isinstance(each, Column) else each for each in arguments]
        propagate_null, nullable, deterministic = True, True, False
        return self._objects.Invoke(
            target, method, kind, self._seq(*given), self._seq(), propagate_null, nullable, deterministic
        )

    def _text(self, key: Column) -> Any:
        """A string of Spark as one of Java."""
        return self._invoke(self._expression(key.cast("string")), "toString", self._object(_STRING))

    def _from_java(self, text: Any) -> Any:
        """A string of Java as one of Spark."""
        utf8, kind = self._class("org.apache.spark.unsafe.types.UTF8String"), self._type("StringType")
        return self._objects.StaticInvoke(
            utf8, kind, "fromString", self._seq(text), self._seq(), True, True, False,  # noqa: FBT003
            self._spark._jvm.scala.Option.empty(),  # type: ignore[union-attr]  # noqa: SLF001
        )  # fmt: skip

    def _literal(self, key: str) -> Any:
        return self._catalyst.expressions.Literal.fromObject(key, self._object(_STRING))

    def _column(self, expression: Any) -> Column:
        return Column(self._sql.classic.ExpressionUtils.column(expression))

    def _expression(self, column: Column) -> Any:
        return self._sql.classic.ExpressionUtils.expression(column._jc)  # noqa: SLF001

    def _object(self, name: str) -> Any:
        return self._sql.types.ObjectType(self._class(name))

    def _type(self, name: str) -> Any:
        return self._class(f"org.apache.spark.sql.types.{name}$").getField("MODULE$").get(None)

    def _class(self, name: str) -> Any:
        return self._spark._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]  # noqa: SLF001

    def _seq(self, *parts: Any) -> Any:
        return self._spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(parts))  # type: ignore[union-attr]  # noqa: SLF001

    @property
    def _no_more_names(self) -> Any:
        """An empty array, for the rest of a call with any number of names."""
        context: Any = self._spark.sparkContext
        return context._gateway.new_array(context._jvm.java.lang.String, 0)  # noqa: SLF001

    @cached_property
    def _int(self) -> Any:
        return self._type("IntegerType")

    @cached_property
    def _long(self) -> Any:
        return self._type("LongType")

    @property
    def _sql(self) -> Any:
        return self._spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]  # noqa: SLF001

    @property
    def _catalyst(self) -> Any:
        return self._sql.catalyst

    @property
    def _objects(self) -> Any:
        return self._catalyst.expressions.objects
