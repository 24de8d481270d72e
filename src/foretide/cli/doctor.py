"""`foretide doctor`: what is there and what is missing, each with what mends it. Starts nothing, changes nothing."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import typer

from foretide.cli.console import Console, JsonOption, Text, print_json
from foretide.errors import EnvironmentNotReadyError, ForetideError
from foretide.spark.versions import NEWEST, OLDEST, dotted, lacking, spark_version
from foretide.status.pipelines import foretide_home

State = Literal["ok", "missing", "problem"]

_PIP = f"{sys.executable} -m pip install"
_EXTRAS = {
    "dashboard": "nicegui",
    "kafka": "confluent_kafka",
    "plot": "matplotlib",
    "postgres": "psycopg",
    "forecast": "equinox",
    "vision": "cv2",
}
"""A module of each extra."""

_EXCLUSION_LIST = "org/apache/spark/scheduler/HealthTracker.class"
_MIN_CORES, _MIN_GIGABYTES = 2, 4.0
_MARKS: dict[State, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "missing": ("-", "yellow"),
    "problem": ("NO", "bold red"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        state: `missing` is something that only some uses need; `problem` keeps Foretide from running.
        found: What is there, or what is wrong.
        remedy: What mends it; None if nothing has to be mended.
    """

    name: str
    state: State
    found: str
    remedy: str | None = None


def doctor(*, as_json: JsonOption = False) -> None:
    """Check what Foretide needs on this machine, and say what mends it.

    The exit code is 1 if something is wrong that keeps Foretide from running.
    """
    checks = [check() for check in CHECKS]
    if as_json:
        print_json(checks)
    else:
        console = Console(highlight=False, soft_wrap=True)
        for line in _lines(checks):
            console.print(line)
    if any(check.state == "problem" for check in checks):
        raise typer.Exit(1)


def _lines(checks: list[Check]) -> Iterator[Text]:
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark, style = _MARKS[check.state]
        remedy = "" if check.remedy is None else f"; to mend it: {check.remedy}"
        line = Text(f"{mark:<3}", style)
        yield line.append(f"{check.name:<{width}}  {check.found}{remedy}", "default")


def _python() -> Check:
    return Check("Python", "ok", f"{platform.python_version()} ({sys.executable})")


def _java() -> Check:
    from foretide.spark.java import check_java  # noqa: PLC0415 - as the other checks, only when it is its turn

    try:
        return Check("Java", "ok", check_java())
    except EnvironmentNotReadyError as error:
        found, _, remedy = str(error).partition(": ")
        return Check("Java", "problem", found, remedy or "install a JDK")


def _spark() -> Check:
    found, install = spark_version(), f"{_PIP} 'pyspark=={dotted(NEWEST)}.*'"
    if found is None:
        return Check("Spark", "problem", "pyspark is not installed", install)
    if found[:2] < OLDEST:
        return Check("Spark", "problem", f"{dotted(found)}; {dotted(OLDEST)} or newer is needed", install)
    if found[:2] > NEWEST:
        return Check("Spark", "missing", f"{dotted(found)} is newer than what was tested", install)
    if lacks := lacking(found):
        return Check("Spark", "missing", f"{dotted(found)}, which lacks {', '.join(lacks)}", install)
    return Check("Spark", "ok", dotted(found))


def _extras() -> Check:
    missing = [extra for extra, module in _EXTRAS.items() if find_spec(module) is None]
    there = ", ".join(extra for extra in _EXTRAS if extra not in missing) or "none"
    if not missing:
        return Check("extras", "ok", there)
    return Check("extras", "missing", f"{there}; not {', '.join(missing)}", f"{_PIP} 'foretide[{','.join(missing)}]'")


def _settings() -> Check:
    from foretide.settings.load import load_settings  # noqa: PLC0415 - pydantic takes a while to load

    try:
        chosen = load_settings()
    except ForetideError as error:
        return Check("settings", "problem", str(error), "correct it, or see `foretide settings`")
    count = len(chosen.origins)
    return Check("settings", "ok", f"{count} set by file or environment" if count else "defaults; nothing is set")


def _store() -> Check:
    from foretide.settings.load import load_settings  # noqa: PLC0415
    from foretide.store.database import database_url, shown  # noqa: PLC0415 - SQLAlchemy takes a while to load

    try:
        monitoring = load_settings().to_run().monitoring
        store = None if monitoring is None else monitoring.store
        if not store or "://" not in store or store.startswith("sqlite"):
            return Check("PostgreSQL", "ok", "not used: metrics go to SQLite (setting monitoring.store)")
        url = database_url(store)
    except ForetideError as error:
        return Check("PostgreSQL", "problem", str(error), "correct the setting monitoring.store")
    from sqlalchemy import create_engine  # noqa: PLC0415
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    try:
        create_engine(url).connect().close()
    except (SQLAlchemyError, ImportError) as error:
        reason = str(error).strip().partition("\n")[0]
        return Check(
            "PostgreSQL", "problem", f"{shown(url)}: {reason}", "start the server, or correct monitoring.store"
        )
    return Check("PostgreSQL", "ok", shown(url))


def _kafka() -> Check:
    from foretide.spark.jars import KAFKA_CONNECTOR, cached_jars  # noqa: PLC0415

    if cached_jars(KAFKA_CONNECTOR) is None:
        remedy = "`foretide kafka start` downloads it; or set FORETIDE_JARS to a folder that has it"
        return Check("Kafka", "missing", "the connector is not downloaded yet", remedy)
    return Check("Kafka", "ok", "the connector is there")


def _permissions() -> Check:
    for place, remedy in (
        (foretide_home(), "set FORETIDE_HOME to a folder that you may write"),
        (Path(tempfile.gettempdir()), "set TMPDIR to a folder that you may write"),
    ):
        existing = next(each for each in (place, *place.parents) if each.exists())
        if not os.access(existing, os.W_OK | os.X_OK):
            return Check("folders", "problem", f"'{place}' cannot be written", remedy)
    return Check("folders", "ok", f"{foretide_home()} and {tempfile.gettempdir()} can be written")


def _exclusion_list() -> Check:
    """Whether this Spark has the class that keeps the exclusion list."""
    spec = find_spec("pyspark")
    jars = [] if spec is None or spec.origin is None else sorted(Path(spec.origin).parent.glob("jars/spark-core_*.jar"))
    for jar in jars:
        with zipfile.ZipFile(jar) as opened:
            if _EXCLUSION_LIST in opened.namelist():
                setting = "spark.excludeOnFailure.application.enabled=true"
                return Check("exclusion", "ok", f"slow executors can be taken out: ft.session sets {setting}")
    found = "this Spark has no exclusion list: slow executors are killed instead of taken out"
    return Check("exclusion", "missing", found, "use the PySpark of a release")


def _machine() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = f"{cores} core{'' if cores == 1 else 's'}, {memory:.1f} GB of memory"
    if cores < _MIN_CORES or memory < _MIN_GIGABYTES:
        return Check("machine", "missing", found, f"demonstrations need {_MIN_CORES} cores and {_MIN_GIGABYTES:g} GB")
    return Check("machine", "ok", found)


CHECKS: tuple[Callable[[], Check], ...] = (
    *(_python, _java, _spark, _extras, _settings, _store, _kafka, _permissions, _exclusion_list, _machine),
)
