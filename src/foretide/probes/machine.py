"""Metrics of a machine, from two readings of its counters; those of this host are in files below /proc."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from foretide.metrics.machine_metrics import BUSIEST_CORE, CORE_RULES, CPU_MODES, HOST_RULES
from foretide.metrics.metric import Reading, Sample, samples

Devices = Mapping[str, Mapping[str, float]]
"""Counters by device: cores, disks, interfaces."""

_NOT_DISKS = re.compile(r"(z?ram|loop|fd|sr|dm-|md)\d+|((h|s|v|xv)d[a-z]+|nvme\d+n\d+p|mmcblk\d+p)\d+")
"""Devices that are not disks, or partitions or unions of disks that are counted already."""

_NOT_INTERFACES = re.compile(r"lo|(veth|docker|br-|virbr|cni|flannel|cali|ifb|dummy|tun|tap|lxc|kube).*")
"""Interfaces whose packets never leave the host, or leave it through another interface."""

_LOOPBACK = "lo"


@dataclass(frozen=True, slots=True)
class MachineCounters:
    """The counters of one host at one moment, named as node_exporter names them. Unknown counters are absent.

    `at` is the time of day, `clock` counts seconds for rates. `cores` hold seconds by mode.
    """

    host: str
    at: float
    clock: float
    values: Mapping[str, float]
    cores: Devices
    disks: Devices
    networks: Devices


def machine_samples(before: MachineCounters | None, after: MachineCounters) -> list[Sample]:
    """The samples of a host and its cores; of a first reading, and after a restart, gauges alone.

    Only devices that are in both readings count, as one that appears or disappears is not a burst of work.
    """
    earlier = None if before is None or _restarted(before, after) else before
    cores = [sample for name in after.cores for sample in _core_samples(name, earlier, after)]
    summed = None if earlier is None else _summed(earlier, after)
    host = samples(HOST_RULES, after.host, summed, _summed(after, earlier))
    return [*host, *_busiest(cores, after), *cores]


def _restarted(before: MachineCounters, after: MachineCounters) -> bool:
    """Context switches never stop growing while a machine runs."""
    key = "context_switches_total"
    return after.values.get(key, 0.0) < before.values.get(key, 0.0)


def _core_samples(name: str, before: MachineCounters | None, after: MachineCounters) -> list[Sample]:
    earlier = None
    if before is not None and name in before.cores:
        earlier = Reading(before.at, before.clock, _with_sums(before.cores[name]))
    later = Reading(after.at, after.clock, _with_sums(after.cores[name]))
    return samples(CORE_RULES, f"{after.host}/core{name}", earlier, later)


def _busiest(cores: Collection[Sample], after: MachineCounters) -> Iterator[Sample]:
    busy = [sample.value for sample in cores if sample.metric == "machine_core_busy_percent"]
    if busy:
        yield Sample(BUSIEST_CORE.name, after.host, after.at, max(busy))


def _summed(counters: MachineCounters, other: MachineCounters | None) -> Reading:
    """All counters of the host in one reading, devices summed over those that both readings have."""
    partner = counters if other is None else other
    cores = _total(counters.cores, counters.cores.keys() & partner.cores.keys())
    disks = _total(counters.disks, _in_both(counters.disks, partner.disks, _NOT_DISKS))
    networks = _total(counters.networks, _in_both(counters.networks, partner.networks, _NOT_INTERFACES))
    loopback = counters.networks.get(_LOOPBACK, {})
    values = {
        **_with_derived(counters.values),
        **({"cores": float(len(counters.cores))} if counters.cores else {}),
        **{f"cpu_{mode}": seconds for mode, seconds in _with_sums(cores).items()},
        **{f"disk_{key}": value for key, value in disks.items()},
        **{f"network_{key}": value for key, value in networks.items()},
        **{f"loopback_{key}": value for key, value in loopback.items()},
    }
    return Reading(counters.at, counters.clock, values)


def _in_both(devices: Devices, others: Devices, excluded: re.Pattern[str]) -> set[str]:
    return {name for name in devices.keys() & others.keys() if not excluded.fullmatch(name)}


def _total(devices: Devices, names: Collection[str]) -> dict[str, float]:
    """Each counter summed over the named devices, always in one order: so rounding cannot make a sum fall."""
    total: dict[str, float] = {}
    for name in sorted(names):
        for key, value in devices[name].items():
            total[key] = total.get(key, 0.0) + value
    return total


def _with_sums(modes: Mapping[str, float]) -> dict[str, float]:
    """A core's seconds by mode, with the sums that its metrics need; empty if modes are missing.

    Nothing is subtracted: rounding would make a constant sum seem to fall.
    """
    if not {"user", "system", "idle"} <= modes.keys():
        return {}
    busy = sum(modes.get(mode, 0.0) for mode in CPU_MODES if mode not in {"idle", "iowait"})
    return {
        **modes,
        "total": busy + modes["idle"] + modes.get("iowait", 0.0),
        "busy": busy,
        "user_or_nice": modes["user"] + modes.get("nice", 0.0),
        "kernel": modes["system"] + modes.get("irq", 0.0) + modes.get("softirq", 0.0),
    }


def _with_derived(values: Mapping[str, float]) -> dict[str, float]:
    """The counters, with those derived from them."""
    found = {
        "memory_used_bytes": _difference(values, "memory_MemTotal_bytes", "memory_MemAvailable_bytes"),
        "memory_used_share": _used(values, "memory_MemTotal_bytes", "memory_MemAvailable_bytes"),
        "memory_committed_share": _share(values, "memory_Committed_AS_bytes", "memory_CommitLimit_bytes"),
        "memory_swap_used_bytes": _difference(values, "memory_SwapTotal_bytes", "memory_SwapFree_bytes"),
        "filesystem_used_share": _used(values, "filesystem_size_bytes", "filesystem_avail_bytes"),
    }
    return {**values, **{key: value for key, value in found.items() if value is not None}}


def _difference(values: Mapping[str, float], whole: str, part: str) -> float | None:
    return max(0.0, values[whole] - values[part]) if whole in values and part in values else None


def _share(values: Mapping[str, float], part: str, whole: str) -> float | None:
    return values[part] / values[whole] if part in values and values.get(whole) else None


def _used(values: Mapping[str, float], whole: str, left: str) -> float | None:
    share = _share(values, left, whole)
    return None if share is None else max(0.0, 1.0 - share)


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
