"""Plots of runs are written in the format of their path, also where little is known."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from foretide.apps.foresight import Change, Side
from foretide.errors import FileError
from foretide.reports import plots
from foretide.reports.plots import (
    BatchRow,
    Disturbances,
    LatencyRun,
    PlottedRun,
    check_output_file,
    draw_comparison,
    draw_foresight,
    draw_latencies,
    draw_partitions,
    draw_run,
)


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


def drawn_by_foresight(monkeypatch, tmp_path, **options):
    """The axes of the picture of two runs."""
    figures = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, _: figures.append(figure))
    batches = ((1.0, 10, 0.2), (40.0, 10, 0.3))
    off = Side("off", batches, 0.3, 9.0, 0, (Change(32.0, 4, False, ""), Change(38.0, 2, False, "")))
    on = Side("on", batches, 0.3, 9.0, 0, (Change(20.0, 6, True, ""),), (), ((10.0, 90.0, 110.0), (30.0, 500.0, 700.0)))
    draw_foresight([(0.0, 100.0), (28.0, 600.0)], [off, on], tmp_path / "both.png", **options)
    return figures[0].axes


def test_the_picture_of_foresight_names_decisions_and_draws_the_forecast_against_what_came(monkeypatch, tmp_path):
    due, replicas, latency = drawn_by_foresight(monkeypatch, tmp_path, target=2.0, ahead=8.0)
    assert [text.get_text() for text in replicas.texts] == ["+3, measured", "+5, forecast"]
    [band] = due.collections
    assert band.get_label() == "80 % interval, forecast 8 s before"
    assert band.get_datalim(due.transData).intervaly.tolist() == [90.0, 700.0]
    assert replicas.lines[0].get_xydata().tolist() == [[0.0, 1.0], [32.0, 4.0], [38.0, 2.0], [40.0, 2.0]]
    assert latency.lines[-1].get_label() == "target: 2 s"
    assert latency.get_ylim()[1] > 2.0


def test_without_a_target_there_is_no_line(monkeypatch, tmp_path):
    latency = drawn_by_foresight(monkeypatch, tmp_path)[2]
    assert [line.get_label() for line in latency.lines] == ["off", "on"]


def test_a_batch_knows_its_rate():
    assert batch(1).rate == 8.0
    assert BatchRow(1, 0, 0.0, 0.0, None, None, None, None, None, ()).rate == 0.0


SUFFIXES = (".png", ".svg")


@pytest.mark.parametrize("name", ["run.png", "run.SVG", "there.png", "\udcff.png"])
def test_a_file_that_can_be_written_passes_and_nothing_is_left(tmp_path, name):
    (tmp_path / "there.png").write_bytes(b"kept")
    check_output_file(tmp_path / name, SUFFIXES)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"there.png": b"kept"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder.png", "not a regular file"),
        ("nowhere/run.png", "'.*nowhere' does not exist"),
        ("file.png/run.png", "cannot be written"),
        ("n" * 300 + ".png", "cannot be written"),
        ("a\0b.png", "name is not valid|cannot be written"),
        ("run.doc", "must end in .png or .svg"),
        ("run", "must end in .png or .svg"),
        (".", "must end in .png or .svg"),
        ("pipe.png", "not a regular file"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path, name, reason):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file.png").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(FileError, match=reason) as refused:
        check_output_file(tmp_path / name, SUFFIXES)
    assert Path(refused.value.path) == tmp_path / name


def test_the_load_of_partitions_is_drawn_for_each_plan(tmp_path):
    pytest.importorskip("matplotlib")
    draw_partitions({"by the hash alone": (0.9, 0.1), "by the plan": (0.5, 0.5)}, tmp_path / "loads.svg")
    text = (tmp_path / "loads.svg").read_text(encoding="utf-8")
    assert text.count("<path") > 4


def test_the_target_is_part_of_the_plots(tmp_path):
    pytest.importorskip("matplotlib")
    batches = [BatchRow(n, 10, 1.0, float(n), 0.5, 0.9, 0, 1, (5, 5), (), float(n)) for n in range(3)]
    draw_run(batches, tmp_path / "without.svg", "work")
    draw_run(batches, tmp_path / "with.svg", "work", target=2.0)
    assert (tmp_path / "with.svg").stat().st_size > (tmp_path / "without.svg").stat().st_size


def test_latencies_are_drawn_with_the_target_up_to_the_last_second_of_the_load(tmp_path):
    pytest.importorskip("matplotlib")
    seconds = [(at + 0.5, 5.0, 20.0 + at) for at in range(10)]
    runs = [LatencyRun("without control", seconds), LatencyRun("with control", seconds, [4.0])]
    draw_latencies(runs, 3.0, 100.0, tmp_path / "plain.svg")
    late = [replace(run, decided_at=(*run.decided_at, 80.0)) for run in runs]
    draw_latencies(late, 3.0, 100.0, tmp_path / "late.svg")
    draw_latencies(runs[:1], None, None, tmp_path / "bare.svg")
    assert (tmp_path / "bare.svg").stat().st_size < (tmp_path / "plain.svg").stat().st_size
    plain, late = ((tmp_path / name).read_text(encoding="utf-8").count("<path") for name in ("plain.svg", "late.svg"))
    assert plain == late  # a decision after the end of the load is not drawn
