"""Builds the peers by Maven, each into a cache folder of its own, once for each state of their sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from foretide.errors import EnvironmentNotReadyError

SOURCES = Path(__file__).parent
_BUILD_SECONDS = 1800.0
_TOOLS = {"java": "Java 17 or newer", "javac": "a JDK of Java 17 or newer", "mvn": "Maven"}
_DONE = "done"


def missing() -> list[str]:
    """What is not installed and needed to build and run the peers."""
    return [what for command, what in _TOOLS.items() if shutil.which(command) is None]


def build(profiles: Iterable[str]) -> None:
    """Build the peers of these profiles, if they are not in the cache.

    Raises:
        EnvironmentNotReadyError: Maven or Java is missing, or Maven fails.
    """
    wanted = sorted(profiles)
    if wanted and (lacking := missing()):
        raise EnvironmentNotReadyError(f"the peers need {' and '.join(lacking)}: install it to compare with them")
    for profile in wanted:
        folder = folder_of(profile)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not (folder / _DONE).exists():
                _build(profile, folder)
                (folder / _DONE).touch()


def classpath(profile: str) -> str:
    """The class path of a peer that was built."""
    folder = folder_of(profile)
    return os.pathsep.join((str(folder / "classes"), str(folder / "lib" / "*")))


def folder_of(profile: str, sources: Path = SOURCES) -> Path:
    """Where a peer is cached; another place when its sources change."""
    cache = Path(os.environ.get("FORETIDE_PEERS") or user_cache_path("foretide") / "peers")
    return cache / f"{profile}-{digest(sources)}"


def digest(sources: Path) -> str:
    """The state of the sources."""
    found = hashlib.sha256()
    for path in (sources / "pom.xml", *sorted((sources / "src").rglob("*.java"))):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def _build(profile: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-P", profile, f"-Dpeer.build={folder}", "-f", str(SOURCES / "pom.xml")]
    command += ["compile", "dependency:copy-dependencies"]
    print(f"building the peer {profile} by Maven", flush=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise EnvironmentNotReadyError(f"Maven did not build the peer {profile} within {_BUILD_SECONDS:g} s") from None
    if done.returncode:
        raise EnvironmentNotReadyError(f"Maven cannot build the peer {profile}: {first_error(done.stdout)}")


def first_error(output: str) -> str:
    """The first line in which Maven names an error.

    >>> first_error("[INFO] all is well\\n[ERROR] no such artifact\\n[ERROR] more")
    'no such artifact'
    """
    errors = [line.removeprefix("[ERROR]").strip() for line in output.splitlines() if line.startswith("[ERROR]")]
    return errors[0] if errors else "it says nothing"
