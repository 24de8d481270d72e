"""A process with a net beside the pipeline, spoken to in lines of JSON; nobody ever waits for it."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, Any

from foretide.runtime.fit_process import environment

Heard = Callable[[dict[str, Any]], None]
_NEEDS = ("jax", "equinox", "optax")
_WAITING = 2048


def nets_installed() -> bool:
    """Whether what nets need is there."""
    return all(map(find_spec, _NEEDS))


class JsonProcess:
    """A process that is spoken to in lines. A thread writes, and one reads and hands on what it `heard`."""

    def __init__(self, command: Sequence[str], heard: Heard) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process is
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment()
        )
        self._waiting: queue.Queue[str | None] = queue.Queue(_WAITING)
        pipes = self._process.stdin, self._process.stdout
        self._threads = [
            threading.Thread(target=self._write, args=pipes[:1], name="foretide-seer-write", daemon=True),
            threading.Thread(target=_read, args=(pipes[1], heard), name="foretide-seer-read", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def ended(self) -> bool:
        """Whether it has ended, which nobody asked it to."""
        return self._process.poll() is not None

    def send(self, line: str) -> None:
        """Without waiting: the process may be busy for a while, and what it cannot take is dropped."""
        if not self._waiting.full():
            self._waiting.put(line)

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError), pipe:  # where it has ended, `ended` says so
            while (line := self._waiting.get()) is not None:
                pipe.write(line.encode() + b"\n")
                pipe.flush()

    def last_words(self) -> str:
        """Why it ended."""
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        return said[-1] if said else f"code {self._process.returncode}"

    def close(self) -> None:
        """End it."""
        if not self._waiting.full():
            self._waiting.put(None)
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(timeout=1.0)
        self._errors.close()


def _read(pipe: IO[bytes], heard: Heard) -> None:
    with suppress(OSError, ValueError), pipe:  # it may be ended in the middle of a line
        for line in pipe:
            heard(json.loads(line))
