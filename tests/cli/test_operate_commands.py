"""Commands for a running pipeline, on a control folder without Spark behind it."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli.main import app
from foretide.control.target_record import TargetRecord
from foretide.control.world.setup import Target
from foretide.control_folder.facts import PipelineFacts
from foretide.control_folder.filesystem import LocalFilesystem
from foretide.control_folder.folder import ControlFolder, ControlStatus, DecisionSummary, JoinSummary, PipelineStatus
from foretide.control_folder.holds import take
from foretide.control_folder.orders import ADMISSION, DRAINED, RESTART, TARGET, TargetOrder
from foretide.control_folder.supervision import SupervisorStatus, write_supervisor
from foretide.errors import ControlFolderError, ForetideError
from foretide.status.pipelines import Running, announce, find_folder, withdraw
from foretide.text import printable
from helpers import environment


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    made = ControlFolder(str(tmp_path / "control"))
    made.change_routes(lambda table: table.declare("work", pool=2))
    made.status.write(PipelineFacts("shop", {"lines": True, "clicks": False}, {"work": 2}))
    announce(Running("shop", os.getpid(), made.location))
    return made


def attach_loop(folder, **fields):
    workers = {"0": "host-a", "1": "host-b"}
    status = ControlStatus(time.time(), "act", ("bypass",), Target(2.0, budget=4), workers=workers)
    folder.status.write(replace(status, **fields))


def call(*arguments):
    """The result of a command; its exception is the one that ended it."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    if isinstance(getattr(result.exception, "__cause__", None), ForetideError):
        result.exception = result.exception.__cause__
    return result


def say(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output or result.exception
    return result.stdout


def test_status_tells_of_batch_loop_decisions_and_problems(folder):
    assert "no batch has finished yet\ncontrol: not attached" in say("status")
    withdraw(Running("shop", os.getpid(), folder.location))
    assert "no process follows a query with this control folder" in say("status", "--control-folder", folder.location)
    announce(Running("shop", os.getpid(), folder.location))
    write_supervisor(Path(folder.location), SupervisorStatus(7, 2, 10, "was killed by SIGKILL", 0.0))
    assert "supervisor: process 7; driver restarted 2 times; it was killed by SIGKILL on " in say("status")
    assert json.loads(say("status", "--json"))["supervisor"]["restarts"] == 2
    folder.status.write(PipelineStatus(0, time.time(), 0))
    assert "idle: it waits for rows, and none has come yet; the first look at its sources ended " in say("status")
    assert json.loads(say("list", "--json"))[0]["batch"] is None
    folder.status.write(PipelineStatus(7, time.time(), 1234, 3, alarms=("a row was lost",), problems=("no disk",)))
    attach_loop(folder, decisions=(DecisionSummary(5, 1.0, "split work 1:0"),), problems=("no forecasts",))
    folder.orders.drain("host-b")
    shown = say("status", "--app", "shop")
    for part in (
        "batch 7: 1,234 rows", "alarm: a row was lost", "problem: no disk", "control (act): bypass",
        "p99 latency below 2 s", "at most 4 processors", "decision 5: split work 1:0",
        "problem: no forecasts", "drained: host-b",
    ):  # fmt: skip
        assert part in shown
    found = json.loads(say("status", "--json"))
    assert (found["batch"]["batch"], found["control"]["target"]["latency"], found["drained"]) == (7, 2.0, ["host-b"])


def test_pipelines_are_listed(folder):
    attach_loop(folder)
    assert "act: bypass" in say("list")
    (found,) = json.loads(say("list", "--json"))
    assert (found["name"], found["control_folder"], found["batch"]) == ("shop", folder.location, None)


@pytest.mark.parametrize("name", ["a" * 40, "shop\x1b[2J\x07\u202e" * 4])
def test_nothing_of_a_list_or_of_routes_is_cut_in_a_narrow_terminal(folder, name):
    withdraw(Running("shop", os.getpid(), folder.location))
    folder.change_routes(lambda table: table.declare(name, pool=2))
    announce(Running(name, os.getpid(), folder.location))

    head, *lines, place = CliRunner().invoke(app, ["list"], env={"COLUMNS": "60"}).stdout.splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert "".join(line[: head.index("process")].strip() for line in lines) == printable(name)
    assert place == f"control folder of {printable(name)}: {folder.location}"
    assert printable(name) in CliRunner().invoke(app, ["route", "show"], env={"COLUMNS": "160"}).stdout


def test_a_missed_target_is_said_by_status_and_list(folder):
    record = TargetRecord(Target(2.0)).with_measured(1.0, 100.0).with_measured(5.0, 110.0).with_measured(6.0, 120.0)
    attach_loop(folder, record=replace(record, cause="worker 1", remedies=("a larger pool",)), target=Target(2.0))
    assert (
        "target p99 below 2 s: MISSED for 10 s, measured 6 s\n  missed in 2 of 3 measurements, 100 % of 20 s\n"
        in say("status")
    )
    assert "  likely cause: worker 1\n  what would help: a larger pool\n" in say("status")
    assert "missed, 67 %" in say("list")
    found = json.loads(say("status", "--json"))["control"]["record"]
    assert (found["missed"], found["measurements"], found["measured"]) == (2, 3, 6.0)
    assert json.loads(say("list", "--json"))[0]["target"]["missed"] == 2


def test_a_batch_of_long_ago_has_a_date_and_one_restart_is_once(folder):
    folder.status.write(PipelineStatus(7, time.time() - 794_968_131, 10, 1))
    attach_loop(folder, at=time.time() - 9000)
    write_supervisor(Path(folder.location), SupervisorStatus(7, 1, 10, "was killed by SIGKILL", 0.0))
    said = say("status")
    assert re.search(r"finished on \d{4}-\d\d-\d\d at \d\d:\d\d:\d\d, routes: version 1", said)
    assert re.search(r"last cycle on \d{4}-", said)
    assert "driver restarted once;" in said


def test_a_target_is_shown_and_changed_by_what_is_given(folder):
    attach_loop(folder)
    assert say("target", "show") == "p99 latency below 2 s, at most 4 processors\n"
    changed = json.loads(say("target", "set", "--latency", "500ms", "--budget", "none", "--json"))
    assert changed == {"latency": 0.5, "relaxed": 0.0, "quantile": "p99", "budget": None}
    assert "p95 latency below 0.5 s, no budget" in say("target", "set", "--quantile", "p95")
    assert folder.orders.target().apply(Target(9.0, budget=2)) == Target(0.5, 0.0, "p95", None)
    assert "no latency target" in say("target", "set", "--latency", "none")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--budget", "0"),
        ("--budget", "many"),
        ("--budget", "99999999999999999999"),
        ("--budget", "9" * 5000),
        ("--quantile", "p98"),
        ("--latency", "soon"),
    ],
)
def test_a_target_that_cannot_be_is_a_usage_error(folder, options):
    attach_loop(folder)
    assert call("target", "set", *options).exit_code == 2


@pytest.mark.parametrize(
    "options", [("--latency", "1s", "--relaxed", "2s"), ("--latency", "25h"), ("--latency", "1e8h")]
)
def test_an_impossible_target_is_refused_and_the_earlier_one_stays(folder, options):
    attach_loop(folder)
    result = call("target", "set", *options)
    assert isinstance(result.exception, ForetideError)
    assert "e+" not in str(result.exception)
    assert folder.orders.target().apply(Target()) == Target()


def refused(order, reason):
    before = {path: path.read_bytes() for path in Path(find_folder("shop", None).location).iterdir()}
    result = call(*order)
    assert isinstance(result.exception, ForetideError | SystemExit)
    assert result.exit_code != 0
    assert re.search(reason, " ".join(f"{result.exception} {result.stderr}".replace("│", "").split()))
    assert {path: path.read_bytes() for path in before} == before
    assert not any(path.name in {DRAINED, RESTART, TARGET, ADMISSION} for path in before)


@pytest.mark.parametrize("ended", [None, True])
@pytest.mark.parametrize("order", [("target", "set", "--latency", "2s"), ("drain", "host-a"), ("restart",)])
def test_orders_that_no_loop_would_obey_are_refused(folder, order, ended):
    if ended:
        attach_loop(folder, ended=True)
    refused(order, "no control loop (is attached to|runs any more for)")


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (("drain", "nobody"), r"no host or executor 'nobody'.*host-a \(executors 0\); host-b \(executors 1\)"),
        (("drain", ""), "no host or executor ''"),
        (("drain", "../../etc"), "no host or executor '../../etc'"),
        (("drain", "host-a", "--release"), "'host-a' is not drained in .*; drained: none"),
        (("restart", "--pool", "nowhere=5"), r"no edge 'nowhere'.*there are: work \(2 tasks\)"),
        (("restart", "--pool", "work=2"), "would change nothing: 'work' has 2 tasks already; without --pool"),
        (("restart", "--pool", "work=3", "--pool", "work=4"), "--pool is given twice for 'work'"),
        (("restart", "--pool", "work"), "--pool must be EDGE=TASKS"),
        (("restart", "--pool", "work=0"), "the pool of 'work' must be a whole number between 1 and 1024"),
        (("restart", "--pool", "work=300000000"), "between 1 and 1024"),
        (("restart", "--pool", "work=" + "9" * 5000), "between 1 and 1024"),
        (("restart", "--state-partitions", "300000000"), "between 1 and 10000"),
        (("admission", "set", "nobody", "5"), "no spout 'nobody'; spouts whose limit can be changed: lines"),
        (("admission", "set", "", "5"), "no spout ''"),
        (("admission", "set", "clicks", "5"), "'clicks' cannot be changed while it runs; .*: lines"),
        (("admission", "set", "nobody", "none"), "no spout 'nobody'"),
        (("admission", "set", "lines", "0"), "ROWS must be a whole number between 1 and 9223372036854775807"),
        (("admission", "set", "lines", "9223372036854775808"), "between 1 and 9223372036854775807"),
        (("admission", "set", "lines", "9" * 5000), "between 1 and 9223372036854775807"),
    ],
)
def test_orders_for_what_does_not_exist_are_refused_with_what_there_is(folder, order, reason):
    attach_loop(folder)
    refused(order, reason)


DIE = "import os, sys; from foretide.control_folder.holds import take; take(sys.argv[1], 'loop', 'shop'); os._exit(1)"


@pytest.mark.parametrize("order", [["restart"], ["target", "set", "--budget", "3"], ["drain", "host-a"]])
def test_an_order_to_a_control_loop_that_was_killed_is_refused(folder, order):
    attach_loop(folder)
    subprocess.run([sys.executable, "-c", DIE, folder.location], env=environment(), check=False)
    refused(order, r"the control loop of query 'shop' \(process \d+ on host .* has ended with its process")
    loop = take(folder.location, "loop", "shop")
    say(*order)
    loop.release()


def test_a_host_is_drained_and_released(folder):
    attach_loop(folder)
    assert say("drain", "host-b").startswith("requested: host-b gets no more tasks; see `foretide status` (")
    assert folder.orders.drained() == {"host-b"}
    attach_loop(folder, ended=True)
    assert say("drain", "host-b", "--release").startswith("requested: host-b gets tasks again; see `foretide status`")
    assert folder.orders.drained() == frozenset()


def test_an_executor_is_drained_in_those_pipelines_that_have_it(folder, tmp_path):
    attach_loop(folder)
    other = ControlFolder(str(tmp_path / "other"))
    other.status.write(PipelineFacts("other", {}, {}))
    attach_loop(other, workers={"7": "host-c"})
    announce(Running("other", os.getpid(), other.location))
    say("drain", "7")
    assert (folder.orders.drained(), other.orders.drained()) == (frozenset(), {"7"})
    attach_loop(folder, workers={"7": "host-c"})
    (tmp_path / "other" / DRAINED).write_text("{")
    result = call("drain", "host-c")
    assert "other" in str(result.exception)
    assert folder.orders.drained() == {"host-c"}, "a file that cannot be read keeps no other pipeline from it"


def test_a_restart_is_requested_under_an_id_of_its_own(folder):
    attach_loop(folder)
    say("restart", "--pool", "work=6", "--state-partitions", "8", "--reason", "more tasks")
    order = folder.orders.restart()
    assert (order.reason, order.state_partitions, order.pools) == ("more tasks", 8, {"work": 6})
    assert "restart without changes requested" in say("restart")
    assert folder.orders.restart().id != order.id
    assert "restart requested" in say("restart", "--pool", "work=2", "--state-partitions", "4")


def test_a_restart_says_that_it_replaces_a_pending_one(folder):
    attach_loop(folder)
    assert "replaces" not in say("restart", "--reason", "more tasks")
    first = folder.orders.restart().id
    assert "it replaces the pending restart (more tasks); see" in say("restart")
    assert json.loads(say("restart", "--json"))["replaces"] not in {None, first}
    folder.orders.note_restarted(folder.orders.restart().id)
    assert "replaces" not in say("restart"), "that one has been carried out"
    assert folder.orders.restart().id != first


@pytest.mark.parametrize(
    "command", [("drain", "host-a"), ("route", "show"), ("status",), ("stop",), ("target", "show"), ("restart",)]
)
@pytest.mark.parametrize("name", ["nobody", "shop"])
def test_a_name_beside_a_control_folder_is_refused(folder, command, name):
    attach_loop(folder)
    result = call(*command, "--app", name, "--control-folder", folder.location)
    assert result.exit_code == 1
    assert f"either the name of the pipeline ('{name}') or its control folder" in str(result.exception)
    assert folder.orders.drained() == frozenset()


def test_a_restart_that_the_loop_or_the_pipeline_cannot_make_is_refused(folder):
    attach_loop(folder, mode="advise")
    refused(("restart",), "only advises")
    attach_loop(folder)
    folder.status.write(PipelineFacts("shop", {}, {}, state_repartition="it keeps no state"))
    refused(("restart", "--state-partitions", "4"), "cannot be changed: it keeps no state")
    folder.status.write(PipelineFacts("shop", {}, {}, no_restart="it was started elsewhere"))
    refused(("restart",), "it was started elsewhere")


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
    withdraw(Running("shop", os.getpid(), folder.location))
    said = say("route", "show", "--control-folder", folder.location)
    assert "in force: unknown (no process reports batches; ft.control would)" in said
    announce(Running("shop", os.getpid(), folder.location))
    assert json.loads(say("route", "show", "--json"))["edges"]["work"]["shares"] == [0.75, 0.25]


def test_the_limit_of_a_kafka_spout_takes_a_restart_that_is_asked_for(folder):
    facts = PipelineFacts("shop", {"lines": True, "topic": False}, {}, restart_limits=frozenset({"topic"}))
    folder.status.write(facts)
    assert "fixed when the query starts; give --restart" in str(call("admission", "set", "topic", "5").exception)
    refused = call("admission", "set", "topic", "5", "--restart")
    assert "no control loop is attached" in str(refused.exception)
    assert folder.orders.restart() is None
    attach_loop(folder)
    assert "restart with the limit requested" in say("admission", "set", "topic", "5", "--restart")
    assert folder.orders.restart().admission == {"topic": 5}
    assert json.loads(say("admission", "set", "topic", "none", "--restart", "--json"))["admission"] == {"topic": None}
    assert "from the next batch on" in say("admission", "set", "lines", "5", "--restart")


def test_every_order_answers_as_json(folder):
    attach_loop(folder)
    said = {
        command[0]: json.loads(say(*command, "--json"))
        for command in (
            ("drain", "host-a"),
            ("restart", "--pool", "work=6"),
            ("admission", "set", "lines", "100"),
            ("stop", "--no-wait"),
        )
    }
    assert said["drain"] == {"place": "host-a", "release": False, "control_folders": [folder.location]}
    assert said["restart"]["pools"] == {"work": 6}
    assert said["admission"].pop("held")["words"] == "100 rows per batch"
    assert said["admission"] == {"spout": "lines", "rows": 100}
    assert said["stop"]["state"] == "stop requested"


def test_a_route_that_a_person_sets_is_held_until_it_is_released(folder):
    said = say("route", "set", "work", "3:1")
    assert said.rstrip().endswith("it holds until it is released")
    assert folder.orders.held()["edge work"].words == "split 3:1"
    assert re.search(r"held by a person: edge work: split 3:1\n  set by \S+@\S+ on \d{4}-", say("status"))
    assert "released by: foretide route release work\n" in say("route", "show")
    assert json.loads(say("status", "--json"))["held"]["edge work"]["by"].count("@") == 1
    assert "stays as it is until the control loop changes it" in say("route", "release", "work")
    assert folder.orders.held() == {}
    assert "held" not in say("status")
    assert "nobody holds 'edge work'" in str(call("route", "release", "work").exception)


def test_the_loop_can_be_paused_from_a_terminal_for_a_time(folder):
    assert "no control loop" in str(call("mode", "set", "pause").exception)
    attach_loop(folder, paused=True)
    assert "the control loop is paused, from its next cycle on; it holds until " in say(
        "mode", "set", "pause", "--for", "9s"
    )
    assert (folder.orders.mode(), "control (paused)" in say("status")) == ("pause", True)
    assert "pause\nheld by a person: mode: the control loop is paused" in say("mode", "show")
    assert "released by: foretide mode release\n" in say("status")
    assert "in the mode that it began with" in say("mode", "release")
    assert (folder.orders.mode(), folder.orders.held()) == (None, {})
    assert call("mode", "set", "sleep").exit_code == 2


def test_replicas_that_a_person_sets_are_held_for_a_time(folder):
    assert "it holds until " in say("route", "replicas", "work", "1", "--for", "10m")
    held = folder.orders.held()["edge work"]
    assert held.until == held.at + 600
    assert folder.routes().edges["work"].shares == (1.0, 0.0)


def test_a_route_that_is_refused_is_not_held(folder):
    for words in (["set", "nowhere", "1:1"], ["set", "work", "1:1:1"], ["replicas", "work", "3"]):
        assert call("route", *words).exit_code
    assert folder.orders.held() == {}


@pytest.mark.parametrize(
    ("name", "order", "subject"),
    [
        (DRAINED, ["drain", "host-a"], "drained host-a"),
        (TARGET, ["target", "set", "--budget", "3"], "target"),
        (ADMISSION, ["admission", "set", "lines", "7"], "spout lines"),
    ],
)
def test_an_order_that_fails_changes_nothing_of_what_is_held(folder, monkeypatch, name, order, subject):
    attach_loop(folder)
    write, full = LocalFilesystem.write, set()

    def write_unless_full(files, name, *rest, **more):
        if name in full:
            raise ControlFolderError("no space left")
        write(files, name, *rest, **more)

    monkeypatch.setattr(LocalFilesystem, "write", write_unless_full)
    full.add(name)
    assert "no space left" in str(call(*order).exception)
    assert folder.orders.held() == {}
    full.clear()
    say(*order)
    before = folder.orders.held()[subject]
    full.add(name)
    assert "no space left" in str(call(*order, "--for", "1h").exception)
    assert folder.orders.held() == {subject: before}


def test_limits_targets_and_drained_hosts_are_held_and_released(folder):
    attach_loop(folder)
    say("admission", "set", "lines", "1200")
    say("target", "set", "--latency", "3s", "--for", "1h")
    say("drain", "host-a")
    assert set(folder.orders.held()) == {"spout lines", "target", "drained host-a"}
    status = say("status")
    for command in ("admission release lines", "target release", "drain --release host-a"):
        assert f"released by: foretide {command}\n" in status
    assert "lines: 1,200 rows per batch" in say("admission", "show")
    say("admission", "release", "lines")
    say("target", "release")
    say("drain", "host-a", "--release")
    assert folder.orders.held() == {}
    assert folder.orders.target() == TargetOrder()


def test_the_state_of_a_pipeline_whose_process_has_ended_is_labelled(folder):
    folder.status.write(PipelineStatus(7, time.time(), 12_345, None))
    assert "runs this pipeline now" not in say("status")
    assert json.loads(say("status", "--json"))["running"] is True
    withdraw(Running("shop", os.getpid(), folder.location))
    said = say("status", "--control-folder", folder.location).splitlines()
    assert said[0].startswith("no process on this machine runs this pipeline now")
    assert said[1] == "batch 7: 12,345 rows, finished 0 s ago"
    assert json.loads(say("status", "--control-folder", folder.location, "--json"))["running"] is False


def test_joins_are_part_of_the_status(folder):
    attach_loop(folder, joins={"join": JoinSummary(3, ("cell 7", "cell 9"), 1.25), "other": JoinSummary(0)})
    said = say("status")
    assert "join 'join': 2 hot keys placed (cell 7, cell 9); the fullest partition has 125% more load" in said
    assert "join 'other': counting keys; no window of them is complete yet" in said
