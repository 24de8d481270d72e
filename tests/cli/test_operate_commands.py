"""Commands for a running pipeline, on a control folder without Spark behind it."""

import json
import os
import time

import pytest
from typer.testing import CliRunner

from foretide.cli.main import app
from foretide.control.world.setup import Target
from foretide.control_folder.folder import ControlFolder, ControlStatus, DecisionSummary, PipelineStatus
from foretide.errors import ControlFolderError, ForetideError
from foretide.status.pipelines import Running, announce


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    made = ControlFolder(str(tmp_path / "control"))
    made.change_routes(lambda table: table.declare("work", pool=2))
    announce(Running("shop", os.getpid(), made.location))
    return made


def attach_loop(folder, **fields):
    status = ControlStatus(time.time(), "act", ("bypass",), Target(2.0, budget=4), **fields)
    folder.status.write(status)


def call(*arguments):
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})


def say(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output or result.exception
    return result.stdout


def test_status_tells_of_batch_loop_decisions_and_problems(folder):
    assert "no batch has finished yet\ncontrol: not attached" in say("status")
    folder.status.write(PipelineStatus(7, time.time(), 1234, 3, alarms=("a row was lost",)))
    attach_loop(folder, decisions=(DecisionSummary(5, 1.0, "split work 1:0"),), problems=("no forecasts",))
    folder.orders.drain("host-b")
    shown = say("status", "--app", "shop")
    for part in (
        "batch 7: 1,234 rows", "alarm: a row was lost", "control (act): bypass; p99 latency below 2 s",
        "at most 4 processors", "decision 5: split work 1:0", "problem: no forecasts", "drained: host-b",
    ):  # fmt: skip
        assert part in shown
    found = json.loads(say("status", "--json"))
    assert (found["batch"]["batch"], found["control"]["target"]["latency"], found["drained"]) == (7, 2.0, ["host-b"])


def test_pipelines_are_listed(folder):
    attach_loop(folder)
    assert "act: bypass" in say("list")
    (found,) = json.loads(say("list", "--json"))
    assert (found["name"], found["control_folder"], found["batch"]) == ("shop", folder.location, None)


def test_a_target_is_shown_and_changed_by_what_is_given(folder):
    attach_loop(folder)
    assert say("target", "show") == "p99 latency below 2 s, at most 4 processors\n"
    changed = json.loads(say("target", "set", "--latency", "500ms", "--budget", "none", "--json"))
    assert changed == {"latency": 0.5, "relaxed": 0.0, "quantile": "p99", "budget": None}
    assert "p95 latency below 0.5 s, no budget" in say("target", "set", "--quantile", "p95")
    assert folder.orders.target().apply(Target(9.0, budget=2)) == Target(0.5, 0.0, "p95", None)
    assert "no latency target" in say("target", "set", "--latency", "none")


@pytest.mark.parametrize(
    "options", [(), ("--budget", "0"), ("--budget", "many"), ("--quantile", "p98"), ("--latency", "soon")]
)
def test_a_target_that_cannot_be_is_a_usage_error(folder, options):
    assert call("target", "set", *options).exit_code == 2


def test_an_impossible_target_is_refused_and_the_earlier_one_stays(folder):
    assert isinstance(call("target", "set", "--latency", "1s", "--relaxed", "2s").exception, ForetideError)
    assert folder.orders.target().apply(Target()) == Target()


def test_a_host_is_drained_and_released(folder):
    assert "host-b gets no more tasks from the next batch on once a control loop is attached" in say("drain", "host-b")
    assert folder.orders.drained() == {"host-b"}
    attach_loop(folder)
    assert "host-b gets tasks again from the next batch on (" in say("drain", "host-b", "--release")
    assert folder.orders.drained() == frozenset()


def test_a_restart_needs_a_control_loop(folder):
    assert isinstance(call("restart").exception, ControlFolderError)
    attach_loop(folder)
    say("restart", "--pool", "work=6", "--state-partitions", "8", "--reason", "more tasks")
    order = folder.orders.restart()
    assert (order.reason, order.state_partitions, order.pools) == ("more tasks", 8, {"work": 6})
    assert call("restart", "--pool", "work").exit_code == 2


def test_a_stop_is_requested_of_a_pipeline_that_runs(folder, tmp_path):
    assert say("stop", "--no-wait") == "stop requested\n"
    assert folder.orders.stop_requested()
    other = ControlFolder(str(tmp_path / "other"))
    other.change_routes(lambda table: table.declare("work", pool=2))
    assert "no pipeline is running" in str(call("stop", "--control-folder", other.location).exception)


def test_admission_and_routes_are_set_and_shown(folder):
    assert say("admission", "show") == "no limit is set\n"
    say("admission", "set", "lines", "50")
    assert json.loads(say("admission", "show", "--json")) == {"lines": 50}
    say("admission", "set", "lines", "none")
    assert folder.orders.admission() == {}
    assert "work is split 75.0% : 25.0%" in say("route", "set", "work", "3:1")
    assert "in force: unknown (no batch has finished)" in say("route", "show")
    assert json.loads(say("route", "show", "--json"))["edges"]["work"]["shares"] == [0.75, 0.25]
