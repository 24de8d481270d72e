"""Java libraries that PySpark does not bring: the Kafka connector, and a Kafka broker for development and tests.

They are resolved once, by Spark itself through Ivy, in a process of its own, and cached. Ivy's own settings
(`spark.jars.ivySettings`, a mirror, a proxy) apply as everywhere in Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock
from platformdirs import user_cache_path

from foretide.errors import EnvironmentNotReadyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RESOLVE_SECONDS = 600.0
_DONE = "resolved.json"


@dataclass(frozen=True)
class Library:
    """Coordinates in Maven's repositories. `transitive` takes what they depend on, too."""

    name: str
    coordinates: tuple[str, ...]
    transitive: bool = False


KAFKA_CONNECTOR = Library(
    "kafka-connector",
    (  # the connector of Spark 4.2 serves Spark 4.3, real-time mode included
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
)
KAFKA_BROKER = Library("kafka-broker", ("org.apache.kafka:kafka_2.13:4.1.0",), transitive=True)


def jars_of(library: Library, cache: Path | None = None) -> list[Path]:
    """The jar files of a library; they are downloaded when they are not in the cache.

    Raises:
        EnvironmentNotReadyError: They cannot be had.
    """
    folder = (cache or cache_folder()) / library.name
    found = _cached(folder, library)
    if found is not None:
        return found
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):  # of several processes one downloads
        found = _cached(folder, library)
        return _download(folder, library) if found is None else found


def cached_jars(library: Library) -> list[Path] | None:
    """The jar files of a library that was downloaded; None if it was not."""
    return _cached(cache_folder() / library.name, library)


def cache_folder() -> Path:
    """Where jars are cached: `FORETIDE_JARS`, or the user's folder for caches."""
    return Path(os.environ.get("FORETIDE_JARS") or user_cache_path("foretide") / "jars")


def add_library(spark: SparkSession, library: Library) -> None:
    """Make a library known to a running session and its executors."""
    known = {Path(name).name for name in spark.sparkContext._jsc.sc().listJars().mkString("\n").split("\n")}  # noqa: SLF001
    for jar in jars_of(library):
        if jar.name not in known:
            spark.sql(f"ADD JAR '{jar}'")
    use_libraries(spark)


def use_libraries(spark: SparkSession) -> None:
    """Let this thread find the classes of libraries that were added: Spark looks for sources by its thread's loader."""
    jvm: Any = spark._jvm  # noqa: SLF001 - threads are the JVM's
    loader = spark._jsparkSession.sharedState().jarClassLoader()  # noqa: SLF001
    jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)


def _cached(folder: Path, library: Library) -> list[Path] | None:
    try:
        found = json.loads((folder / _DONE).read_text(encoding="utf-8"))
        jars = [folder / name for name in found["jars"]]
        return jars if found["coordinates"] == list(library.coordinates) and all(map(Path.is_file, jars)) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _download(folder: Path, library: Library) -> list[Path]:
    work = Path(tempfile.mkdtemp(prefix=f"{library.name}-", dir=folder.parent))
    try:
        command = [sys.executable, "-m", "foretide.spark.jars", str(work), str(library.transitive).lower()]
        done = subprocess.run(
            [*command, *library.coordinates], capture_output=True, text=True, timeout=_RESOLVE_SECONDS, check=False
        )
        jars = sorted((work / "jars").glob("*.jar"))
        if done.returncode or len(jars) < len(library.coordinates):
            reason = next((line for line in reversed(done.stdout.splitlines()) if line.strip()), "no answer")
            raise EnvironmentNotReadyError(
                f"the Java libraries '{library.name}' ({', '.join(library.coordinates)}) are needed and cannot be "
                f"downloaded: {reason}. Connect to a Maven repository once, or copy the cache folder "
                f"'{folder}' from a machine that has it."
            )
        shutil.rmtree(folder, ignore_errors=True)
        (work / "jars").replace(folder)
    except subprocess.TimeoutExpired:
        raise EnvironmentNotReadyError(
            f"the Java libraries '{library.name}' were not downloaded within {_RESOLVE_SECONDS:g} s; try again"
        ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    content = {"coordinates": library.coordinates, "jars": [jar.name for jar in jars]}
    (folder / _DONE).write_text(json.dumps(content), encoding="utf-8")
    return [folder / jar.name for jar in jars]


def resolve(cache: str, transitive: str, coordinates: Sequence[str]) -> None:
    """Have Spark put the jars into the folder `jars` of a cache. Prints why when that fails."""
    from foretide.spark.session import session  # noqa: PLC0415 - needs jars only here

    settings = {"spark.jars.ivy": cache, "spark.ui.enabled": "false"}
    spark = session("local[1]", "foretide-jars", settings)
    try:
        for coordinate in coordinates:
            spark.sql(f"ADD JAR 'ivy://{coordinate}?transitive={transitive}'")
    except Exception as error:  # noqa: BLE001 - whatever Ivy says is for the user
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        sys.exit(print(lines[0] if lines else type(error).__name__) or 1)  # noqa: T201 - read by the parent
    finally:
        spark.stop()


if __name__ == "__main__":
    resolve(sys.argv[1], sys.argv[2], sys.argv[3:])
