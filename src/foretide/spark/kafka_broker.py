"""A real Kafka broker on this machine, for development and tests: one node, without ZooKeeper (KRaft).

`Broker` is a process that lives as long as its owner wants; `start_detached` leaves it running for other terminals.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyspark

from foretide.codec import from_json, to_json
from foretide.errors import CodecError, EnvironmentNotReadyError, KafkaError
from foretide.files import atomic_write
from foretide.spark.jars import KAFKA_BROKER, jars_of
from foretide.spark.java import check_java
from foretide.spark.kafka_client import UnknownSecurityError, client_settings

DEFAULT_PORT = 9092
_HOST = "127.0.0.1"
_STATE = "broker.json"
_READY_SECONDS = 120.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.1
_ADMIN_SECONDS = 5.0
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?):([0-9]{1,5})")
_TOPIC = re.compile("[A-Za-z0-9._-]{1,249}")
_MAX_PORT = 65_535
_JAVA = ("java", "-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker that was started on this machine."""

    pid: int
    port: int
    folder: str

    @property
    def address(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"{_HOST}:{self.port}"


class Broker:
    """A broker whose data are in a folder. Started again on the same folder and port, it goes on with its topics.

    `properties` are more lines of its configuration, such as those of security.
    """

    def __init__(self, folder: Path, port: int = 0, properties: Mapping[str, str] | None = None) -> None:
        self.folder, self.port, self._more = folder.absolute(), port or free_port(), dict(properties or {})
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"{_HOST}:{self.port}"

    def start(self, on_wait: Callable[[], object] = lambda: None, *, detached: bool = False) -> Self:
        """Start it and wait until it answers; `on_wait` is called while it does not.

        Unless it is `detached`, it ends with this process, however that ends, where there is `setpriv` (Linux).
        """
        java = self._prepare()
        with (self.folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*([] if detached else _ending_with_parent()), *java, "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + _READY_SECONDS
        while not _answers(self.port):
            on_wait()
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise KafkaError(f"the Kafka broker did not start; its log is '{self.folder / 'broker.log'}'")
            time.sleep(_POLL_SECONDS)
        return self

    def stop(self) -> None:
        """End the process; its data stay."""
        if self.process is not None:
            end_process(self.process.pid, self.process.poll)
            self.process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _prepare(self) -> list[str]:
        """Write the configuration, format the folder if it is new; the command line of Kafka's own Java."""
        check_java()
        scala = Path(pyspark.__file__).parent.glob("jars/scala-library-*.jar")  # Ivy leaves out what Spark has itself
        java = [*_JAVA, "-cp", os.pathsep.join(map(str, [*jars_of(KAFKA_BROKER), *scala]))]
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        controller = free_port()
        text = _PROPERTIES.format(host=_HOST, port=self.port, controller=controller, folder=self.folder)
        atomic_write(self._properties, text + "".join(f"{name}={value}\n" for name, value in self._more.items()))
        if not (self.folder / "log" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"]  # it may begin with -
            command += ["-c", str(self._properties)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise KafkaError(f"the folder of the Kafka broker cannot be prepared: {done.stderr.strip()[-300:]}")
        return java


def _ending_with_parent() -> list[str]:
    """A command that has the kernel end the process when the thread that started it ends."""
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "TERM"]


def start_detached(home: Path, port: int, on_wait: Callable[[], object]) -> BrokerState:
    """Start a broker that outlives this process; its data and state are in `home`."""
    known = running_broker(home)
    if known is not None:
        raise KafkaError(f"a Kafka broker runs already at {known.address} (process {known.pid}): foretide kafka stop")
    if _answers(port):
        raise KafkaError(f"port {port} is taken by another process; choose one with --port")
    broker = Broker(home / "data", port).start(on_wait, detached=True)
    assert broker.process is not None  # noqa: S101 - it was started
    state = BrokerState(broker.process.pid, port, str(broker.folder))
    atomic_write(home / _STATE, to_json(state))
    return state


def running_broker(home: Path) -> BrokerState | None:
    """The broker that `start_detached` has left running, or None."""
    try:
        state = from_json(BrokerState, (home / _STATE).read_text(encoding="utf-8"))
    except (OSError, CodecError, ValueError):
        return None
    return state if _is_broker(state.pid) else None


def stop_detached(home: Path) -> BrokerState:
    """End the broker that was left running."""
    state = running_broker(home)
    if state is None:
        raise KafkaError("no Kafka broker was started with 'foretide kafka start'")
    end_process(state.pid, lambda: None if _is_broker(state.pid) else 0)
    (home / _STATE).unlink(missing_ok=True)
    return state


def end_process(pid: int, poll: Callable[[], int | None]) -> None:
    """Ask a process to end; kill it if it has not after some seconds."""
    for number, seconds in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, _STOP_SECONDS)):
        if poll() is not None:
            return
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        end = time.monotonic() + seconds
        while poll() is None and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((_HOST, port)) == 0


def _is_broker(pid: int) -> bool:
    """Whether the process runs and is a broker: process ids are used again."""
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline")
        return not command.exists() or b"kafka.Kafka" in command.read_bytes()
    except (OSError, OverflowError):
        return False


# ---- topics


def partitions_of(servers: str, topic: str, options: Mapping[str, str]) -> int:
    """The partitions of a topic that Spark is to read with these options; KafkaError if it does not exist."""
    found = list_topics(servers, options)
    if topic not in found:
        raise KafkaError(f"topic '{topic}' does not exist at {servers}: create it first ('foretide kafka topics')")
    return found[topic]


def list_topics(servers: str, options: Mapping[str, str] | None = None) -> dict[str, int]:
    """The topics of a broker with their partitions, without Kafka's own. `options` are those given to Spark."""
    found = _asked(servers, lambda admin: admin.list_topics(timeout=_ADMIN_SECONDS), options).topics
    return {name: len(topic.partitions) for name, topic in sorted(found.items()) if not name.startswith("__")}


def create_topics(
    servers: str, names: Iterable[str], partitions: int, options: Mapping[str, str] | None = None
) -> None:
    """Create topics. One that exists is an error. `options` are those given to Spark."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if not _TOPIC.fullmatch(name) or name in {".", ".."}:
            raise KafkaError(f"'{name}' is no name for a topic: use letters, digits, '.', '_' and '-', at most 249")
    list_topics(servers, options)  # says at once when no broker is there
    admin = admin_client(servers, options)
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415 - an optional dependency

    new = [NewTopic(name, partitions, 1) for name in wanted]
    for name, created in admin.create_topics(new, operation_timeout=_ADMIN_SECONDS).items():
        try:
            created.result(_ADMIN_SECONDS)
        except Exception as error:
            raise KafkaError(f"topic '{name}' was not created: {_reason(error)}") from error


def admin_client(servers: str, options: Mapping[str, str] | None = None) -> Any:
    """A client for topics and offsets, with the security of options given to Spark. Needs the extra `kafka`."""
    check_servers(servers)
    try:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise EnvironmentNotReadyError(
            "this needs a Kafka client: install the extra 'kafka' (pip install 'foretide[kafka]')"
        ) from None
    try:
        return AdminClient(client_settings(servers, options or {}))
    except UnknownSecurityError as error:
        raise KafkaError(f"the Kafka client cannot use the option '{error}', which only Java knows") from None


def check_servers(servers: str) -> None:
    """Refuse what is no list of addresses, before anybody waits for an answer from there.

    Raises:
        KafkaError: Says how an address is written.
    """
    for server in servers.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 1 <= int(found[3]) <= _MAX_PORT:
            raise KafkaError(f"'{server}' is no address of a Kafka broker; write HOST:PORT, such as localhost:9092")


def _asked(servers: str, ask: Callable[[Any], Any], options: Mapping[str, str] | None = None) -> Any:
    admin = admin_client(servers, options)
    try:
        return ask(admin)
    except Exception as error:
        raise KafkaError(f"the Kafka broker at {servers} does not answer: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return str(first.str()) if hasattr(first, "str") else str(first)
