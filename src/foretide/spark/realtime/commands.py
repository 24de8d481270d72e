"""What is asked of each executor's JVM while tasks run, as text, and the native expression that carries it out.

A command sets system properties, creates counters and reads counters, any number of each. The task that evaluates it
changes the JVM of its own executor and answers with the executor's id.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from pyspark.sql import functions as F

from foretide.spark.realtime.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_COMMAND = "application string, id string, set map<string, string>, create map<string, int>, read array<string>"


@dataclass(frozen=True)
class Command:
    """Properties to set, counters to create with their sizes, and counters to read."""

    properties: Mapping[str, str] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    read: Collection[str] = ()

    def text(self, application: str, name: str) -> str:
        """The command as JSON. Executors of other applications pass it over."""
        parts = {"set": dict(self.properties), "create": dict(self.counters), "read": list(self.read)}
        return json.dumps({"application": application, "id": name, **parts})


@dataclass(frozen=True)
class Answer:
    """What an executor answered. `read` has the counters that it has, as text such as `[0, 17, 4]`."""

    id: str
    executor: str
    partition: int
    read: Mapping[str, str]

    @classmethod
    def of(cls, text: str | bytes) -> Self:
        """From the JSON that `answer_of` makes."""
        found = json.loads(text)
        read = {each["key"]: each["text"] for each in found["read"] if "text" in each}
        return cls(found["id"], found["executor"], found["partition"], read)


def answer_of(spark: SparkSession, text: Column, partition: Column) -> Column:
    """Carry out a command and answer it; null for a command of another application, or a text that is none."""
    jvm = Jvm(spark)
    command = F.from_json(text, _COMMAND)
    new = F.transform(F.map_entries(command["set"]), lambda each: jvm.property_set(each["key"], each["value"]).isNull())
    made = F.transform(F.map_entries(command["create"]), lambda each: jvm.new_counters(each["key"], each["value"]))
    read = F.transform(command["read"], lambda key: F.struct(key.alias("key"), jvm.counters_text(key).alias("text")))
    executor = F.regexp_extract(jvm.property_text("sun.java.command"), r"--executor-id (\S+)", 1)
    done = {"id": command["id"], "executor": executor, "partition": partition, "new": new, "made": made, "read": read}
    answer = F.to_json(F.struct(*(value.alias(name) for name, value in done.items())))
    return F.when(command["application"] == spark.sparkContext.applicationId, answer)
