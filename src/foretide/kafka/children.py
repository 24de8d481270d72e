"""The two processes as their owner sees them. Each reads its request from the standard input and ends with it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from foretide.codec import from_json, to_json
from foretide.errors import CodecError, EnvironmentNotReadyError, KafkaError
from foretide.kafka.latency import Live, Received, Sent

if TYPE_CHECKING:
    from foretide.workloads.curve import Curve
    from foretide.workloads.generator import Generator

READY = "ready"
RESULT, LIVE = "result.npz", "live.json"
_END_SECONDS = 60.0
_ANSWER_SECONDS = 20.0


class Child:
    """A process that answers when it is ready, ends when asked, and leaves a file."""

    def __init__(self, module: str, what: str) -> None:
        self._module, self._what = module, what
        self._process: subprocess.Popen[str] | None = None
        self._folder = Path()
        self._answer: list[str] = []

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the process has ended by itself; False if it has not in that time."""
        try:
            if self._process is not None:
                self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, if it was not stopped; what it has noted is lost."""
        self._clear()

    def _launch(self, request: Any) -> None:
        """Start the process with the request of a folder, and wait until it is ready."""
        try:
            self._start(request)
        except BaseException:
            self._clear()
            raise

    def _start(self, request: Any) -> None:
        if importlib.util.find_spec("confluent_kafka") is None:
            raise EnvironmentNotReadyError(
                "this needs a Kafka client: install the extra 'kafka' (pip install 'foretide[kafka]')"
            )
        self._folder = Path(tempfile.mkdtemp(prefix="foretide-kafka-"))
        with (self._folder / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C in a terminal is for its owner, which ends it
            )  # fmt: skip
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        try:
            self._process.stdin.write(to_json(request(str(self._folder))) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        self._answer = self._process.stdout.readline().split()
        if self._answer[:1] != [READY]:
            raise self._failure()

    def _end(self) -> Path:
        """End the process and wait for its file; `_clear` removes it."""
        process = self._process
        if process is None:
            raise KafkaError(f"the {self._what} was not started")
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
        if not self.wait(_END_SECONDS):
            process.kill()
            process.wait()
        result = self._folder / RESULT
        if process.returncode != 0 or not result.exists():
            raise self._failure()
        return result

    def _clear(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = Path()

    def _failure(self) -> KafkaError:
        text = (self._folder / "errors").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        self._clear()
        return KafkaError(f"the {self._what} failed: {text[-1] if text else 'it ended without a message'}")


class Feed(Child):
    """Sends the rows of a generator to a topic along a curve, in a process of its own.

    Args:
        servers: The addresses of brokers, as Kafka's `bootstrap.servers`.
        topic: The topic. Rows go to its partitions in turn.
        generator: Makes the rows.
        curve: When they are due; the process ends with it.
        options: More settings of the client (librdkafka), such as security.
    """

    def __init__(
        self, servers: str, topic: str, generator: Generator, curve: Curve, options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__("foretide.kafka.feed", f"feed of topic '{topic}'")
        self._given = servers, topic, generator, curve, dict(options or {})

    @property
    def start_time(self) -> int:
        """When the curve began, in microseconds since 1970."""
        return int(self._answer[1])

    def start(self) -> Self:
        """Start it."""
        from foretide.kafka.feed import FeedRequest  # noqa: PLC0415 - it imports this module
        from foretide.workloads.registry import generator_to_json  # noqa: PLC0415

        servers, topic, generator, curve, options = self._given
        made, shape = generator_to_json(generator), curve.to_json()
        self._launch(lambda folder: FeedRequest(servers, topic, made, shape, folder, options))
        return self

    def stop(self) -> Sent:
        """End it, if it has not ended with its curve: what it has sent."""
        try:
            return Sent.load(self._end())
        finally:
            self._clear()


class Collector(Child):
    """Notes when the records of a topic arrive, in a process of its own.

    Args:
        servers: The addresses of brokers, as Kafka's `bootstrap.servers`.
        topic: The topic. Its records are JSON objects with `row` and `due` as the feed has sent them.
        window: The seconds that `live` looks back.
        options: More settings of the client (librdkafka), such as security.
    """

    def __init__(self, servers: str, topic: str, window: float = 5.0, options: Mapping[str, str] | None = None) -> None:
        super().__init__("foretide.kafka.collect", f"collector of topic '{topic}'")
        self._given = servers, topic, window, dict(options or {})

    def start(self) -> Self:
        """Start it; when this returns, it receives all that is sent from now on."""
        from foretide.kafka.collect import CollectRequest  # noqa: PLC0415 - it imports this module

        servers, topic, window, options = self._given
        self._launch(lambda folder: CollectRequest(servers, topic, folder, window, options=options))
        return self

    def live(self) -> Live | None:
        """The latency in the last seconds; None as long as there is none."""
        try:
            return from_json(Live, (self._folder / LIVE).read_text(encoding="utf-8"))
        except (OSError, CodecError, ValueError):
            return None

    def stop(self) -> Received:
        """End it: all that has arrived."""
        try:
            return Received.load(self._end())
        finally:
            self._clear()


# ---- in the process


def partitions_of(client: Any, topic: str) -> list[int]:
    """The partitions of a topic, which has to exist."""
    found = client.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic]
    if found.error is not None or not found.partitions:
        raise KafkaError(f"topic '{topic}' does not exist: create it first")
    return sorted(found.partitions)


def first_line() -> str:
    """The request."""
    return sys.stdin.readline()


def stop_event() -> threading.Event:
    """Set once the standard input has ended: because the process is to end, or because its owner has died."""
    stop = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    return stop
