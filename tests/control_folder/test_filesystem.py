import os
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer
from pyarrow import fs

from foretide.control_folder import filesystem
from foretide.control_folder.filesystem import LocalFilesystem, ObjectStoreFilesystem, open_filesystem
from foretide.errors import ControlFolderError, DamagedFileError


@pytest.fixture(scope="module")
def object_store():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    store = fs.S3FileSystem(
        access_key="test",
        secret_key="test",
        region="us-east-1",
        endpoint_override=f"127.0.0.1:{port}",
        scheme="http",
        allow_bucket_creation=True,
    )
    store.create_dir("pipelines")
    yield store
    server.stop()


@pytest.fixture(params=["disk", "object store"])
def disk_or_store(request, tmp_path):
    if request.param == "disk":
        return LocalFilesystem(tmp_path / "not yet" / "there")
    store = request.getfixturevalue("object_store")
    base = f"pipelines/{tmp_path.name}/foretide"
    return ObjectStoreFilesystem(f"s3a://{base}/", store, f"{base}/")


def test_a_file_that_was_never_written_is_none(disk_or_store):
    assert disk_or_store.read("routes.json") is None


def test_what_was_written_is_read_back_to_the_letter(disk_or_store):
    for text in ("{}", "", "línea\n\tβ 水 🜂\n", "x" * 100_000):
        disk_or_store.write("routes.json", text)
        assert disk_or_store.read("routes.json") == text


def test_a_shorter_text_leaves_nothing_of_a_longer_one(disk_or_store):
    disk_or_store.write("routes.json", "a" * 1000)
    disk_or_store.write("routes.json", "b")
    assert disk_or_store.read("routes.json") == "b"


def test_files_do_not_touch_each_other(disk_or_store):
    disk_or_store.write("routes.json", "routes")
    disk_or_store.write("status.json", "status")
    assert (disk_or_store.read("routes.json"), disk_or_store.read("status.json")) == ("routes", "status")


def test_a_write_that_fails_leaves_the_old_text(disk_or_store):
    disk_or_store.write("routes.json", "old")
    with pytest.raises(UnicodeEncodeError):
        disk_or_store.write("routes.json", "no such letter: \ud800")
    assert disk_or_store.read("routes.json") == "old"


def test_a_text_can_be_read_changed_and_written_under_the_lock(disk_or_store):
    with disk_or_store.lock():
        disk_or_store.write("routes.json", (disk_or_store.read("routes.json") or "") + "1")
    with disk_or_store.lock():
        disk_or_store.write("routes.json", (disk_or_store.read("routes.json") or "") + "2")
    assert disk_or_store.read("routes.json") == "12"


def test_the_lock_is_given_back_after_an_error(disk_or_store):
    def fail():
        with disk_or_store.lock():
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with disk_or_store.lock():
        disk_or_store.write("routes.json", "free")


def test_the_url_ends_in_the_name_and_has_no_double_slash(disk_or_store):
    scheme, _, rest = disk_or_store.url("routes.json").partition("://")
    assert scheme in {"file", "s3a"}
    assert rest.endswith(("foretide/routes.json", "there/routes.json"))
    assert "//" not in rest


def test_a_reader_sees_the_old_text_or_the_new_one_and_never_a_part(disk_or_store):
    texts = {letter * 50_000 for letter in "abc"}
    disk_or_store.write("routes.json", "a" * 50_000)
    seen, done = set(), threading.Event()

    def read():
        while not done.is_set():
            seen.add(disk_or_store.read("routes.json"))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(4):
        for text in sorted(texts):
            disk_or_store.write("routes.json", text)
    done.set()
    reader.join()
    assert seen
    assert seen <= texts


# ---- a disk


def test_nothing_is_left_beside_the_files_themselves(tmp_path):
    disk = LocalFilesystem(tmp_path)
    disk.write("routes.json", "1")
    with pytest.raises(UnicodeEncodeError):
        disk.write("routes.json", "\ud800")
    assert [file.name for file in tmp_path.iterdir()] == ["routes.json"]


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_private_folder_and_its_files_are_for_their_owner_only(tmp_path):
    disk = LocalFilesystem(tmp_path / "checkpoint" / "foretide")
    with disk.lock():
        disk.write("routes.json", "1")
        assert mode(tmp_path / "checkpoint" / "foretide" / ".lock-holder") == 0o600
    assert mode(tmp_path / "checkpoint" / "foretide") == 0o700
    assert mode(tmp_path / "checkpoint" / "foretide" / "routes.json") == 0o600
    assert mode(tmp_path / "checkpoint" / "foretide" / ".lock") == 0o600


@pytest.mark.parametrize(("of_folder", "of_file"), [(0o755, 0o644), (0o750, 0o640), (0o711, 0o600)])
def test_who_may_read_a_folder_that_was_there_may_read_its_files(tmp_path, of_folder, of_file):
    tmp_path.chmod(of_folder)
    LocalFilesystem(tmp_path).write("routes.json", "1")
    assert (mode(tmp_path), mode(tmp_path / "routes.json")) == (of_folder, of_file)


def test_files_of_a_folder_that_is_not_private_can_be_read_by_all(tmp_path):
    LocalFilesystem(tmp_path, private=False).write("1", "v1")
    assert mode(tmp_path / "1") == 0o644


def make_folder(path):
    path.mkdir()
    (path / "inside").write_text("kept")


def make_pipe(path):
    os.mkfifo(path)


def make_garbage(path):
    path.write_bytes(b"\xff\xfe{}\x80")


@pytest.mark.parametrize("damage", [make_folder, make_pipe, make_garbage])
def test_what_is_no_text_is_an_error_that_names_the_file_until_it_is_replaced(tmp_path, damage):
    disk = LocalFilesystem(tmp_path)
    damage(tmp_path / "routes.json")
    with pytest.raises(DamagedFileError, match=r"routes\.json' cannot be read: it is not (a file|UTF-8)"):
        disk.read("routes.json")
    disk.write("routes.json", "good")
    assert disk.read("routes.json") == "good"


def test_a_folder_in_the_place_of_a_file_is_moved_aside_with_what_is_in_it(tmp_path):
    for number in (1, 2):
        (tmp_path / "routes.json").unlink(missing_ok=True)
        make_folder(tmp_path / "routes.json")
        LocalFilesystem(tmp_path).write("routes.json", "good")
        assert (tmp_path / f"routes.json.damaged-{number}" / "inside").read_text() == "kept"


@pytest.mark.parametrize("name", ["a-file", "a-file/below", "x" * 300, "nul\0"])
def test_a_location_that_cannot_be_a_folder_is_an_error_of_its_own(tmp_path, name):
    (tmp_path / "a-file").write_text("")
    disk = LocalFilesystem(tmp_path / name)
    calls = (lambda: disk.read("routes.json"), lambda: disk.write("routes.json", "1"), disk.lock().__enter__)
    for call in calls:
        with pytest.raises(ControlFolderError):
            call()


def test_a_lock_file_that_is_a_folder_is_an_error_of_its_own(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(ControlFolderError, match="cannot be locked"), LocalFilesystem(tmp_path).lock(0.05):
        pass


def test_bytes_in_a_store_that_are_no_text_are_an_error(object_store):
    with object_store.open_output_stream("pipelines/garbage.json") as stream:
        stream.write(b"\xff")
    store = ObjectStoreFilesystem("s3a://pipelines", object_store, "pipelines")
    with pytest.raises(DamagedFileError, match=r"garbage\.json' cannot be read: it is not UTF-8"):
        store.read("garbage.json")


def test_a_store_that_cannot_be_written_is_an_error_of_its_own(object_store):
    with pytest.raises(ControlFolderError, match="cannot be written"):
        ObjectStoreFilesystem("s3a://nowhere", object_store, "nowhere/at/all").write("routes.json", "1")


COUNT_UP = """
import sys, types
from pathlib import Path
package = sys.modules["foretide"] = types.ModuleType("foretide")  # without the rest, which takes seconds to load
package.__path__ = [sys.argv[3]]
from foretide.control_folder.filesystem import LocalFilesystem
disk = LocalFilesystem(Path(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    with disk.lock():
        disk.write("count", str(int(disk.read("count")) + 1))
"""


def test_two_processes_under_the_lock_lose_no_change(tmp_path):
    LocalFilesystem(tmp_path).write("count", "0")
    package = str(Path(filesystem.__file__).parents[1])
    command = [sys.executable, "-c", COUNT_UP, str(tmp_path), "100", package]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert LocalFilesystem(tmp_path).read("count") == "200"


def test_two_threads_under_the_lock_lose_no_change(tmp_path):
    disk = LocalFilesystem(tmp_path)
    disk.write("count", "0")

    def count_up():
        for _ in range(50):
            with disk.lock():
                disk.write("count", str(int(disk.read("count")) + 1))

    threads = [threading.Thread(target=count_up) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert disk.read("count") == "100"


def test_a_lock_that_is_held_too_long_is_an_error_that_says_by_whom(tmp_path):
    message = f"was not changed: process {os.getpid()} on .* has locked it for more than 0.05 s"
    with LocalFilesystem(tmp_path).lock():
        waiting = ThreadPoolExecutor(1).submit(lambda: LocalFilesystem(tmp_path).lock(0.05).__enter__())
        with pytest.raises(ControlFolderError, match=message):
            waiting.result()
    with LocalFilesystem(tmp_path).lock():
        pass
    assert not (tmp_path / ".lock-holder").exists()


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_that_a_stranger_holds_is_not_waited_for_without_end(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        stranger.stdout.readline()
        with (
            pytest.raises(ControlFolderError, match=f"(process {stranger.pid}|another process) has locked it"),
            LocalFilesystem(tmp_path).lock(0.05),
        ):
            pass
        stranger.stdin.close()
    with LocalFilesystem(tmp_path).lock():
        pass


# ---- which one a location means


@settings(deadline=None, max_examples=20)
@given(st.text("ab #?;%20+ü", min_size=1, max_size=8).filter(lambda name: name.strip()))
def test_a_folder_is_used_under_the_very_name_that_was_given(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp() / f"in {name}"
    for location in (str(folder), f"file://{folder}", f"file:{folder}"):
        made = open_filesystem(location)
        made.write("routes.json", location)
        assert (folder / "routes.json").read_text() == location
        assert made.url("routes.json") == f"file://{folder}/routes.json"


def test_a_relative_folder_has_an_absolute_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_filesystem("checkpoint/foretide").url("a.json") == f"file://{tmp_path}/checkpoint/foretide/a.json"


@pytest.mark.parametrize("location", ["gopher://x/y", "http://[::1"])
def test_a_location_that_no_store_understands_is_refused_by_its_name(location):
    with pytest.raises(ControlFolderError, match=re.escape(f"cannot open the control folder '{location}'")):
        open_filesystem(location)
