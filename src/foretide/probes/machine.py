"""Metrics of a machine, from two readings of its counters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

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
