"""The process of a worker, by /proc: the JVM and the Python processes below it.

Totals of the whole tree include children that have ended: once its parent has waited for a child, the kernel adds the
child's counters to the parent's. That requires that each parent is read before its children, and that none ends in
between; a reading in which one did has no totals.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from foretide.metrics.metric import Reading, Rule, Sample, samples
from foretide.metrics.worker_metrics import PROCESS_RULES

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CHUNK = 1 << 16
_LISTS_CHILDREN = Path("/proc/thread-self/children").exists()
"""Whether the kernel lists children by thread, which is much cheaper than reading every process."""


@dataclass(frozen=True, slots=True)
class Stat:
    """A process, by /proc/<pid>/stat. Times are whole ticks, so that sums of them are exact."""

    command: str
    state: str
    parent: int
    started: int
    threads: int
    user_ticks: int
    system_ticks: int
    reaped_user_ticks: int
    reaped_system_ticks: int
    minor_faults: float
    major_faults: float
    virtual_bytes: float
    rss_bytes: float

    @property
    def ended(self) -> bool:
        """Whether only the entry in the process table is left."""
        return self.state in "ZX"


@dataclass(frozen=True, slots=True)
class ThreadCounters:
    """Context switches of one thread, and the seconds it was ready without a core (None if unknown)."""

    voluntary: float
    involuntary: float
    waited_seconds: float | None


def read_bytes(path: str) -> bytes | None:
    """A small file. Plain system calls, as a worker has hundreds of these files."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(file, _CHUNK)
    except OSError:
        return None
    finally:
        os.close(file)


def read_stat(pid: int) -> Stat | None:
    """The process. Its name is in brackets and may contain anything, brackets and spaces included."""
    text = read_bytes(f"/proc/{pid}/stat")
    if not text:
        return None
    head, _, tail = text.decode(errors="replace").rpartition(")")
    words = tail.split()
    return Stat(
        command=head.partition("(")[2],
        state=words[0],
        parent=int(words[1]),
        started=int(words[19]),
        threads=int(words[17]),
        user_ticks=int(words[11]),
        system_ticks=int(words[12]),
        reaped_user_ticks=int(words[13]),
        reaped_system_ticks=int(words[14]),
        minor_faults=float(int(words[7]) + int(words[8])),
        major_faults=float(int(words[9]) + int(words[10])),
        virtual_bytes=float(words[20]),
        rss_bytes=float(int(words[21]) * _PAGE),
    )


def read_io(pid: int) -> dict[str, float] | None:
    """Bytes and calls of a process and of the children it has waited for; None for processes of other users."""
    text = read_bytes(f"/proc/{pid}/io")
    if not text:
        return None
    pairs = (line.split(b": ") for line in text.splitlines())
    return {name.decode(): float(value) for name, value in pairs}


def read_swap(pid: int) -> float | None:
    """Bytes that are swapped out."""
    return _status_number(read_bytes(f"/proc/{pid}/status"), b"VmSwap:", 1024)


def count_open_files(pid: int) -> float | None:
    """Open files, sockets and pipes; None for processes of other users."""
    try:
        return float(len(os.listdir(f"/proc/{pid}/fd")))  # noqa: PTH208

    except OSError:
        return None


def thread_ids(pid: int) -> list[int]:
    """The threads of a process; none if it has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    except OSError:
        return []


def read_thread(pid: int, thread: int) -> ThreadCounters | None:
    """The counters of a thread. The file of the process has those of its first thread alone."""
    status = read_bytes(f"/proc/{pid}/task/{thread}/status")
    voluntary = _status_number(status, b"\nvoluntary_ctxt_switches:")
    involuntary = _status_number(status, b"nonvoluntary_ctxt_switches:")
    if voluntary is None or involuntary is None:
        return None
    schedule = (read_bytes(f"/proc/{pid}/task/{thread}/schedstat") or b"").split()
    return ThreadCounters(voluntary, involuntary, int(schedule[1]) / 1e9 if len(schedule) > 1 else None)


def child_ids(pid: int) -> list[int]:
    """The children of a process."""
    if _LISTS_CHILDREN:
        texts = (read_bytes(f"/proc/{pid}/task/{thread}/children") for thread in thread_ids(pid))
        return [int(word) for text in texts for word in (text or b"").split()]
    stats = ((other, read_stat(other)) for other in process_ids())
    return [other for other, stat in stats if stat is not None and stat.parent == pid]


def process_ids() -> list[int]:
    """Every process of this host."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _status_number(status: bytes | None, name: bytes, scale: float = 1.0) -> float | None:
    rest = (status or b"").partition(name)[2].split(maxsplit=1)
    return float(rest[0]) * scale if rest else None


MAX_WALKS = 3
"""Maximum of attempts to read the tree while no child ends."""

_JAVA = "java"
_NEW = ThreadCounters(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ProcessCounters:
    """The counters of a worker at one moment. Unknown counters are absent.

    `apart` are other JVMs below this one, such as executors of a driver, which are workers themselves.
    """

    at: float
    clock: float
    values: Mapping[str, float] = field(default_factory=dict)
    threads: Mapping[int, ThreadCounters] = field(default_factory=dict)
    apart: frozenset[int] = frozenset()


def process_samples(
    subject: str, before: ProcessCounters | None, after: ProcessCounters, rules: tuple[Rule, ...] = PROCESS_RULES
) -> list[Sample]:
    """Gauges, and rates since the last reading.

    When another JVM below has ended, the kernel adds all its counters to this one. That is not a rate of this worker,
    so there are gauges alone.
    """
    if before is None or before.apart - after.apart:
        return samples(rules, subject, None, Reading(after.at, after.clock, after.values))
    grown = _thread_growth(before.threads, after.threads)
    earlier = Reading(before.at, before.clock, {**dict.fromkeys(grown, 0.0), **before.values})
    return samples(rules, subject, earlier, Reading(after.at, after.clock, {**grown, **after.values}))


def _thread_growth(before: Mapping[int, ThreadCounters], after: Mapping[int, ThreadCounters]) -> dict[str, float]:
    """The growth of the counters of all threads. A new thread, also one with a reused id, starts at zero."""
    if not before or not after:
        return {}
    pairs = [(before.get(thread, _NEW), later) for thread, later in after.items()]
    grown = {
        "voluntary": sum(_since(earlier.voluntary, later.voluntary) for earlier, later in pairs),
        "involuntary": sum(_since(earlier.involuntary, later.involuntary) for earlier, later in pairs),
    }
    if any(later.waited_seconds is None for later in after.values()):
        return grown
    waited = sum(_since(earlier.waited_seconds or 0.0, later.waited_seconds or 0.0) for earlier, later in pairs)
    return {**grown, "waited_seconds": waited}


def _since(earlier: float, later: float) -> float:
    return later if earlier > later else later - earlier


class ProcessProbe:
    """One process until it ends. A later process with the same id is told apart."""

    def __init__(
        self, pid: int, wall: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.pid = pid
        self._wall = wall
        self._clock = clock
        stat = read_stat(pid)
        self._started = None if stat is None else stat.started

    @property
    def gone(self) -> bool:
        """Whether the process has ended."""
        stat = read_stat(self.pid)
        return stat is None or stat.ended or stat.started != self._started

    def read(self) -> ProcessCounters:
        """The current counters; of a process that ends meanwhile, those that could still be read."""
        if self.gone:
            return ProcessCounters(self._wall(), self._clock())
        for _ in range(MAX_WALKS):
            at, clock = self._wall(), self._clock()
            tree = _Tree(self.pid)
            if tree.whole:
                break
        return ProcessCounters(at, clock, tree.values(), tree.threads, frozenset(tree.apart))


class _Tree:
    """A walk from a process down to its last child, each parent before its children."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.stats: dict[int, Stat] = {}
        self.io: list[dict[str, float] | None] = []
        self.threads: dict[int, ThreadCounters] = {}
        self.apart: set[int] = set()
        self.whole = True
        waiting = [root]
        for pid in waiting:
            waiting += self._visit(pid)

    def _visit(self, pid: int) -> list[int]:
        """Read one process; returns its children, which are listed before it is read (see the module's docstring)."""
        first = read_stat(pid)
        if first is not None and first.command == _JAVA and pid != self.root:
            self.apart.add(pid)
            return []
        children = child_ids(pid)
        stat = read_stat(pid)
        if stat is None or (stat.ended and pid == self.root):
            self.whole = False
            return []
        self.stats[pid] = stat
        self.io.append(read_io(pid))
        counters = ((thread, read_thread(pid, thread)) for thread in thread_ids(pid))
        self.threads |= {thread: found for thread, found in counters if found is not None}
        return children

    def values(self) -> dict[str, float]:
        """All counters by name."""
        own = self.stats.get(self.root)
        if own is None:
            return {}
        below = [stat for pid, stat in self.stats.items() if pid != self.root]
        values = {
            "rss_bytes": own.rss_bytes,
            "virtual_bytes": own.virtual_bytes,
            "threads": float(own.threads),
            "children": float(len(below)),
            "children_rss_bytes": sum(stat.rss_bytes for stat in below),
            "children_threads": float(sum(stat.threads for stat in below)),
            **self._summed_gauges(),
        }
        return {**values, **self._totals(own, below)} if self.whole else values

    def _summed_gauges(self) -> dict[str, float]:
        """Gauges that are known only if they are known of each process."""
        swap, files = [read_swap(pid) for pid in self.stats], [count_open_files(pid) for pid in self.stats]
        found = {"swap_bytes": swap, "open_files": files}
        return {name: sum(filter(None, known)) for name, known in found.items() if None not in known}

    def _totals(self, own: Stat, below: list[Stat]) -> dict[str, float]:
        """Counters of the whole tree, and of the children in it."""
        user = own.reaped_user_ticks + sum(stat.user_ticks + stat.reaped_user_ticks for stat in below)
        system = own.reaped_system_ticks + sum(stat.system_ticks + stat.reaped_system_ticks for stat in below)
        totals: dict[str, float] = {
            "user_seconds": (own.user_ticks + user) / TICKS_PER_SECOND,
            "system_seconds": (own.system_ticks + system) / TICKS_PER_SECOND,
            "children_user_seconds": user / TICKS_PER_SECOND,
            "children_system_seconds": system / TICKS_PER_SECOND,
            "minor_faults": own.minor_faults + sum(stat.minor_faults for stat in below),
            "major_faults": own.major_faults + sum(stat.major_faults for stat in below),
        }
        known = [io for io in self.io if io is not None]
        if len(known) == len(self.io):
            for io in known:
                for name, value in io.items():
                    totals[name] = totals.get(name, 0.0) + value
        return totals
