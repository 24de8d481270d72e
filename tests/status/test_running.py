import json
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from foretide.errors import PipelineNotFoundError
from foretide.status.pipelines import Running, announce, find_running, foretide_home, list_running, withdraw

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


def test_a_file_that_is_no_announcement_is_passed_over(tmp_path):
    announce(running("alive"))
    for number, text in enumerate(["", "{", "[]", "5", json.dumps({"name": "half"})]):
        (tmp_path / "running" / f"odd{number}.json").write_text(text)
    assert list_running() == [running("alive")]


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
