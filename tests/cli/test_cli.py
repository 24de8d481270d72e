"""The command line, as a person uses it; routes of a running pipeline from another terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from importlib.metadata import version

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import foretide as ft
from foretide.cli.main import app
from foretide.probes.workers import find_executors
from foretide.store.metric_store import MetricStore
from foretide.workloads.keyed import Keyed
from helpers import environment, wait_for

COMMAND = [sys.executable, "-m", "foretide"]

pytestmark = pytest.mark.apart


def say(*arguments, code=0):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.output


def in_another_terminal(*arguments, code=0):
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_help_lists_every_command_as_the_command_describes_itself():
    listed = say("--help")
    for name, command in get_command(app).commands.items():
        assert name in listed
        assert command.load().help.splitlines()[0] == command.help, name


def test_a_command_that_is_not_there_is_answered_with_similar_ones():
    assert "No such command 'statos'" in say("statos", code=2)


def test_the_version_is_printed():
    assert say("--version") == f"foretide {version('foretide')}\n"


def test_the_applications_are_listed():
    assert "url-count" in say("apps")
    queries = {f"nexmark-q{number}" for number in (0, 1, 2, 5, 7, 11, 12)}
    papers = {
        "url-count", "url-count-sliding", "continuous-queries", "continuous-queries-scan", "unique-users",
        "word-count",
        "twitter-classification", "twitter-branches", "dns-classification", "log-events", "taxi-join",
        "frequent-patterns", "logo-detection",
    }  # fmt: skip
    assert set(json.loads(say("apps", "--json"))) == papers | queries


def test_a_topology_is_drawn_for_a_terminal_and_as_mermaid():
    drawn = say("topology", "show", "url-count")
    assert all(
        part in drawn for part in ("(requests)", "extract x3", "dynamic(row)", "global", "sink: extract.malformed")
    )
    mermaid = say("topology", "show", "url-count", "--mermaid")
    assert mermaid.startswith("flowchart LR")
    assert 'c_extract -->|"urls: dynamic"| c_partial' in mermaid
    assert 'c_merge -->|"merge"| sink' in mermaid


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topology", "show", "nope"), "choose one of url-count"),
        (("route", "show"), "no pipeline runs on this machine"),
        (("route", "set", "work", "1:2", "--app", "nope"), "no pipeline runs on this machine"),
        (("run", "nope"), "choose one of url-count"),
        (("run", "url-count", "--ratio", "1:2"), "2 weights for a pool of 3"),
        (("run", "url-count", "--output", "."), "is not empty"),
        (("route", "show", "--control-folder", "nowhere"), "is not a control folder"),
        (("admission", "set", "numbers", "5", "--control-folder", "nowhere"), "is not a control folder"),
    ],
)
def test_errors_are_one_clear_sentence(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # Typer puts its own there
    with pytest.raises(SystemExit) as ended:
        app(arguments)
    assert ended.value.code == 1
    heard = capsys.readouterr().err
    assert heard.startswith("foretide: ")
    assert said in heard.replace("\n", " ")


def test_an_error_in_a_terminal_comes_without_a_traceback():
    heard = in_another_terminal("topology", "show", "nope", code=1)
    assert heard.startswith("foretide: ")
    assert "Traceback" not in heard


def test_routes_of_a_running_pipeline_are_shown_and_set_from_another_terminal(start):
    source = ft.Replay(Keyed(seed=1), ft.Curve.constant(2_000_000, 1), paced=False, max_rows=2000)
    work = ft.Bolt("work", lambda df: df.select("value"), [ft.From("numbers", ft.Dynamic())], pool=3)
    pipeline = start(ft.Topology("far", [ft.Spout("numbers", source)], [work]), trigger="1 second")
    wait_for(lambda: pipeline.reports, pipeline)
    said = json.loads(in_another_terminal("route", "set", "work", "4:3:1", "--json"))
    held = said.pop("held")
    assert said == {"edge": "work", "version": 2, "shares": [0.5, 0.375, 0.125]}
    assert (held["words"], held["until"]) == ("split 4:3:1", None)
    wait_for(lambda: pipeline.reports[-1].route_version == 2, pipeline)
    wait_for(lambda: pipeline.control_folder.status.pipeline().route_version == 2)
    shown = json.loads(in_another_terminal("route", "show", "--json"))
    assert shown["in_force"]["route_version"] == shown["version"] == 2
    assert sum(shown["in_force"]["edges"]["work"]["per_task"]) == 2000
    assert "50.0%" in say("route", "show", "--app", "far")
    assert "no such edge" in str(refused("route", "set", "nope", "1:1"))
    assert "2 weights for a pool of 3" in str(refused("route", "set", "work", "1:1"))
    assert "is not a ratio" in str(refused("route", "set", "work", "a:b:c"))
    assert pipeline.control_folder.routes().version == 2
    say("admission", "set", "numbers", "500")
    wait_for(lambda: pipeline.reports[-1].input_rows == 500, pipeline)
    assert json.loads(say("admission", "show", "--json")) == {"numbers": 500}
    assert "ROWS must be a whole number" in say("admission", "set", "numbers", "many", code=2)
    say("admission", "set", "numbers", "none")
    wait_for(lambda: pipeline.reports[-1].input_rows == 2000, pipeline)


def test_the_load_of_a_running_pipeline_is_shown_exported_and_forecast(start, tmp_path):
    source = ft.Replay(Keyed(seed=1), ft.Curve.constant(200, 60))
    topology = ft.Topology("watched", [ft.Spout("s", source)], [ft.Bolt("b", lambda df: df, [ft.From("s")], pool=2)])
    pipeline = start(topology, monitoring=ft.MonitorSettings())
    wait_for(lambda: len(pipeline.reports) > 3, pipeline)
    wait_for(
        lambda: not pipeline.monitor.problems and "input_rows" in say("metrics", "--app", "watched", "--json"), pipeline
    )
    shown = say("metrics", "--app", "watched")
    assert "latency_p99_ms" in shown
    assert "true_processing_rate" in say("metrics", "--app", "watched", "--level", "operator")
    assert json.loads(say("metrics", "--json", "--export", str(tmp_path / "all.parquet")))["rows"] > 20
    stepped = CliRunner().invoke(app, ["metrics", "--export", str(tmp_path / "w.parquet"), "--step", "5s"])
    assert (stepped.exit_code, "choose it with --level" in stepped.output) == (2, True)
    ahead = json.loads(say("forecast", "watched", "--model", "last value", "--horizon", "2", "--json"))
    assert len(ahead["steps"]) == 2
    assert ahead["series"] == "input_rows_per_second of watched"
    assert "no pipeline 'nobody' runs on this machine" in str(refused("forecast", "nobody"))


def refused(*arguments):
    return CliRunner().invoke(app, arguments).exception.__cause__


@pytest.mark.spark
def test_run_on_real_executors_survives_the_loss_of_one_and_ends_with_a_proof_a_picture_and_metrics(tmp_path):
    picture = tmp_path / "run.png"
    arguments = [
        "run", "continuous-queries", "--duration", "12s", "--rate", "2000", "--json",
        "--master", "local-cluster[2,1,1024]", "--output", str(tmp_path / "run"), "--plot", str(picture),
    ]  # fmt: skip
    here = {found.pid for found in find_executors()}
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment()) as running:  # fmt: skip
        store = tmp_path / "run" / "checkpoint" / "foretide" / "metrics.db"
        wait_for(lambda: running.poll() is not None or measured(store))
        mine = [found for found in find_executors() if found.pid not in here]
        os.kill(mine[0].pid, signal.SIGKILL)
        heard, _ = running.communicate()
    assert running.returncode == 0, heard
    summary = json.loads(heard[heard.index("{") : heard.rindex("}") + 1])
    assert summary["rows_handed_out"] == summary["rows_taken"] == 24_000
    assert (summary["missing"], summary["surplus"], summary["restarts"]) == (0, 0, 0)
    assert picture.read_bytes().startswith(b"\x89PNG")
    told = json.loads(say("metrics", "--store", str(store), "--json"))["figures"]
    by_worker = Counter(figure["subject"] for figure in told if figure["level"] == "worker")
    assert mine[0].executor_id in by_worker
    assert len(by_worker) >= 3  # the two that were there, and the one that Spark put in the place of the lost one
    assert max(by_worker.values()) >= 40


def measured(store):
    try:
        with MetricStore.open(store, create=False) as opened:
            return len(opened.latest("continuous-queries", ["worker_heap_bytes"])) == 2
    except ft.errors.StoreError:  # not there yet
        return False
