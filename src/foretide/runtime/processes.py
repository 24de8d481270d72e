"""The one helper for child processes. They have low priority and one thread, and the pipeline never waits for them.

A `FitProcess` runs one fit. A `JsonProcess` is sent messages and answers with messages, each a line of JSON; `serve` is
the main loop on the other side.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol, Self, TypeVar

from pydantic import TypeAdapter

Message = dict[str, Any]
Command = Callable[[Path, int], Sequence[str]]
"""From the folder of a fit and a niceness to the command that runs it."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
_MAX_WAITING = 2048
_JOIN_SECONDS = 1.0
_PARENT_POLL_SECONDS = 0.5


def _environment() -> dict[str, str]:
    """The environment of this process, with its import path, and one thread for numerical libraries."""
    variables = {
        **os.environ,
        **dict.fromkeys(_THREAD_VARIABLES, "1"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    return {**variables, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {_XLA_FLAGS}".strip()}


def _last_line(output: bytes) -> str | None:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else None


class FitProcess:
    """A fit in a process, with a temporary folder for its input and output."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], deadline: float) -> None:
        self.folder, self._process, self._deadline = folder, process, deadline

    @classmethod
    def start(cls, prepare: Callable[[Path], None], command: Command, niceness: int, deadline: float) -> Self:
        """Let `prepare` write the input into a new folder, and start the command."""
        folder = Path(tempfile.mkdtemp(prefix="foretide-fit-"))
        try:
            prepare(folder)
            with (folder / "errors").open("wb") as errors:
                process = subprocess.Popen(
                    command(folder, niceness), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                    env=_environment(),
                )  # fmt: skip
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(folder, process, deadline)

    def running(self, now: float) -> bool:
        """Whether the process runs and its deadline has not passed."""
        return self._process.poll() is None and now < self._deadline

    def problem(self) -> str | None:
        """Why there is no result; None if there is one. Only after it was `running`."""
        code = self._process.poll()
        if code is None:
            return "it took too long and was ended"
        if code == 0:
            return None
        error = _last_line((self.folder / "errors").read_bytes())
        return f"it ended with code {code}" + (f": {error}" if error else "")

    def close(self) -> None:
        """Kill the process if it runs, and delete its folder."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class JsonProcess:
    """A child process that exchanges lines of JSON. It is started by its owner, again some time after it has ended.

    Attributes:
        problem: What the process reported last, or why it ended; None if nothing is wrong.
    """

    def __init__(
        self, subject: str, command: Sequence[str], on_message: Callable[[Message], None], retry_after: float
    ) -> None:
        """Prepare a process.

        Args:
            subject: What it forecasts, for messages and names of threads.
            command: Its command line.
            on_message: Called with each message of the process, in a thread that reads them.
            retry_after: How long `may_start` is False after the process ended, in the unit of its argument.
        """
        self.problem: str | None = None
        self._subject, self._command, self._on_message = subject, command, on_message
        self._retry_after, self._start_at = retry_after, float("-inf")
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._waiting: queue.Queue[Message | None] = queue.Queue(_MAX_WAITING)
        self._threads: list[threading.Thread] = []

    @property
    def started(self) -> bool:
        """Whether it was started, and not closed since."""
        return self._child is not None

    def may_start(self, now: float) -> bool:
        """Whether it should be started now. Notices that it has ended: that is a problem, and delays the next start."""
        if self._child is not None and self._child.poll() is not None:
            self.problem = f"the process that forecasts {self._subject} has ended: {self._last_error()}"
            self._start_at = now + self._retry_after
            self.close()
        return self._child is None and now >= self._start_at

    def start(self, request: object) -> None:
        """Start the process and its two threads. Its first line is the request, a dataclass."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=_environment()
        )
        self._waiting = queue.Queue(_MAX_WAITING)
        self.send(TypeAdapter(type(request)).dump_python(request, mode="json"))
        self._threads = [
            threading.Thread(target=work, args=arguments, name=f"foretide-{self._subject}-{name}", daemon=True)
            for name, work, arguments in (
                ("write", _write, (self._child.stdin, self._waiting)),
                ("read", self._read, (self._child.stdout,)),
            )
        ]
        for thread in self._threads:
            thread.start()

    def send(self, message: Message) -> None:
        """Queue a message without waiting; messages that a busy process does not read in time are dropped."""
        if self._child is not None and not self._waiting.full():
            self._waiting.put(message)

    def close(self) -> None:
        """Kill the process."""
        if self._child is None:
            return
        if not self._waiting.full():
            self._waiting.put(None)
        self._child.kill()
        self._child.wait()
        for thread in self._threads:
            thread.join(timeout=_JOIN_SECONDS)
        if self._errors is not None:
            self._errors.close()
        self._child = self._errors = None

    def _read(self, pipe: IO[bytes]) -> None:
        with suppress(OSError, ValueError), pipe:  # it may be killed in the middle of a line
            for line in pipe:
                message = json.loads(line)
                if "problem" in message:
                    self.problem = message["problem"]
                self._on_message(message)

    def _last_error(self) -> str:
        error = None
        if self._errors is not None:
            self._errors.seek(0)
            error = _last_line(self._errors.read())
        return error or f"code {self._child.returncode if self._child is not None else None}"


def _write(pipe: IO[bytes], waiting: queue.Queue[Message | None]) -> None:
    with suppress(OSError), pipe:  # `may_start` notices a process that has ended
        while (message := waiting.get()) is not None:
            pipe.write(json.dumps(message).encode() + b"\n")
            pipe.flush()


def end_with_parent(folder: Path | None = None) -> None:
    """End this process, and remove its folder, if it has one, once its parent has died, however that has ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_SECONDS)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, name="foretide-parent", daemon=True).start()


class Request(Protocol):
    """The first line of a child process."""

    @property
    def niceness(self) -> int:
        """The niceness that the process gives itself."""


RequestType = TypeVar("RequestType", bound=Request)


class Server(Protocol):
    """What answers messages in a child process."""

    def restore(self) -> Iterable[Message]:
        """Restore what was saved; returns the first messages."""

    def answer(self, message: Message) -> Iterable[Message]:
        """The answers to a message."""


def serve(request_type: type[RequestType], make: Callable[[RequestType], Server]) -> None:
    """The main loop of a child process: answers messages on the standard input until it ends."""
    request = TypeAdapter(request_type).validate_json(sys.stdin.readline())
    os.nice(request.niceness)
    server = make(request)
    _reply(server.restore())
    for line in sys.stdin:
        _reply(server.answer(json.loads(line)))


def _reply(messages: Iterable[Message]) -> None:
    for message in messages:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
