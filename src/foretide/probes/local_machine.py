"""Counters of this host, from the files below /proc. A missing file is not an error."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from foretide.metrics.machine_metrics import CPU_MODES
from foretide.metrics.metric import Sample
from foretide.probes.machine import MachineCounters, machine_samples

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SECTOR = 512

_CORE_FIELDS = (*CPU_MODES, "guest")
_DISK_FIELDS = (
    ("reads_completed_total", 1.0),
    ("reads_merged_total", 1.0),
    ("read_bytes_total", _SECTOR),
    ("read_time_seconds_total", 0.001),
    ("writes_completed_total", 1.0),
    ("writes_merged_total", 1.0),
    ("written_bytes_total", _SECTOR),
    ("write_time_seconds_total", 0.001),
    ("io_now", 1.0),
    ("io_time_seconds_total", 0.001),
    ("io_time_weighted_seconds_total", 0.001),
)
_NETWORK_FIELDS = (
    *(
        f"receive_{name}_total"
        for name in ("bytes", "packets", "errs", "drop", "fifo", "frame", "compressed", "multicast")
    ),
    *(
        f"transmit_{name}_total"
        for name in ("bytes", "packets", "errs", "drop", "fifo", "colls", "carrier", "compressed")
    ),
)
_STAT_NAMES = {
    "ctxt": "context_switches_total",
    "intr": "intr_total",
    "processes": "forks_total",
    "procs_running": "procs_running",
    "procs_blocked": "procs_blocked",
}

Values = dict[str, float]


class LocalMachine:
    """This machine. Each call of `sample` covers the time since the last one."""

    def __init__(
        self,
        host: str,
        proc: Path = Path("/proc"),
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = host
        self._proc = proc
        self._wall = wall
        self._clock = clock
        self._before: MachineCounters | None = None

    def sample(self) -> list[Sample]:
        """Gauges, and rates since the last call."""
        before, self._before = self._before, self.read()
        return machine_samples(before, self._before)

    def read(self) -> MachineCounters:
        """The counters as they are now."""
        proc = self._proc
        stat = [line.split() for line in _lines(proc / "stat")]
        return MachineCounters(
            self.host,
            self._wall(),
            self._clock(),
            {**_system(stat), **_load(proc), **_memory(proc), **_sockets(proc), **_pressure(proc), **_files(proc)},
            _cores(stat),
            _disks(proc),
            _networks(proc),
        )


def _lines(path: Path) -> list[str]:
    """The lines of a file; none if it is missing or not readable."""
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


def _system(stat: list[list[str]]) -> Values:
    return {_STAT_NAMES[line[0]]: float(line[1]) for line in stat if line and line[0] in _STAT_NAMES}


def _cores(stat: list[list[str]]) -> dict[str, Values]:
    lines = [line for line in stat if line and line[0].startswith("cpu") and line[0] != "cpu"]
    return {
        line[0][3:]: dict(zip(_CORE_FIELDS, (int(ticks) * _TICK for ticks in line[1:]), strict=False)) for line in lines
    }


def _load(proc: Path) -> Values:
    words = " ".join(_lines(proc / "loadavg")).split()
    return dict(zip(("load1", "load5", "load15"), map(float, words[:3]), strict=False))


def _memory(proc: Path) -> Values:
    """Sizes of /proc/meminfo, which are in kB, and the paging counters of /proc/vmstat."""
    sizes = (line.split() for line in _lines(proc / "meminfo"))
    paging = (
        line.split()
        for line in _lines(proc / "vmstat")
        if line.startswith(("pgpg", "pswp", "pgfault", "pgmajfault", "oom"))
    )
    return {
        **{f"memory_{words[0][:-1]}_bytes": float(words[1]) * 1024 for words in sizes if words[-1] == "kB"},
        **{f"vmstat_{name}": float(value) for name, value in paging},
    }


def _disks(proc: Path) -> dict[str, Values]:
    disks = {}
    for line in _lines(proc / "diskstats"):
        words = line.split()
        fields = zip(_DISK_FIELDS, words[3:], strict=False)
        disks[words[2]] = {name: float(value) * scale for (name, scale), value in fields}
    return disks


def _networks(proc: Path) -> dict[str, Values]:
    networks = {}
    for line in _lines(proc / "net/dev")[2:]:
        name, _, counters = line.partition(":")
        networks[name.strip()] = dict(zip(_NETWORK_FIELDS, map(float, counters.split()), strict=False))
    return networks


def _sockets(proc: Path) -> Values:
    values = {
        f"netstat_{name}": value for file in ("snmp", "netstat") for name, value in _protocols(proc / "net" / file)
    }
    for line in _lines(proc / "net/sockstat"):
        protocol, _, rest = line.partition(":")
        words = rest.split()
        values |= {
            f"sockstat_{protocol}_{name}": float(value) for name, value in zip(words[::2], words[1::2], strict=False)
        }
    pages = values.get("sockstat_TCP_mem")
    return values if pages is None else {**values, "sockstat_TCP_mem_bytes": pages * _PAGE}


def _protocols(path: Path) -> Iterator[tuple[str, float]]:
    """These files have a line of names and then a line of values for each protocol."""
    lines = _lines(path)
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        protocol = names.partition(":")[0]
        for name, value in zip(names.split()[1:], values.split()[1:], strict=False):
            yield f"{protocol}_{name}", float(value)


def _pressure(proc: Path) -> Values:
    """Microseconds in which some, or all, work waited."""
    words = {"some": "waiting", "full": "stalled"}
    values = {}
    for resource in ("cpu", "memory", "io"):
        for line in _lines(proc / "pressure" / resource):
            kind, _, total = line.partition(" ")[0], *line.rpartition("total=")[1:]
            values[f"pressure_{resource}_{words[kind]}_seconds_total"] = float(total) / 1e6
    return values


def _files(proc: Path) -> Values:
    """Open files, and the space on the root file system."""
    words = " ".join(_lines(proc / "sys/fs/file-nr")).split()
    root = os.statvfs("/")
    space = {
        "filesystem_size_bytes": float(root.f_blocks * root.f_frsize),
        "filesystem_avail_bytes": float(root.f_bavail * root.f_frsize),
    }
    return {**space, **({"filefd_allocated": float(words[0])} if words else {})}
