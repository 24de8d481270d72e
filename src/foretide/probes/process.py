"""The process of a worker: the JVM and the Python processes below it.

Totals of the whole tree include children that have ended: once its parent has waited for a child, the kernel adds the
child's counters to the parent's. That requires that each parent is read before its children, and that none ends in
between; a reading in which one did has no totals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from foretide.metrics.metric import Reading, Rule, Sample, samples
from foretide.metrics.worker_metrics import PROCESS_RULES
from foretide.probes.process_files import (
    TICKS_PER_SECOND,
    Stat,
    ThreadCounters,
    child_ids,
    count_open_files,
    read_io,
    read_stat,
    read_swap,
    read_thread,
    thread_ids,
)

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
