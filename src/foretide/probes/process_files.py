"""Files below /proc/<pid>. None if the process or the file does not exist."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

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
