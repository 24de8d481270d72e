"""Which versions of Spark are supported, and what the older ones of them lack. It never imports Spark."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from types import MappingProxyType

from foretide.errors import EnvironmentNotReadyError

OLDEST, NEWEST = (4, 1), (4, 3)

REPLAY = "a replay source"
REAL_TIME = "real-time mode"
STATE_PARTITIONS = "another number of state partitions"

_MISSING = MappingProxyType(
    {
        REPLAY: ((4, 2), "its Python sources are not told where a batch begins"),
        STATE_PARTITIONS: ((4, 2), "it cannot repartition the state of a checkpoint"),
        REAL_TIME: ((4, 3), "it has no streaming shuffle"),
    }
)


def spark_version() -> tuple[int, ...] | None:
    """The version of the installed PySpark; None if there is none."""
    try:
        return version_of(installed_version("pyspark"))
    except PackageNotFoundError:
        return None


def version_of(text: str) -> tuple[int, ...]:
    """The numbers of a version.

    >>> version_of("4.3.0.dev1")
    (4, 3, 0)
    """
    found = re.match(r"\d+(?:\.\d+){0,2}", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def dotted(version: tuple[int, ...]) -> str:
    """The version as text."""
    return ".".join(map(str, version))


def lacking(version: tuple[int, ...]) -> list[str]:
    """What this version lacks.

    >>> lacking((4, 2, 1))
    ['real-time mode']
    """
    return [feature for feature, (since, _) in _MISSING.items() if version[:2] < since]


def reason_against(feature: str, version: tuple[int, ...] | None = None) -> str | None:
    """Why the installed Spark, or the one of this version, does not have a feature; None if it has."""
    found = spark_version() if version is None else version
    since, reason = _MISSING[feature]
    if found is None or found[:2] >= since:
        return None
    return (
        f"{feature} needs Spark {dotted(since)} or newer, and this is {dotted(found)}: {reason}. "
        f"Install a newer one: pip install 'pyspark=={dotted(NEWEST)}.*'"
    )


def check_has(feature: str) -> None:
    """Raise an error that says what to install if the installed Spark lacks a feature."""
    reason = reason_against(feature)
    if reason is not None:
        raise EnvironmentNotReadyError(reason)


def check_spark() -> None:
    """Raise an error that says what to install if the installed Spark is too old for everything."""
    found = spark_version()
    if found is not None and found[:2] < OLDEST:
        raise EnvironmentNotReadyError(
            f"Foretide needs Spark {dotted(OLDEST)} or newer, and this is {dotted(found)}: "
            f"pip install 'pyspark=={dotted(NEWEST)}.*'"
        )
