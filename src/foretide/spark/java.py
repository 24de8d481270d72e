"""Which Java there is. It is looked for as Spark does, and never started for more than its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from foretide.errors import EnvironmentNotReadyError

_OLDEST_JAVA = 17


def check_java() -> str:
    """What Java is installed; an error that says what to do unless it is new enough."""
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
    return f"{major} ({shutil.which(java)})"


def java_major(output: str) -> int:
    """The major version in the output of `java -version`, 0 when there is none.

    >>> java_major('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_major('java version "1.8.0_392"')
    8
    """
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found.group(1)) if found else 0
