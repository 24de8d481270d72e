"""The processes of a campaign's pipeline: who can be killed or stopped, and who is left over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from foretide.probes.process import read_stat
from foretide.probes.workers import find_executors
from foretide.runtime.shutdown import in_session, kill_all
from foretide.soak.layout import Layout

_JVM_CLASS = b"org.apache.spark.deploy.SparkSubmit"


def driver_of(layout: Layout) -> int | None:
    """The driver that runs now; None between two lives."""
    try:
        pid = int(layout.driver.read_text())
        return pid if os.getsid(pid) == pid and is_alive(pid) else None
    except (OSError, ValueError):
        return None


def jvm_of(driver: int) -> int | None:
    """The JVM of a driver; None before it has started."""
    return next((pid for pid in in_session(driver) if _JVM_CLASS in _command(pid)), None)


def executors_of(driver: int) -> list[int]:
    """The executors that a driver has started on this host, the oldest first."""
    members = in_session(driver)
    return [executor.pid for executor in find_executors() if executor.pid in members]


def is_alive(pid: int) -> bool:
    """Whether a process runs, be it stopped or not."""
    stat = read_stat(pid)
    return stat is not None and not stat.ended


def kill(pid: int) -> None:
    """Kill a process."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_session(leader: int) -> None:
    """Kill all processes of a session, the leader included."""
    kill_all(in_session(leader))


def stop_for(pid: int, seconds: float) -> None:
    """Stop a process for so long."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)


def left_over(drivers: Iterable[int], applications: Iterable[str]) -> list[int]:
    """Processes of drivers that have ended, and executors of their applications."""
    names = set(applications)
    found = {pid for driver in drivers for pid in in_session(driver)}
    found.update(executor.pid for executor in find_executors() if executor.app_id in names)
    return sorted(pid for pid in found if is_alive(pid))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
