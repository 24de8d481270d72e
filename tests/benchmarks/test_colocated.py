import numpy as np
import pytest
from benchmarks.generators.colocated import colocated_steps

from foretide.errors import WorkloadError


def column(steps, feature):
    return np.array([[worker[feature] for worker in step.workers.values()] for step in steps])


def test_a_seed_says_all_and_every_figure_is_a_measurement():
    made = colocated_steps(3, 50, workers=3)
    assert made == colocated_steps(3, 50, workers=3)
    assert made != colocated_steps(4, 50, workers=3)
    assert {name for step in made for name in step.workers} == {"w0", "w1", "w2"}
    assert all(value >= 0 for step in made for worker in step.workers.values() for value in worker.values())


def test_workers_never_use_more_than_the_cores_but_for_noise():
    used = column(colocated_steps(1, 500, workers=4, cores=2.0), "cpu").sum(axis=1)
    assert used.max() < 2.0 * 1.15


def test_foreign_load_is_read_from_disk_before_it_makes_workers_wait():
    made = colocated_steps(2, 2000, workers=4)
    disk = np.array([step.machine["disk"] for step in made])
    waiting = column(made, "queuing_time").mean(axis=1)
    assert np.corrcoef(disk[:-1], waiting[1:])[0, 1] > 0.4
    assert np.corrcoef(disk[:-1], waiting[1:])[0, 1] > np.corrcoef(disk[10:], waiting[:-10])[0, 1] + 0.2


def test_a_machine_without_workers_is_refused():
    with pytest.raises(WorkloadError, match="workers"):
        colocated_steps(1, 10, workers=0)
