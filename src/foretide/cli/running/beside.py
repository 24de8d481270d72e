"""A dashboard beside a run or a demonstration: a process of its own, of low priority, that ends with it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from foretide.dashboard.server import address_of, check_installed, listen
from foretide.errors import EnvironmentNotReadyError, MonitoringError

DashboardOption = Annotated[
    bool, typer.Option("--dashboard", help="Show it in a browser meanwhile: prints the address of a dashboard.")
]
_PORT = 8080
_END_SECONDS = 5.0


@contextmanager
def dashboard_beside(wanted: bool, say: Callable[[str], object]) -> Iterator[None]:
    """Run a dashboard if it is wanted, and say its address. Without it the run goes on, and it is said why."""
    process = _start(say) if wanted else None
    try:
        yield
    finally:
        if process is not None:
            _end(process)


def _start(say: Callable[[str], object]) -> subprocess.Popen[bytes] | None:
    try:
        check_installed()
        listening = _listen()
    except (EnvironmentNotReadyError, MonitoringError) as error:
        say(f"no dashboard: {error}")
        return None
    with listening:
        command = [sys.executable, "-m", "foretide", "dashboard", f"--socket={listening.fileno()}"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=[listening.fileno()], start_new_session=True,
        )  # fmt: skip
        say(f"dashboard: {address_of(listening)}")
    return process


def _listen() -> socket.socket:
    """On the usual port, or on any if that is taken."""
    try:
        return listen("127.0.0.1", _PORT)
    except MonitoringError:
        return listen("127.0.0.1", 0)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
