import json
from types import SimpleNamespace

import pytest

from foretide.control_folder.filesystem import LocalFilesystem
from foretide.control_folder.folder import ROUTES, ROUTES_COPY, STATUS, ControlFolder, RaisedAlarm
from foretide.errors import FeedbackGrowthError
from foretide.metrics.alarm_rules import AlarmRule, AlarmState, judge
from foretide.metrics.batch import BatchReport, Returned, SourceRange, TupleIds
from foretide.metrics.snapshot import Snapshot
from foretide.runtime.pipeline.listeners import AuditCost, AuditLog, FeedbackGuard, RouteRepair, StatusFile
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.sinks import Json, KafkaSink, Memory
from foretide.topology.sources import Rate
from helpers import NO_SPACE, READ_ONLY, FullDisk


def work(frame):
    return frame


SPOUT = Spout("lines", Rate(1))
LOOP = Topology("app", [SPOUT], [Bolt("grow", work, [From("lines"), From("grow", feedback=True)])])
CHAIN = Topology("app", [SPOUT], [Bolt("pass", work, [From("lines")])])
FULL = AlarmRule("full", "capacity", above=0.9)
CAME_BACK = "FileStreamSource[file:/data/out]"


def report(returned, fresh=100, description=CAME_BACK):
    sources = (SourceRange(fresh, "RateStreamV2"), SourceRange(returned, description))
    return BatchReport(0, 0.0, 0.0, fresh + returned, 1, None, sources)


def feed(guard, gain, batches, **options):
    returned = 0
    for _ in range(batches):
        guard.see(report(returned, **options), [])
        returned = int(gain * (returned + 100))


def test_a_loop_that_grows_past_its_patience_is_an_error_with_its_figures():
    with pytest.raises(FeedbackGrowthError) as raised:
        feed(FeedbackGuard(LOOP, Json("/data/out"), patience=5), 1.0, 100)
    error = raised.value
    assert (error.pipeline, error.feedback, error.gain, error.batches, error.rows) == (
        "app",
        "grow -> grow",
        1.0,
        5,
        500,
    )
    assert "feedback 'grow -> grow' of 'app' keeps growing" in str(error)


def test_a_loop_that_loses_tuples_is_left_alone():
    feed(FeedbackGuard(LOOP, Json("/data/out"), patience=5), 0.8, 100)


def test_a_loop_through_a_topic_is_told_by_the_topic_of_its_stream():
    guard = FeedbackGuard(LOOP, KafkaSink("host:9092", "back-{stream}"), patience=5)
    feed(guard, 1.0, 100, description="KafkaV2[Subscribe[back-other]]")
    with pytest.raises(FeedbackGrowthError):
        feed(guard, 1.0, 100, description="KafkaV2[Subscribe[back-grow]]")


def in_real_time(guard, gain, seconds, capacity):
    """A loop through a topic, of which a second reads what it can."""
    waiting = 0
    for _ in range(seconds):
        read = min(waiting, capacity)
        written = int(gain * (100 + read))
        waiting += written - read
        returned = {"grow -> grow": Returned(read, written, waiting)}
        guard.see(BatchReport(0, 0.0, 1.0, 100, 1, None, returned=returned), [])


def test_a_loop_in_real_time_is_judged_by_what_was_counted_each_second():
    healthy = FeedbackGuard(LOOP, KafkaSink("host:9092", "back-{stream}"), patience=5)
    in_real_time(healthy, 0.6, 100, 10_000)
    assert healthy.gain == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize(("gain", "capacity"), [(1.0, 10_000), (1.0, 50), (2.0, 10_000), (2.0, 50)])
def test_a_loop_in_real_time_that_grows_is_an_error_even_if_the_query_can_read_no_more(gain, capacity):
    guard = FeedbackGuard(LOOP, KafkaSink("host:9092", "back-{stream}"), patience=5)
    with pytest.raises(FeedbackGrowthError) as raised:
        in_real_time(guard, gain, 12, capacity)
    assert raised.value.gain >= 1


def test_a_loop_in_real_time_whose_broker_is_silent_is_judged_by_what_was_read():
    guard = FeedbackGuard(LOOP, KafkaSink("host:9092", "back-{stream}"), patience=5)
    with pytest.raises(FeedbackGrowthError):
        for second in range(20):
            guard.see(BatchReport(0, 0.0, 1.0, 10, 1, None, returned={"grow -> grow": Returned(100 * second)}), [])


@pytest.mark.parametrize(
    ("path", "description"),
    [
        ("/data/out", "FileStreamSource[file:/data/out]"),
        ("/data/out/", "FileStreamSource[file:/data/out]"),
        ("file:///data/out", "FileStreamSource[file:/data/out]"),
        ("file:/data/out", "FileStreamSource[file:/data/out]"),
        ("out", "FileStreamSource[file:/home/me/out]"),
        ("../runs/out", "FileStreamSource[file:/home/runs/out]"),
        ("/data/out", "FileStreamSource[hdfs://name:8020/data/out]"),
        ("s3a://bucket/data/out", "FileStreamSource[s3a://bucket/data/out]"),
    ],
)
def test_what_comes_back_is_known_by_the_sinks_folder_however_it_was_written(path, description):
    with pytest.raises(FeedbackGrowthError):
        feed(FeedbackGuard(LOOP, Json(path), patience=5), 1.2, 100, description=description)


@pytest.mark.parametrize(
    "description", ["FileStreamSource[file:/data/out-of-town]", "FileStreamSource[file:/data/out/in]"]
)
def test_a_folder_that_only_looks_like_the_sinks_is_not_taken_for_the_loop(description):
    feed(FeedbackGuard(LOOP, Json("/data/out"), patience=5), 1.2, 50, description=description)


def test_without_feedback_or_without_files_there_is_no_loop_to_guard():
    feed(FeedbackGuard(CHAIN, Json("/data/out"), patience=5), 1.2, 50)
    feed(FeedbackGuard(LOOP, Memory("out"), patience=5), 1.2, 50)


# ---- the status of batches


def batch(number, rows=10):
    return BatchReport(number, float(number), 0.1, rows, 1, None)


def test_of_empty_batches_only_the_first_is_told_of_and_only_until_one_had_rows(tmp_path):
    folder = ControlFolder(str(tmp_path))
    status = StatusFile(folder, AuditLog("app"))
    told = []
    for number, rows in enumerate([0, 0, 10, 0, 20]):
        status.see(batch(number, rows), [])
        told.append((folder.status.pipeline().batch, folder.status.pipeline().idle))
    assert told == [(0, True), (0, True), (2, False), (2, False), (4, False)]
    StatusFile(folder, AuditLog("app")).see(batch(5, 0), [])  # after a restart
    assert folder.status.pipeline().batch == 4


# ---- a control folder that cannot be written


@pytest.mark.parametrize(("error", "reason"), [(NO_SPACE, "No space left on device"), (READ_ONLY, "Read-only file")])
def test_a_folder_that_cannot_be_written_is_one_alarm_and_a_problem_until_it_can_be_again(tmp_path, error, reason):
    disk, log = FullDisk(tmp_path), AuditLog("app")
    status = StatusFile(ControlFolder(str(tmp_path), disk), log)
    status.see(batch(0), [])
    disk.error = error
    for number in (1, 2, 3):
        status.see(batch(number), [])
    assert status.problem.startswith(f"'{tmp_path}' cannot be written: {reason}")
    assert [(failure.kind, failure.batch, failure.message) for failure in log.failures] == [
        ("folder-unwritable", 1, status.problem)
    ]
    disk.error = None
    status.see(batch(4), [])
    assert status.problem is None
    assert ControlFolder(str(tmp_path)).status.pipeline().batch == 4
    disk.error = error
    status.see(batch(5), [])
    assert [failure.batch for failure in log.failures] == [1, 5]


def test_what_monitoring_cannot_do_is_in_the_status_until_it_can_again(tmp_path):
    folder = ControlFolder(str(tmp_path))
    monitor = SimpleNamespace(problems=["the metrics store was deleted"], alarms=[])
    status = StatusFile(folder, AuditLog("app"), monitor)
    status.see(batch(0), [])
    assert folder.status.pipeline().problems == ("the metrics store was deleted",)
    monitor.problems = []
    status.see(batch(1), [])
    assert folder.status.pipeline().problems == ()


def test_alarms_are_in_the_status_while_they_hold(tmp_path):
    _, (alarm,), _ = judge(AlarmState(), Snapshot(2.0, "app", {("capacity", "grow"): (0.95, 1.0)}), (FULL,))
    folder, monitor = ControlFolder(str(tmp_path)), SimpleNamespace(problems=[], alarms=[alarm])
    status = StatusFile(folder, AuditLog("app"), monitor)
    status.see(batch(0), [])
    assert folder.status.pipeline().raised == (RaisedAlarm("full", "warning", "grow"),)
    monitor.alarms = []
    status.see(batch(1), [])
    assert folder.status.pipeline().raised == ()


def test_routes_that_cannot_be_repaired_now_are_repaired_as_soon_as_the_folder_can_be_written(tmp_path):
    disk, log = FullDisk(tmp_path), AuditLog("app")
    folder = ControlFolder(str(tmp_path), disk)
    good = folder.change_routes(lambda table: table.declare("parse", pool=2))
    repair = RouteRepair(folder, log)
    (tmp_path / ROUTES).write_text("{")
    disk.error = NO_SPACE
    repair.see(batch(1), [])
    assert repair.routes == good
    disk.error = None
    repair.see(batch(2), [])
    assert folder.routes().edges == good.edges
    assert ["at present" in failure.message for failure in log.failures] == [True, False]


def test_routes_of_the_pool_before_a_restart_are_not_put_back(tmp_path):
    folder = ControlFolder(str(tmp_path))
    folder.change_routes(lambda table: table.declare("parse", pool=2))
    repair = RouteRepair(folder, AuditLog("app"))
    declared = folder.change_routes(lambda table: table.declare("parse", pool=3))
    repair.begin_anew()
    (tmp_path / ROUTES).unlink()
    repair.see(batch(7), [])
    assert folder.routes().edges == declared.edges


# ---- the route table and the status file


@pytest.fixture
def folder(tmp_path):
    made = ControlFolder(str(tmp_path))
    made.change_routes(lambda table: table.declare("work", pool=2).split("work", [3, 1]))
    return made


@pytest.fixture
def repair(folder):
    return RouteRepair(folder, AuditLog("app"))


def is_folder(path):
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def has_version(version):
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | {"version": version}))


@pytest.mark.parametrize(
    "damage",
    [
        is_folder,
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_bytes(b"\xff"),
        lambda path: path.write_text('{"format": 1, "version": ' + "9" * 5000 + "}"),
        has_version(2**70),
        has_version(2**63),
        has_version(-1),
        has_version("2"),
        lambda path: path.unlink(),
    ],
)
def test_a_damaged_table_is_published_again_under_the_version_after_the_last_good_one(folder, repair, tmp_path, damage):
    good = folder.routes()
    damage(tmp_path / ROUTES)
    repair.see(report(0), [])
    assert (folder.routes().version, folder.routes().edges) == (good.version + 1, good.edges)
    assert repair.routes == folder.routes()
    repair.see(report(0), [])
    assert [each.kind for each in repair._audit_log.failures] == ["routes-unreadable"]


def test_a_split_that_no_batch_has_reported_yet_survives_the_damage_of_its_table(folder, repair, tmp_path):
    changed = folder.change_routes(lambda table: table.split("work", [1, 0]))
    (tmp_path / ROUTES).write_text("{")
    repair.see(report(0), [])
    assert folder.routes() == changed.republished()


@pytest.mark.parametrize("damage", [is_folder, lambda path: path.unlink(), lambda path: path.write_text("{")])
def test_without_a_sound_copy_the_last_routes_that_were_read_are_published_again(folder, repair, tmp_path, damage):
    good = folder.routes()
    damage(tmp_path / ROUTES_COPY)
    (tmp_path / ROUTES).unlink()
    repair.see(report(0), [])
    assert folder.routes() == good.republished()


def test_a_damaged_table_is_repaired_once_the_lock_is_free(folder, repair, tmp_path):
    good = folder.routes()
    (tmp_path / ROUTES).write_text("{")
    with LocalFilesystem(tmp_path).lock():
        for _ in range(2):
            repair.see(report(0), [])
        assert repair.routes == good
    (said,) = repair._audit_log.failures
    assert "has locked it" in said.message
    repair.see(report(0), [])
    assert folder.routes().edges == good.edges


def test_a_folder_in_the_place_of_the_status_is_moved_aside(folder, tmp_path):
    (tmp_path / STATUS).mkdir()
    StatusFile(folder, AuditLog("app")).see(report(0), [])
    assert folder.status.pipeline().input_rows == 100
    assert (tmp_path / f"{STATUS}.damaged-1").is_dir()


# ---- what tuple ids cost


def counted(rows, duration=0.5):
    return BatchReport(0, 0.0, duration, rows, 1, None, ids={"parse": TupleIds(rows, 1, rows, 1)})


def test_ids_that_take_more_than_their_share_are_a_problem_until_batches_are_smaller():
    cost = AuditCost(lambda: 2, allowed=0.01)
    for _ in range(19):
        cost.see(counted(20_000), [])
    assert cost.problem is None  # too few batches to tell
    cost.see(counted(20_000), [])
    assert "takes about 2.0% of a batch" in cost.problem
    for _ in range(20):
        cost.see(counted(4_000), [])
    assert cost.problem is None
