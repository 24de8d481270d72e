"""Any damage to any file of a control folder: every command says so, and none of them loses or invents anything."""

import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from foretide.cli.main import app
from foretide.control.world.setup import Target
from foretide.control_folder.facts import FACTS, PipelineFacts
from foretide.control_folder.folder import CONTROL, ROUTES, STATUS, ControlFolder, ControlStatus, PipelineStatus
from foretide.control_folder.orders import (
    ADMISSION,
    DRAINED,
    HELD,
    MODE,
    RESTART,
    RESTARTED,
    STOP,
    TARGET,
    HeldOrder,
    RestartOrder,
    TargetOrder,
)
from foretide.control_folder.supervision import SUPERVISOR, SupervisorStatus, write_supervisor
from foretide.errors import ForetideError
from foretide.metrics.batch import EdgeFlow
from foretide.status.pipelines import Running, announce

FILES = (ROUTES, STATUS, CONTROL, FACTS, ADMISSION, TARGET, DRAINED, RESTART, RESTARTED, STOP, HELD, MODE, SUPERVISOR)
COMMANDS = (
    ("status",), ("status", "--json"), ("list",), ("list", "--json"), ("route", "show"), ("route", "show", "--json"),
    ("admission", "show"), ("target", "show"), ("route", "set", "work", "1:2"), ("admission", "set", "lines", "5"),
    ("target", "set", "--budget", "3"), ("drain", "host-a"), ("drain", "host-b", "--release"), ("restart",),
    ("stop", "--no-wait"), ("target", "release"), ("mode", "set", "advise"), ("mode", "release"),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    made = ControlFolder(str(tmp_path / "control"))
    fill(made)
    announce(Running("shop", os.getpid(), made.location))
    return made


def fill(folder):
    """Every file, as a pipeline with a control loop and people at terminals leave them."""
    shutil.rmtree(folder.location, ignore_errors=True)
    folder.change_routes(lambda table: table.declare("work", pool=2))
    folder.status.write(PipelineFacts("shop", {"lines": True}, {"work": 2}))
    folder.status.write(PipelineStatus(7, time.time(), 10, 1, {"work": EdgeFlow(10, 10, per_task=(5, 5))}))
    folder.status.write(ControlStatus(time.time(), "act", ("bypass",), Target(2.0), workers={"0": "host-a"}))
    folder.orders.limit_admission("lines", 100)
    folder.orders.set_target(TargetOrder(latency=0.5, budget=4))
    folder.orders.drain("host-b")
    folder.orders.set_mode("advise")
    folder.orders.request_restart(RestartOrder("one"))
    folder.orders.note_restarted("one")
    folder.orders.request_stop(stop=False)
    folder.orders.hold("edge work", HeldOrder("me@here", time.time(), "split 1:1", time.time() + 600))
    write_supervisor(Path(folder.location), SupervisorStatus(7, 1, 10, "was killed by SIGKILL", time.time()))


def call(*arguments):
    """The result of a command; its exception is the one that ended it."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    if isinstance(getattr(result.exception, "__cause__", None), ForetideError):
        result.exception = result.exception.__cause__
    return result


def assert_no_traceback(result):
    assert isinstance(result.exception, ForetideError | SystemExit | None), result.exc_info


def deep(path):
    path.write_text('{"batch": ' + "[" * 100_000)


def is_folder(path):
    path.unlink(missing_ok=True)
    path.mkdir()


def is_cut(path):
    path.write_text((path.read_text() or "{}")[:-1] if path.exists() else "{")


def has_many_digits(path):
    path.write_text('{"version": ' + "9" * 5000 + "}")


def is_of_other_types(path):
    data = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({key: [[str(value)]] for key, value in data.items()} or [1]))


def is_far_in_time(path):
    data = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(_later(data)))


def _later(data):
    """Every number with a fraction, such as a time, is one that no calendar has."""
    if isinstance(data, dict):
        return {key: _later(value) for key, value in data.items()}
    return 1e300 if isinstance(data, float) else data


def is_not_utf8(path):
    path.write_bytes(b'{"places": ["\xff"]}')


DAMAGES = (deep, is_folder, is_cut, has_many_digits, is_of_other_types, is_not_utf8)
ODD = (*DAMAGES, is_far_in_time)


@pytest.mark.parametrize("damage", ODD)
@pytest.mark.parametrize("name", FILES)
def test_no_command_ends_in_a_traceback(folder, tmp_path, name, damage):
    damage(tmp_path / "control" / name)
    for command in COMMANDS:
        assert_no_traceback(call(*command))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("name", "orders", "shows"),
    [
        (DRAINED, [("drain", "host-a"), ("drain", "host-b", "--release")], [("status",)]),
        (TARGET, [("target", "set", "--relaxed", "100ms"), ("target", "release")], [("status",), ("target", "show")]),
        (MODE, [("mode", "set", "act"), ("mode", "release")], [("status",)]),
        (ADMISSION, [("admission", "set", "lines", "5")], [("status",), ("admission", "show")]),
        (ROUTES, [("route", "set", "work", "1:2")], [("route", "show")]),
        (STATUS, [], [("status",), ("list",), ("route", "show")]),
        (CONTROL, [("restart",), ("drain", "host-a"), ("target", "set", "--budget", "2")], [("status",), ("list",)]),
        (FACTS, [("restart",), ("admission", "set", "lines", "5")], [("status",)]),
        (RESTART, [("restart",)], [("status",)]),
        (
            HELD,
            [("route", "set", "work", "1:2"), ("admission", "set", "lines", "5")],
            [("status",), ("target", "show")],
        ),
        (SUPERVISOR, [], [("status",)]),
        (RESTARTED, [("restart",)], [("status",)]),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_neither_replaced_nor_taken_for_empty(
    folder, tmp_path, name, orders, shows, damage
):
    path = tmp_path / "control" / name
    damage(path)
    before = None if path.is_dir() else path.read_bytes()
    for command in (*orders, *shows):
        result = call(*command)
        assert_no_traceback(result)
        assert result.exit_code != 0
        said = f"{result.exception} {result.output}"
        assert name in said
        assert "no batch has finished" not in said
        assert "not attached" not in said
        assert path.is_dir() if before is None else path.read_bytes() == before


def test_what_can_be_read_is_shown_beside_what_cannot(folder, tmp_path):
    (tmp_path / "control" / DRAINED).write_text("{")
    result = call("status")
    assert "batch 7: 10 rows" in result.stdout
    assert "control (act): bypass" in result.stdout
    assert "problem: " in result.stderr
    assert json.loads(call("status", "--json").stdout)["problems"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def contents(draw):
    """Any bytes, any JSON, or the real file with one field replaced by anything."""
    kind = draw(st.sampled_from(["bytes", "json", "field"]))
    if kind == "bytes":
        return draw(st.binary(max_size=60))
    if kind == "json":
        return json.dumps(draw(json_values)).encode()
    return draw(st.integers(0, 20)), draw(json_values)


def with_field(text, which, value):
    data = json.loads(text)
    keys = sorted(data)
    return json.dumps({**data, keys[which % len(keys)]: value} if keys else value).encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.sampled_from(FILES), contents(), st.sampled_from(COMMANDS))
def test_no_content_of_any_file_makes_a_command_or_a_reader_raise_anything_else(
    folder, tmp_path, name, content, command
):
    fill(folder)
    path = tmp_path / "control" / name
    if isinstance(content, tuple):
        content = with_field(path.read_text() if path.exists() else "{}", *content)
    path.write_bytes(content)
    orders, status = folder.orders, folder.status
    assert orders.stop_requested() in (True, False)
    readers = (folder.routes, orders.admission, orders.target, orders.drained, orders.restart, orders.last_restarted)
    for read in (*readers, status.facts, status.pipeline, status.control):
        with suppress(ForetideError):
            read()
    assert_no_traceback(call(*command))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_location_that_cannot_be_a_control_folder_is_a_sentence(folder, tmp_path, command):
    (tmp_path / "file").write_text("")
    for location in ("http://[::1", "/dev/null", str(tmp_path / "file" / "below"), str(tmp_path / "nowhere")):
        if command[0] != "list":
            result = call(*command, "--control-folder", location)
            assert isinstance(result.exception, ForetideError), (location, result.exc_info)


def test_a_batch_with_another_pool_than_the_routes_is_shown_without_its_rows(folder):
    folder.change_routes(lambda table: table.declare("work", pool=3))
    assert "33.3%" in call("route", "show").stdout
