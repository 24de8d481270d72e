"""Runs the disturbances of `benchmarks.generators.stress` as processes on the cores of this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.generators.stress import Stress

_BEGIN = """
import os, sys, tempfile, time
parent, core, seconds, rising = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "rising"
os.sched_setaffinity(0, {core})
begun = time.monotonic()
def share():
    gone = min((time.monotonic() - begun) / seconds, 1.0)
    return 0.05 + 0.4 * gone if rising else 0.2
def pace(work):
    while os.getppid() == parent and time.monotonic() - begun < seconds:
        before, cpu = time.monotonic(), time.process_time()
        work()
        took = max(time.process_time() - cpu, 1e-4)
        time.sleep(max(took / share() - (time.monotonic() - before), 0.0))
"""
_PROGRAMS = {
    "disk": _BEGIN + """
with tempfile.NamedTemporaryFile() as file:
    block = os.urandom(1 << 22)
    for _ in range(16):
        file.write(block)
    os.fsync(file.fileno())
    def work():
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for at in range(0, 16 << 22, 1 << 22):
            sum(os.pread(file.fileno(), 1 << 22, at)[::64])
            if at % (1 << 24) == 0:
                time.sleep(0.01)
    pace(work)
""",
    "memory": _BEGIN + """
kept = []
def work():
    if len(kept) < 250:
        kept.append(bytearray(os.urandom(1 << 12)) * 512)
    sum(kept[-1][::16])
pace(work)
""",
    "load": _BEGIN + "pace(lambda: sum(range(200_000)))\n",
    "loop": _BEGIN + """
while os.getppid() == parent and time.monotonic() - begun < seconds:
    for _ in range(100_000):
        pass
""",
}  # fmt: skip
"""Each ends with its parent, or after its time."""


@dataclass
class Stressor:
    """Starts the processes of a plan when they are due. Times are seconds since `begin`."""

    plan: Sequence[Stress]
    _signalled: int = 0
    _started: int = 0
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def turn(self, elapsed: float) -> None:
        """Start what is due."""
        while self._signalled < len(self.plan) and self.plan[self._signalled].signals[0] <= elapsed:
            each = self.plan[self._signalled]
            self._signalled += 1
            if each.lead:
                self._start(each.signal, each, each.lead, "steady" if each.case == "false" else "rising")
        while self._started < len(self.plan) and self.plan[self._started].start <= elapsed:
            each = self.plan[self._started]
            self._started += 1
            for _ in range(each.loops):
                self._start("loop", each, each.end - each.start, "steady")
        self._running = [process for process in self._running if process.poll() is None]

    def _start(self, program: str, each: Stress, seconds: float, course: str) -> None:
        arguments = [str(os.getpid()), str(each.core), f"{seconds:.2f}", course]
        self._running.append(subprocess.Popen([sys.executable, "-c", _PROGRAMS[program], *arguments]))

    def close(self) -> None:
        """End all processes."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()


@contextlib.contextmanager
def stressed(plan: Sequence[Stress]) -> Iterator[Stressor]:
    """A stressor that is closed at the end."""
    stressor = Stressor(plan)
    try:
        yield stressor
    finally:
        stressor.close()
