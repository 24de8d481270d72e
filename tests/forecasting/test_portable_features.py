"""Portable features: the same numbers for a pipeline twice as fast and a machine twice as large."""

import numpy as np
import pytest

from foretide.forecasting.forecaster import LEVELS, SeriesForecast
from foretide.forecasting.portable_features import PORTABLE, plain_values, portable
from foretide.forecasting.worker_frames import MachineFrame
from foretide.metrics.catalogue import CATALOGUE

TARGET = "worker_slowness"


def frame(scale=1.0, cores=2.0):
    workers = {
        name: {"worker_inbound_tuples_per_second": 500.0 * scale * part, TARGET: part, "worker_heap_bytes": 1e9}
        for name, part in (("1", 1.0), ("2", 2.0), ("3", 4.0))
    }
    machine = {"machine_cores": cores, "machine_running_processes": 3.0 * cores, "machine_cpu_busy_percent": 50.0}
    return MachineFrame(machine, workers)


def test_every_portable_metric_is_in_the_catalogue():
    assert CATALOGUE.keys() >= PORTABLE


def test_scale_and_cores_do_not_matter():
    small, large = portable(frame(), [TARGET]), portable(frame(10.0, 64.0), [TARGET])
    assert small.machine == large.machine
    for name, worker in small.workers.items():
        assert large.workers[name] == pytest.approx(worker, abs=0.01)
        assert "worker_heap_bytes" not in worker
    assert small.workers["3"][TARGET] == pytest.approx(np.log1p(4.0))
    assert small.workers["2"]["worker_inbound_tuples_per_second compared"] == 0.0
    assert portable(None, [TARGET]) is None


def test_a_forecast_of_logarithms_becomes_one_of_values():
    errors = np.linspace(-1.0, 1.0, len(LEVELS))
    logs = SeriesForecast(np.array([1.0]), 1.0 + errors[None])
    plain = plain_values({"w": {TARGET: logs}})["w"][TARGET]
    assert plain.median[0] == pytest.approx(np.expm1(1.0))
    assert plain.mean[0] > plain.median[0]  # a logarithm is as far from it on both sides, its value is not
