import json
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from foretide.errors import PipelineNotFoundError, RegistryError
from foretide.status.pipelines import (
    Running,
    announce,
    default_store,
    find_running,
    foretide_home,
    list_running,
    withdraw,
)

ME = os.getpid()


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path))


@pytest.fixture
def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def running(name, pid=ME):
    return Running(name, pid, f"/checkpoints/{name}/foretide")


def test_the_list_lies_in_foretides_own_folder(tmp_path, monkeypatch):
    assert foretide_home() == tmp_path
    monkeypatch.delenv("FORETIDE_HOME")
    assert foretide_home() == Path(platformdirs.user_data_dir("foretide"))


def test_what_was_announced_is_found_by_name_until_it_is_withdrawn():
    announce(running("url-count"))
    assert find_running("url-count") == running("url-count")
    withdraw(running("url-count"))
    withdraw(running("url-count"))
    assert list_running() == []


def test_only_the_user_can_read_it_as_the_url_of_a_store_may_contain_a_password(tmp_path):
    announce(running("url-count"))
    (file,) = (tmp_path / "running").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_only_pipeline_is_found_without_a_name():
    announce(running("url-count"))
    assert find_running(None) == running("url-count")


def test_dead_pipelines_are_cleared_away(dead_pid, tmp_path):
    announce(running("dead", dead_pid))
    announce(running("alive"))
    assert list_running() == [running("alive")]
    assert [file.name for file in (tmp_path / "running").iterdir()] == [f"alive-{ME}.json"]
    assert find_running(None) == running("alive")


def test_a_process_of_somebody_else_counts_as_alive(monkeypatch):
    def refuse(pid, signal):
        raise PermissionError

    announce(running("theirs"))
    monkeypatch.setattr(os, "kill", refuse)
    assert list_running() == [running("theirs")]


ENTRY = {"name": "odd", "pid": ME, "control_folder": "/x", "store": None}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "expected dict, got list"),
        (b"5", "expected dict, got int"),
        ({"name": "half"}, "the field 'pid' is missing"),
        (ENTRY | {"pid": "1"}, "pid: expected int, got str"),
        (ENTRY | {"pid": 1.5}, "pid: expected int, got float"),
        (ENTRY | {"pid": [1]}, "pid: expected int, got list"),
        (ENTRY | {"pid": None}, "pid: expected int, got NoneType"),
        (ENTRY | {"pid": True}, "pid: expected int, got bool"),
        (ENTRY | {"pid": 0}, "pid: is not the id of a process"),
        (ENTRY | {"pid": -1}, "pid: is not the id of a process"),
        (ENTRY | {"pid": 10**30}, "pid: is not the id of a process"),
        (ENTRY | {"control_folder": None}, "control_folder: expected str, got NoneType"),
        (ENTRY | {"control_folder": 5}, "control_folder: expected str, got int"),
        (ENTRY | {"control_folder": "a\0b"}, "control_folder: must be text"),
        (ENTRY | {"name": ["odd"]}, "name: expected str, got list"),
        (ENTRY | {"name": ""}, "name: must be text"),
        (ENTRY | {"store": 5}, "store: expected str, got int"),
    ],
)
def test_a_damaged_file_is_named_and_spoils_no_other(content, problem, tmp_path, caplog):
    announce(running("alive"))
    odd = tmp_path / "running" / "odd.json"
    odd.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    assert list_running() == [running("alive")]
    assert find_running(None) == running("alive")
    (message,) = {record.getMessage() for record in caplog.records}
    assert message.startswith(f"'{odd}' does not describe a running pipeline: ")
    assert problem in message
    assert message.endswith("; delete it")
    assert odd.exists()


def test_a_name_that_is_no_text_spoils_no_other(tmp_path):
    announce(running("alive"))
    (tmp_path / "running" / "odd.json").write_text(json.dumps(ENTRY | {"name": "\udcff"}))
    assert running("alive") in list_running()
    for each in list_running():
        each.name.encode()


def test_a_file_that_cannot_be_opened_is_named_and_spoils_no_other(tmp_path, caplog):
    announce(running("alive"))
    (tmp_path / "running" / "folder.json").mkdir()
    (tmp_path / "running" / "loop.json").symlink_to("loop.json")
    assert list_running() == [running("alive")]
    assert "Is a directory" in caplog.text
    assert "loop.json" in caplog.text


@pytest.mark.parametrize(
    "name",
    ["../../outside", "/etc/passwd", "..", ".", "a/b", "n" * 5000, "\x1b[2J", "k\u00e4se", "a b", "-rf", "\U0001f600"],
)
def test_no_name_leads_out_of_the_folder(name, tmp_path):
    other = running("other")
    announce(running(name))
    announce(other)
    assert {file.parent for file in tmp_path.rglob("*.json")} == {tmp_path / "running"}
    assert [each for each in list_running() if each != other] == [running(name)]
    assert Path(default_store("hdfs://x/control", name)).parent == tmp_path / "metrics"
    withdraw(running(name))
    assert list_running() == [other]


def test_names_that_look_alike_have_files_of_their_own():
    names = ["a/b", "a-b", "a\\b", "a b", "n" * 5000, "n" * 4999]
    for name in names:
        announce(running(name))
    assert {each.name for each in list_running()} == set(names)


@pytest.mark.parametrize("home", ["x" * 5000, "file", "file/below", "loop"])
def test_a_home_that_cannot_be_used_is_an_error_that_says_so(home, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / home))
    withdraw(running("one"))
    for do in (list_running, lambda: announce(running("one"))):
        with pytest.raises(
            RegistryError, match=r"Foretide's own folder '.*' cannot be .*; set FORETIDE_HOME"
        ) as raised:
            do()
        assert len(str(raised.value)) < 500
        assert isinstance(raised.value, OSError)


def test_only_the_user_can_read_foretides_own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "made" / "home"))
    before = os.umask(0o022)
    try:
        announce(running("one"))
    finally:
        os.umask(before)
    home = tmp_path / "made" / "home"
    assert [path.stat().st_mode & 0o777 for path in (home, home / "running")] == [0o700, 0o700]


def test_a_folder_that_others_share_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o755)
    announce(running("one"))
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "running").stat().st_mode & 0o777 == 0o700


def test_several_pipelines_need_a_name_and_are_listed():
    announce(running("one"))
    announce(running("two"))
    assert find_running("two") == running("two")
    with pytest.raises(PipelineNotFoundError, match=r"--app(.|\n)*one \(process (.|\n)*two \(process "):
        find_running(None)


def test_two_pipelines_of_one_name_need_the_control_folder():
    announce(running("same"))
    announce(running("same", os.getppid()))
    with pytest.raises(PipelineNotFoundError, match="--control-folder"):
        find_running("same")


def test_an_unknown_name_is_answered_with_the_names_there_are():
    announce(running("one"))
    with pytest.raises(PipelineNotFoundError, match=r"no pipeline 'two'(.|\n)*one \(process "):
        find_running("two")


@pytest.mark.parametrize("name", [None, "one"])
def test_without_any_pipeline_the_message_says_so(name):
    with pytest.raises(PipelineNotFoundError, match="no pipeline"):
        find_running(name)
