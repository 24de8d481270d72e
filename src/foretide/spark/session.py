"""Starting Spark the way Foretide needs it, and what an execution mode means to Spark: settings and triggers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import SparkSession

from foretide.durations import interval_text, parse_duration
from foretide.errors import EnvironmentNotReadyError
from foretide.spark.executors import QUARANTINE_SETTINGS
from foretide.topology.validate import MICRO_BATCH, ExecutionMode

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_OLDEST_JAVA = 17
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

ONCE = "once"
"""The trigger of a query that takes one batch and ends."""

MODE_SETTINGS: Mapping[str, Mapping[str, str]] = {
    MICRO_BATCH.name: {
        "spark.sql.adaptive.streaming.stateless.enabled": "false",  # adaptive execution would merge an edge's tasks
    }
}
"""Session settings that queries of a mode rely on."""

SETTINGS: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",  # a Python task costs a third of what it costs over TCP
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    **QUARANTINE_SETTINGS,
    **MODE_SETTINGS[MICRO_BATCH.name],
}
"""What `session` sets; its argument `settings` goes before them."""

_LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.python.daemon.module": "foretide.spark.python_daemon",  # prints no BrokenPipeError into the terminal
}
"""What it sets for local masters, too: executors elsewhere may have no Foretide, and have no terminal."""


def session(
    master: str = "local[*]", name: str = "foretide", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session ready for Foretide; `local-cluster[2,2,1024]` gives real executors on one machine."""
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(name)
    chosen = {**SETTINGS, **(_LOCAL_SETTINGS if local else {}), **(settings or {})}
    # level ERROR from the first line of Spark's log on
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    chosen[_JAVA_OPTIONS] = f"{quiet} {chosen.get(_JAVA_OPTIONS, '')}".strip()
    for key, value in chosen.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def apply_mode(spark: SparkSession, mode: ExecutionMode = MICRO_BATCH) -> None:
    """Set what queries of the mode rely on, where the session has it otherwise."""
    for name, value in MODE_SETTINGS[mode.name].items():
        if spark.conf.get(name, None) != value:
            spark.conf.set(name, value)


def with_trigger(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    """Give a query its trigger: an interval between batches, None to take what is there and end, or `once`."""
    if trigger is None:
        return writer.trigger(availableNow=True)
    if trigger == ONCE:
        return writer.trigger(once=True)
    return writer.trigger(processingTime=interval_text(parse_duration(trigger)))


def check_java() -> None:
    """Raise an error that says what to do unless a new enough Java is installed."""
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home) / "bin" / "java") if java_home else "java"
    if shutil.which(java) is None:
        raise EnvironmentNotReadyError(
            f"Java {_OLDEST_JAVA} or newer is needed and '{java}' was not found: install a JDK "
            "(Debian: apt install openjdk-17-jre-headless) or point JAVA_HOME at one."
        )
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    if (major := java_major(output)) < _OLDEST_JAVA:
        raise EnvironmentNotReadyError(
            f"Java {_OLDEST_JAVA} or newer is needed, but '{java}' is version {major or 'unknown'}: install a newer "
            "JDK (Debian: apt install openjdk-17-jre-headless) or point JAVA_HOME at one."
        )


def java_major(output: str) -> int:
    """The major version in the output of `java -version`, 0 when there is none.

    >>> java_major('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_major('java version "1.8.0_392"')
    8
    """
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found.group(1)) if found else 0
