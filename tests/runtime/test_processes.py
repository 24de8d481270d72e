"""Child processes: started on request, restarted after a while, and never waited for."""

import io
import json
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from foretide.runtime.processes import FitProcess, JsonProcess, serve
from helpers import environment

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


@dataclass(frozen=True)
class Request:
    niceness: int
    names: tuple[str, ...]


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def python(code):
    return [sys.executable, "-c", code]


def test_nothing_runs_before_start_and_messages_are_exchanged_after_it():
    messages = []
    process = JsonProcess("echoes", python(ECHO), messages.append, retry_after=10.0)
    process.send({"lost": 1})
    assert not process.started
    assert process.may_start(0.0)
    process.start(Request(0, ("a", "b")))
    process.send({"problem": "none at all"})
    wait_for(lambda: len(messages) == 2)
    assert messages == [{"niceness": 0, "names": ["a", "b"]}, {"problem": "none at all"}]
    assert process.problem == "none at all"
    assert not process.may_start(1.0), "it runs"
    process.close()
    process.close()
    assert not process.started


def test_a_process_that_ends_is_a_problem_and_may_be_started_again_later():
    process = JsonProcess("nothing", python("import sys; sys.exit('out of luck')"), print, retry_after=10.0)
    process.start(Request(0, ()))
    wait_for(lambda: process._child.poll() is not None)
    assert not process.may_start(5.0)
    assert process.problem == "the process that forecasts nothing has ended: out of luck"
    assert not process.may_start(14.9)
    assert process.may_start(15.0)


def test_a_fit_has_a_folder_a_result_or_a_problem_and_a_deadline():
    def fit(code, deadline=60.0):
        return FitProcess.start(lambda folder: (folder / "input").write_text("7"), lambda *_: python(code), 0, deadline)

    good = fit("pass")
    assert (good.folder / "input").read_text() == "7"
    wait_for(lambda: not good.running(0.0))
    assert good.problem() is None
    bad = fit("raise SystemExit('no luck')")
    wait_for(lambda: not bad.running(0.0))
    assert bad.problem() == "it ended with code 1: no luck"
    slow = fit("import time; time.sleep(600)", deadline=5.0)
    assert slow.running(4.9)
    assert not slow.running(5.0)
    assert "took too long" in slow.problem()
    for each in (good, bad, slow):
        each.close()
        assert not each.folder.exists()


def test_a_fit_that_cannot_be_prepared_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail(folder):
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        FitProcess.start(fail, lambda *_: python("pass"), 0, 1.0)
    assert list(tmp_path.iterdir()) == []


def test_the_main_loop_makes_a_server_from_the_request_and_answers_each_message(monkeypatch, capsys):
    class Server:
        def __init__(self, request):
            self.request = request

        def restore(self):
            yield {"restored": list(self.request.names)}

        def answer(self, message):
            yield {"twice": 2 * message["value"]}

    lines = [{"niceness": 0, "names": ["a"]}, {"value": 2}, {"value": 5}]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(json.dumps(line) + "\n" for line in lines)))
    serve(Request, Server)
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers == [{"restored": ["a"]}, {"twice": 4}, {"twice": 10}]


def test_a_fit_ends_and_removes_its_folder_when_its_parent_is_killed(tmp_path):
    folder = tmp_path / "fit"
    folder.mkdir()
    child = "import sys, time; from pathlib import Path; from foretide.runtime.processes import end_with_parent\n"
    child += "end_with_parent(Path(sys.argv[1])); print('in', flush=True); time.sleep(600)"
    parent = "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', sys.argv[2], sys.argv[1]])\n"
    command = [*python(parent + "time.sleep(600)"), str(folder), child]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as killed:
        assert killed.stdout.readline() == "in\n"
        killed.kill()
        assert killed.stdout.read() == ""  # the child, which has the pipe too, has ended
    wait_for(lambda: not folder.exists())
