"""A side as a process: it answers by lines of JSON, and ends when its input does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.peers.build import classpath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.peers.sides import Side

HEAP = "1400m"
JAVA = (f"-Xmx{HEAP}", f"-Xms{HEAP}", "-XX:+UseSerialGC")
"""The same for all sides."""

_PREFIX = "peer "
_END_SECONDS = 60.0
_OPEN = tuple(
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in ("java.lang", "java.util", "java.nio", "java.util.concurrent", "java.net", "sun.nio.ch")
)
_QUIET = ("-Dlog4j2.level=OFF", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")


class PeerError(RuntimeError):
    """A side has failed, or says what nobody expects."""


def answer(line: str) -> dict[str, Any] | None:
    """What a line of a side's output says; None for lines that libraries print.

    >>> answer('peer {"ready": true}'), answer("WARN: something")
    ({'ready': True}, None)
    """
    if not line.startswith(_PREFIX):
        return None
    try:
        found = json.loads(line.removeprefix(_PREFIX))
    except ValueError:
        raise PeerError(f"a side must answer with JSON, got {line.strip()[:200]!r}") from None
    if not isinstance(found, dict):
        raise PeerError(f"a side must answer with a JSON object, got {line.strip()[:200]!r}")
    return found


def reason(errors: str) -> str:
    """The last line that a program wrote, without where in Java it was.

    >>> reason("WARN: something\\nIllegalStateException: no rows\\n\\tat Workload.follow\\n")
    'IllegalStateException: no rows'
    """
    lines = [line for line in errors.splitlines() if line.strip() and not line.startswith("\t")]
    return lines[-1] if lines else "it says nothing"


def command(side: Side, options: Mapping[str, str], folder: str) -> list[str]:
    """The command line of a side."""
    given = [f"{name}={value}" for name, value in {**side.options, **options}.items()]
    if side.profile is None:
        return [sys.executable, "-m", side.main, f"folder={folder}", *given]
    java = ["java", *JAVA, *_OPEN, *_QUIET, f"-Djava.io.tmpdir={folder}", "-cp", classpath(side.profile)]
    return [*java, f"foretide.peers.{side.main}", *given]


class Running:
    """The process of a side, with a folder for what it leaves."""

    def __init__(self, side: Side, options: Mapping[str, str]) -> None:
        self._side = side
        self._folder = tempfile.TemporaryDirectory(prefix="foretide-peer-")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command(side, options, self._folder.name),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=self._folder.name,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            )  # fmt: skip

    def answer(self, seconds: float) -> dict[str, Any]:
        """Its next answer."""
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._process.kill)
        timer.start()
        try:
            for line in self._process.stdout:
                if (found := answer(line)) is not None:
                    return found
        finally:
            timer.cancel()
        code = self._process.wait()
        said = reason(self._errors.read_text(encoding="utf-8", errors="replace"))
        raise PeerError(f"{self._side.title} ended with exit code {code} and without an answer: {said}")

    def end(self) -> None:
        """End its input, and wait for its end."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()

    @property
    def _errors(self) -> Path:
        return Path(self._folder.name) / "errors"
