"""Slowing an executor down on purpose, for demonstrations and benchmarks: busy loops on the core it is pinned to."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from foretide.probes.workers import find_executors

_BUSY = "while True: pass"


def pin_executors(application: str) -> dict[str, int]:
    """Give each executor of an application on this machine a core of its own, in turn; the core of each."""
    cores = sorted(os.sched_getaffinity(0))
    found = sorted(find_executors(application), key=lambda executor: int(executor.executor_id))
    pinned = {executor.executor_id: cores[place % len(cores)] for place, executor in enumerate(found)}
    for executor in found:
        pin(executor.pid, pinned[executor.executor_id])
    return pinned


def pin(pid: int, core: int) -> None:
    """Keep a process on one core: every thread there is; later ones inherit it."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), {core})


@contextlib.contextmanager
def cpu_hog(pinned: Mapping[str, int], executor: str, loops: int = 8) -> Iterator[None]:
    """Busy loops on the core of one executor."""
    hogs = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(loops)]
    try:
        for hog in hogs:
            os.sched_setaffinity(hog.pid, {pinned[executor]})
        yield
    finally:
        for hog in hogs:
            hog.kill()
        for hog in hogs:
            hog.wait()
