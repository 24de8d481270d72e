"""What a campaign checks beside rows: each check finds what it is there for."""

import json
import subprocess
import sys

import pytest

from foretide.control.decisions.decision import Decision
from foretide.control_folder.folder import ControlFolder, PipelineStatus
from foretide.soak.checks import NotesRead, StatusWatch, find_problems
from foretide.soak.layout import Layout
from foretide.soak.outcome import Comparison, Outcome
from foretide.soak.processes import is_alive, kill_session, left_over
from foretide.store.metric_store import MetricStore


@pytest.fixture
def layout(tmp_path):
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    return Layout(tmp_path)


def commit(layout, batch):
    (layout.checkpoint / "commits" / str(batch)).touch()


def show(layout, batch):
    ControlFolder(str(layout.control_folder)).status.write(PipelineStatus(batch, 0.0, 10))


def test_the_lag_of_the_status_is_that_of_batches_committed_after_a_fault(layout):
    watch = StatusWatch(layout)
    commit(layout, 0)
    show(layout, 0)
    watch.note_fault()
    for batch in range(1, 5):
        commit(layout, batch)
        watch.turn()
    show(layout, 4)
    watch.turn()
    commit(layout, 5)
    watch.turn()
    assert watch.lag == 3


def test_a_status_that_keeps_up_has_no_lag(layout):
    watch = StatusWatch(layout)
    for batch in range(4):
        watch.note_fault()
        commit(layout, batch)
        show(layout, batch)
        watch.turn()
    assert watch.lag == 0


def write_decisions(layout, numbers):
    with MetricStore.open(str(layout.store)) as store:
        store.write_decisions("soak", [Decision(number, float(number), "soak") for number in numbers])


def problems(layout, notes=None, deleted=0.0):
    found = NotesRead.of(layout) if notes is None else notes
    return list(find_problems(layout, found, deleted, StatusWatch(layout)))


def note_decisions(layout, times, end):
    lines = [{"event": "start", "at": 0.0, "pid": 11, "app": "app-1"}]
    lines += [{"event": "decision", "at": at, "id": number, "actions": []} for number, at in times.items()]
    layout.notes.write_text("\n".join(map(json.dumps, [*lines, {"event": end, "at": 101.0}])))


def test_decisions_that_were_made_and_are_not_in_the_store_are_found(layout):
    write_decisions(layout, [1, 2, 5])
    note_decisions(layout, {1: 10.0, 3: 20.0, 5: 30.0, 6: 100.0}, "end")
    assert "decisions are missing: 3, 6" in problems(layout)


def test_decisions_before_the_store_was_deleted_or_just_before_a_kill_need_not_be_there(layout):
    write_decisions(layout, [5])
    note_decisions(layout, {3: 20.0, 5: 30.0, 6: 100.0}, "note")
    assert "decisions are missing: 3" in problems(layout)
    assert not any("decisions" in each for each in problems(layout, deleted=25.0))


def test_a_status_that_is_behind_at_the_end_is_found(layout):
    commit(layout, 3)
    show(layout, 2)
    assert "the status shows batch 2, and the last one that was committed is 3" in problems(layout)


def test_alarms_and_lives_are_read_from_notes_and_a_line_that_was_cut_off_is_left_out(layout):
    lines = [
        {"event": "start", "at": 1.0, "pid": 11, "app": "app-1"},
        {"event": "batch", "at": 2.0, "batch": 0, "routes": 4, "plans": [], "alarms": []},
        {"event": "start", "at": 3.0, "pid": 12, "app": "app-2"},
        {"event": "batch", "at": 4.0, "batch": 1, "routes": 7, "plans": [3, None], "alarms": ["a row is lost"]},
    ]
    layout.notes.write_text("\n".join(map(json.dumps, lines)) + '\n{"event": "ba')
    notes = NotesRead.of(layout)
    assert (notes.lives, notes.applications, notes.routes, notes.plans) == (2, ("app-1", "app-2"), {4, 7}, {3})
    assert "the audit raised an alarm although no row is lost: a row is lost" in problems(layout)


def test_processes_that_outlive_their_driver_are_found_and_killed():
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']); print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, start_new_session=True) as driver:
        driver.stdout.readline()
        try:
            found = left_over([driver.pid], [])
            assert driver.pid in found
            assert len(found) == 2
        finally:
            kill_session(driver.pid)
        driver.wait()
        assert not any(map(is_alive, found))
        assert left_over([driver.pid], []) == []


@pytest.mark.parametrize(
    ("comparison", "problems", "passed"),
    [
        (Comparison({"work": 5}, 0, 0, 0), (), True),
        (Comparison({"work": 5}, 1, 0, 0), (), False),
        (Comparison({"work": 5}, 0, 1, 0), (), False),
        (Comparison({"work": 5}, 0, 0, 1), (), False),
        (Comparison({}, 0, 0, 0), (), False),
        (Comparison({"work": 5}, 0, 0, 0), ("a process is left over",), False),
        (None, (), False),
    ],
)
def test_a_campaign_passes_only_if_all_rows_are_there_once_and_nothing_else_is_wrong(comparison, problems, passed):
    assert Outcome(1, 2.0, {}, {}, 1, 1, comparison, problems).passed is passed


def test_kills_are_counted_without_what_is_only_stopped_or_changed():
    done = {"kill-jvm": 2, "kill-session": 1, "kill-executor": 4, "stop-driver": 8, "split": 16}
    assert Outcome(1, 2.0, done, {}, 1, 1, None).kills == 7
