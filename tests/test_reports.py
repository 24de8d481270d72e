"""Plots of runs are written in the format of their path, also where little is known."""

import pytest

from foretide.reports import BatchRow, Disturbances, PlottedRun, draw_comparison, draw_run


def batch(number, per_task=(3, 1), p99=0.5):
    return BatchRow(number, 4, 0.5, float(number), 0.25, p99, 0, 1, per_task, (), ended=number + 0.5)


BATCHES = [batch(number) for number in range(5)]


@pytest.mark.parametrize("batches", [BATCHES, [batch(1, per_task=None)], [batch(1, p99=None)]])
def test_a_run_is_drawn(tmp_path, batches):
    draw_run(batches, tmp_path / "new" / "run.png", "work")
    assert (tmp_path / "new" / "run.png").read_bytes().startswith(b"\x89PNG")


def test_two_runs_are_compared(tmp_path):
    off, on = PlottedRun("off", BATCHES), PlottedRun("on", BATCHES, [2.0], [(3.0, 10.0)])
    draw_comparison([off, on], Disturbances(1.0, 3.0, 5.0), tmp_path / "both.svg")
    drawn = (tmp_path / "both.svg").read_text()
    assert drawn.startswith("<?xml")


def test_a_batch_knows_its_rate():
    assert batch(1).rate == 8.0
    assert BatchRow(1, 0, 0.0, 0.0, None, None, None, None, None, ()).rate == 0.0
