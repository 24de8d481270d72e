"""`foretide run` as a process with Spark: it ends cleanly on a signal, and a supervised driver comes back."""

from __future__ import annotations

import json
import os
import signal

import pytest
from typer.testing import CliRunner

from cli.processes import pipeline_of, running
from foretide.cli.main import app
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.supervision import read_supervisor
from foretide.probes.process import read_stat
from foretide.runtime.shutdown import descendants
from foretide.status.pipelines import list_running, read_state
from helpers import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.apart]


def driver_after(batch, folder, process):
    """The process of a pipeline that has committed that many batches."""

    def found():
        if process.poll() is not None:
            pytest.fail(process.communicate()[1])
        if (supervisor := read_supervisor(folder)) is not None and supervisor.restarts > 1:
            pytest.fail((folder.parents[1] / "spark.log").read_text(encoding="utf-8"))
        status = ControlFolder(str(folder)).status.pipeline() if folder.is_dir() else None
        alive = [each.pid for each in list_running() if each.control_folder == str(folder)]
        return alive if status is not None and status.batch >= batch else None

    return wait_for(found)[0]


def interrupt(process, number):
    """What a command says that a signal ends; none of its processes is left."""
    below = descendants(process.pid)
    assert len(below) > 2  # the JVM and its Python processes
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + number, said
    assert [pid for pid in below if (stat := read_stat(pid)) is not None and not stat.ended] == []
    assert list_running() == []
    return said


@pytest.fixture
def temporary(tmp_path):
    """A folder for temporary files, in which nothing of Foretide is left."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    yield str(folder)
    assert [each.name for each in folder.iterdir() if each.name.startswith("foretide")] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_interrupted_stops_its_pipeline_and_leaves_nothing(tmp_path, temporary, number):
    arguments = ("run", "url-count", "--duration", "5m", "--rate", "300", "--output", tmp_path / "out")
    with running(*arguments, TMPDIR=temporary) as process:
        driver_after(1, tmp_path / "out" / "checkpoint" / "foretide", process)
        said = interrupt(process, number)
    assert f"foretide: interrupted by {number.name}; the pipeline was stopped after batch " in said
    commits = {each.name for each in (tmp_path / "out" / "checkpoint" / "commits").iterdir() if each.name.isdigit()}
    last = max(map(int, commits))
    assert f"after batch {last}\n" in said


def test_a_demonstration_that_is_ended_by_sigterm_leaves_nothing(tmp_path, temporary):
    plot, report = tmp_path / "plot.png", tmp_path / "report.html"
    files = ("--plot", plot, "--report", report)
    arguments = ("demo", "url-count", "--mode", "micro-batch", "--rate", "100", *files)
    with running(*arguments, TMPDIR=temporary) as process:
        pipeline_of(process)
        assert "foretide: interrupted by SIGTERM" in interrupt(process, signal.SIGTERM)
    assert not plot.exists()
    assert not report.exists()


def test_a_demonstration_that_is_stopped_is_judged_by_the_rows_that_it_took(tmp_path):
    """The run that would have followed is left out."""
    files = ("--plot", tmp_path / "plot.png", "--report", tmp_path / "report.html")
    load = ("--mode", "micro-batch", "--duration", "10m", "--rate", "100")
    with running("demo", "url-count", *load, *files, "--json") as process:
        pipeline_of(process, "demo-url-count")
        assert CliRunner().invoke(app, ["stop", "demo-url-count"]).exit_code == 0
        printed, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    (run,) = json.loads(printed)
    assert (run["run"], run["stopped"], run["control"]) == ("control off", True, None)
    found = run["verification"]
    assert (found["missing"], found["surplus"]) == (0, 0)
    assert 0 < found["handed_out"] < 60_000
    assert "executor 0 is slowed down" not in said


def test_a_supervised_driver_that_is_killed_comes_back_and_loses_nothing(tmp_path):
    folder = tmp_path / "out" / "checkpoint" / "foretide"
    arguments = ("run", "url-count", "--duration", "20s", "--rate", "300", "--output", tmp_path / "out")
    with running(*arguments, "--supervise", "--json") as process:
        driver = driver_after(2, folder, process)
        assert driver != process.pid
        with running("run", "url-count") as second:
            _, refused = second.communicate(timeout=120)
        assert second.returncode == 1
        assert f"'url-count' is already running (process {process.pid}, control folder '{folder}')" in refused
        os.killpg(driver, signal.SIGKILL)
        wait_for(lambda: read_supervisor(folder).restarts == 1 or process.poll() is not None)
        again = driver_after(2, folder, process)
        assert again != driver
        assert read_state(ControlFolder(str(folder))).supervisor.last_exit == "was killed by SIGKILL"
        printed, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    summary = json.loads(printed)
    assert (summary["missing"], summary["surplus"], summary["stopped"]) == (0, 0, False)
    assert summary["result_rows"] == summary["expected_rows"] > 0
    assert "the driver was killed by SIGKILL; it is started again from its checkpoint in 1 s" in said
    assert read_supervisor(folder).ended
