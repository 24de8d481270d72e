"""Frames whose features mean the same for every pipeline and machine, so that a net can be trained before it is used.

They are few: the targets, what competes for the resources of a worker, and what the machine does. Times and rates are
compared with the median of the workers in the same frame; sizes and counts are per core or shares. All are logarithms
of 1 more, the targets too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

import numpy as np

from foretide.forecasting.forecaster import LEVELS, SeriesForecast
from foretide.forecasting.worker_frames import MachineFrame, WorkerForecast

_COMPARED = (
    "worker_tuple_execution_time_ms",
    "worker_inbound_tuples_per_second",
    "worker_inbound_queuing_time_ms",
    "worker_outbound_batch_sending_time_ms",
)
_LEVEL = (
    "worker_slowness",
    "worker_cpu_user_percent",
    "worker_cpu_system_percent",
    "worker_cpu_wait_percent",
    "worker_task_run_ms_per_second",
    "worker_task_gc_ms_per_second",
    "worker_major_faults_per_second",
    "worker_voluntary_switches_per_second",
    "worker_involuntary_switches_per_second",
)
_SHARES = (
    "machine_cpu_busy_percent",
    "machine_cpu_system_percent",
    "machine_cpu_iowait_percent",
    "machine_cpu_steal_percent",
    "machine_busiest_core_percent",
    "machine_memory_used_percent",
    "machine_cpu_pressure_percent",
    "machine_io_pressure_percent",
    "machine_memory_pressure_percent",
    "machine_disk_busy_percent",
)
_PER_CORE = ("machine_running_processes", "machine_load_1m", "machine_context_switches_per_second",
             "machine_forks_per_second", "machine_page_faults_per_second")  # fmt: skip
_BYTES = (
    "machine_disk_read_bytes_per_second",
    "machine_disk_write_bytes_per_second",
    "machine_loopback_bytes_per_second",
)
_MEGABYTE = 1e6
PORTABLE = frozenset({*_COMPARED, *_LEVEL, *_SHARES, *_PER_CORE, *_BYTES, "machine_cores"})
"""The metrics that portable frames are made of, besides the targets."""


def portable(frame: MachineFrame | None, targets: Iterable[str]) -> MachineFrame | None:
    """The portable features of a frame, and its targets as logarithms."""
    if frame is None:
        return None
    medians = {name: _middle(worker[name] for worker in frame.workers.values() if name in worker) for name in _COMPARED}
    workers = {name: _worker(worker, medians, frozenset(targets)) for name, worker in frame.workers.items()}
    return MachineFrame(_machine(frame.machine), workers)


def _worker(worker: Mapping[str, float], medians: Mapping[str, float], targets: frozenset[str]) -> dict[str, float]:
    found = {name: _log(worker[name]) for name in {*_LEVEL, *targets} if name in worker}
    compared = {f"{name} compared": _log(worker[name]) - medians[name] for name in _COMPARED if name in worker}
    return found | compared


def _machine(machine: Mapping[str, float]) -> dict[str, float]:
    cores = max(machine.get("machine_cores", 1.0), 1.0)
    scales = dict.fromkeys(_SHARES, 1.0) | dict.fromkeys(_PER_CORE, cores) | dict.fromkeys(_BYTES, _MEGABYTE)
    return {name: _log(machine[name] / scale) for name, scale in scales.items() if name in machine}


def _middle(values: Iterable[float]) -> float:
    known = [_log(value) for value in values]
    return median(known) if known else 0.0


def _log(value: float) -> float:
    return float(np.log1p(max(value, 0.0)))


_WEIGHTS = np.diff(np.concatenate([[0.0], (LEVELS[1:] + LEVELS[:-1]) / 2, [1.0]]))


def plain_values(ahead: WorkerForecast) -> WorkerForecast:
    """A forecast of logarithms as one of the values: the mean is that over the quantiles."""
    return {
        worker: {target: _plain(forecast) for target, forecast in targets.items()} for worker, targets in ahead.items()
    }


def _plain(forecast: SeriesForecast) -> SeriesForecast:
    quantiles = np.expm1(forecast.quantiles)
    return SeriesForecast(quantiles @ _WEIGHTS, quantiles)
