"""One driver and one control loop at a time have a control folder, over threads and processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from foretide.control_folder.holds import Run, check_driver, end_run, running_query, take, take_for_run
from foretide.errors import ControlFolderError
from helpers import environment

TAKE = """
import sys
from foretide.control_folder.holds import take
hold = take(sys.argv[1], sys.argv[2], "orders")
print("taken", flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(folder, role):
    """A process that has a role until it is killed."""
    command = [sys.executable, "-c", TAKE, str(folder), role]
    process = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "taken\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("role", ["driver", "loop"])
def test_a_role_is_refused_while_another_process_has_it_and_free_once_that_was_killed(tmp_path, role):
    with other_process(tmp_path, role) as process:
        with pytest.raises(ControlFolderError, match=rf"query 'orders' \(process {process.pid} on host"):
            take(str(tmp_path), role, "mine")
        if role == "driver":
            assert running_query(str(tmp_path)).pid == process.pid
            with pytest.raises(ControlFolderError, match="a control folder of its own"):
                check_driver(str(tmp_path), "id")
    assert running_query(str(tmp_path)) is None
    check_driver(str(tmp_path), "id")
    take(str(tmp_path), role, "mine").release()


def test_a_role_is_refused_to_a_second_one_in_this_process_under_any_name_of_the_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    hold = take(str(tmp_path), "driver", "first")
    for location in (str(tmp_path), f"file://{tmp_path}/", str(tmp_path / "link")):
        with pytest.raises(ControlFolderError, match="is used by query 'first'"):
            take(location, "driver", "second")
    take(str(tmp_path), "loop", "first").release()
    releasing = threading.Thread(target=hold.release)
    releasing.start()
    releasing.join()
    second = take(str(tmp_path), "driver", "second")
    hold.release()
    with pytest.raises(ControlFolderError, match="is used by query 'second'"):
        take(str(tmp_path), "driver", "third")
    second.release()


def test_a_store_without_locks_has_its_roles_within_one_process():
    hold = take("s3://bucket/control", "loop", "first")
    with pytest.raises(ControlFolderError, match="attached to query 'first'"):
        take("s3://bucket/control/", "loop", "second")
    hold.release()
    take("s3://bucket/control", "loop", "second").release()


def run(query, number, active):
    return Run(query, f"run-{number}", lambda: active["now"])


def test_a_query_has_the_folder_as_long_as_it_runs_and_may_be_started_again(tmp_path):
    folder, active = str(tmp_path), {"now": True}
    take_for_run(folder, "orders", run("a", 1, active))
    assert running_query(folder).query == "orders"
    check_driver(folder, "a")
    with pytest.raises(ControlFolderError):
        check_driver(folder, "b")
    with pytest.raises(ControlFolderError, match="is used by query 'orders'"):
        take_for_run(folder, "other", run("b", 2, active))
    take_for_run(folder, "orders", run("a", 3, active))
    end_run("run-1")
    assert running_query(folder) is not None, "that was the run before"
    active["now"] = False
    assert running_query(folder) is None
    take_for_run(folder, "other", run("b", 4, {"now": True}))
    assert running_query(folder).query == "other"
    end_run("run-4")
    take(folder, "driver", "free").release()


def test_a_pipeline_has_its_folder_between_two_runs_of_its_query(tmp_path):
    folder, active = str(tmp_path), {"now": True}
    pipeline = take(folder, "driver", "orders")
    assert running_query(folder) is None, "its joins are built before it runs"
    with pytest.raises(ControlFolderError):
        check_driver(folder, "another")
    take_for_run(folder, "orders", run("a", 1, active))
    assert running_query(folder) is not None
    active["now"] = False
    end_run("run-1")
    assert running_query(folder) is None
    with pytest.raises(ControlFolderError, match="is used by query 'orders'"):
        take(folder, "driver", "another")
    pipeline.release()
    take(folder, "driver", "another").release()


@pytest.mark.parametrize("role", ["driver", "loop"])
def test_the_folder_that_is_taken_and_its_lock_are_for_their_owner_only(tmp_path, role):
    folder = tmp_path / "checkpoint" / "foretide"
    take(str(folder), role, "orders").release()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / f"{role}.lock").stat().st_mode & 0o777 == 0o600
    assert running_query(str(folder)) is None
    assert (folder / f"{role}.lock").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_one_is_an_error_of_the_control_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for place in ("file", "file/below"):
        with pytest.raises(ControlFolderError, match=r"cannot lock '.*driver\.lock'"):
            take(str(tmp_path / place), "driver", "orders")
        assert running_query(str(tmp_path / place)) is None


def test_a_folder_in_the_place_of_a_lock_is_an_error_of_the_control_folder(tmp_path):
    (tmp_path / "driver.lock").mkdir()
    for attempt in (lambda: take(str(tmp_path), "driver", "x"), lambda: running_query(str(tmp_path))):
        with pytest.raises(ControlFolderError, match=r"cannot lock '.*driver\.lock': Is a directory"):
            attempt()
