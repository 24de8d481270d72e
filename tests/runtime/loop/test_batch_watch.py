"""Running tasks are looked at in late batches only; who is slow there gets the loop a cycle, and stuck tasks copies."""

import threading
import time
from types import SimpleNamespace

import pytest

from foretide.metrics.batch import BatchReport
from foretide.metrics.running_tasks import TaskAttempt
from foretide.runtime.loop.batch_watch import BatchWatch
from foretide.spark.running_tasks import may_copy_results

DONE = TaskAttempt(7, 0, "1", True, 1.0, 1.0, 100, 100.0)
STUCK = TaskAttempt(7, 1, "0", False, 9.0, 9.0, 3, 100.0)


class Handle:
    """A StreamingQuery of which a batch is under way, or not."""

    runId = "run"  # noqa: N815 - Spark's name
    lastProgress = SimpleNamespace(sink=SimpleNamespace(description="FileSink[out]"))  # noqa: N815

    def __init__(self, *, busy):
        self.busy, self.asked = busy, 0

    @property
    def status(self):
        self.asked += 1
        return {"isTriggerActive": self.busy}


class Tasks:
    heartbeat = 1.0

    def __init__(self, *attempts):
        self.given, self.looks = attempts, threading.Event()

    def attempts(self, run_id, *, even):
        assert run_id == "run"
        self.looks.set()
        return self.given


class Executors:
    changed = 0.0

    def __init__(self, *out):
        self.out, self.copied = frozenset(out), []

    def quarantined(self):
        return self.out

    def copy_tasks(self, executor, run_id, *, results):
        self.copied.append((executor, run_id, results))
        return 1


def batches(ago, seconds=1.0, number=5):
    """Batches of a second each, the last one ended some seconds ago."""
    end = time.time() - ago
    return [BatchReport(each, end - (number - each) * seconds, seconds, 10, 1, {}) for each in range(1, number + 1)]


@pytest.fixture
def watching():
    started = []

    def start(ago, tasks, executors=None, *, busy=True):
        topology = SimpleNamespace(name="q", spouts=())
        query = SimpleNamespace(handle=Handle(busy=busy), topology=topology)
        follower = SimpleNamespace(reports=batches(ago), query=query, topology=topology)
        put, woken = [], threading.Event()
        hastened = threading.Event()
        monitor = SimpleNamespace(put=put.extend, hasten=hastened.set)
        watch = BatchWatch(follower, executors or Executors(), tasks, monitor)
        watch.start(woken.set)
        started.append(watch)
        return SimpleNamespace(put=put, woken=woken, hastened=hastened, handle=query.handle, watch=watch)

    yield start
    for watch in started:
        watch.stop()


def test_a_slow_worker_in_a_late_batch_is_measured_and_wakes_the_loop(watching):
    seen = watching(5.0, Tasks(DONE, STUCK))
    assert seen.woken.wait(20)
    slow = {sample.subject: sample.value for sample in seen.put if sample.metric == "worker_running_slowness"}
    assert slow["0"] > 5
    assert slow["1"] == 1
    assert seen.hastened.is_set()  # what the workers' processes do is read, too
    assert seen.watch.problem is None


def test_while_batches_take_their_usual_time_spark_is_not_asked(watching):
    tasks = Tasks(DONE, STUCK)
    seen = watching(-60.0, tasks)  # the next one is never late
    assert not tasks.looks.wait(1.0)
    assert seen.handle.asked == 0


def test_between_two_batches_there_are_no_tasks_to_look_at(watching):
    tasks = Tasks(DONE, STUCK)
    seen = watching(5.0, tasks, busy=False)
    assert not tasks.looks.wait(1.0)
    assert seen.handle.asked > 0
    assert not seen.put


def test_workers_that_are_as_fast_as_others_wake_nobody(watching):
    tasks = Tasks(DONE, TaskAttempt(7, 1, "0", False, 1.2, 1.2, 90, 100.0))
    seen = watching(5.0, tasks)
    assert tasks.looks.wait(20)
    assert not seen.woken.wait(0.5)


def test_stuck_tasks_of_a_worker_that_is_out_are_copied_and_nobody_is_judged_in_that_batch(watching):
    executors = Executors("0")
    executors.changed = time.time()
    seen = watching(5.0, Tasks(DONE, STUCK), executors)
    end = time.monotonic() + 20
    while not seen.put and time.monotonic() < end:
        time.sleep(0.02)
    assert executors.copied[0] == ("0", "run", True)
    assert {sample.metric for sample in seen.put} == {"worker_copied_tasks"}
    assert not seen.woken.is_set()


def test_without_a_way_to_read_tasks_nothing_is_started_or_copied(watching):
    executors = Executors("0")
    seen = watching(5.0, None, executors)
    seen.watch.copy_tasks("0")
    assert not executors.copied
    assert not seen.woken.wait(0.5)


@pytest.mark.parametrize(
    ("sink", "may"),
    [
        ("FileSink[file:/out]", True),
        ("org.apache.spark.sql.execution.datasources.noop.NoopTable$@1", True),
        ("org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1", False),
        ("ForeachBatchSink", False),
        ("ForeachWriterTable(...)", False),
        ("", False),
    ],
)
def test_tasks_that_write_are_copied_only_where_the_sink_ignores_attempts_that_do_not_count(sink, may):
    assert may_copy_results(sink) is may
