"""How often a running query's files are read, and that what people write into them is seen all the same.

Follower, observer, orders, actor and loop are the real ones; only Spark is played.
"""

import time
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from foretide.control.actions.registry import Quarantine, SetReplicas
from foretide.control.decisions.decision import Wish
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.control_folder.facts import PipelineFacts
from foretide.control_folder.filesystem import LocalFilesystem
from foretide.control_folder.folder import ROUTES, ControlFolder
from foretide.control_folder.orders import DRAINED, RestartOrder, TargetOrder
from foretide.metrics.batch import BatchReport, TaskRun
from foretide.metrics.snapshot import Snapshot, freeze
from foretide.runtime.loop.controller import Actuator, Controller, Journal
from foretide.runtime.loop.world_reader import Observer, WorldReader, WorldRecorder
from foretide.runtime.pipeline.followed import FollowedQuery


class Counting(LocalFilesystem):
    """A folder on the disk that counts what is read, and what for: looking, or changing under a lock."""

    def __init__(self, folder):
        super().__init__(folder)
        self.looks, self.changes = Counter(), Counter()
        self._changing = False

    def read(self, name):
        (self.changes if self._changing else self.looks)[name] += 1
        return super().read(name)

    @contextmanager
    def lock(self, seconds=5.0):
        with super().lock(seconds):
            self._changing = True
            yield
            self._changing = False


class Cluster:
    """Two executors that do as they are told."""

    cores, range, can_quarantine, limits = 2, None, True, ()

    def __init__(self):
        self.out = set()

    def executors(self):
        return {"0": "here", "1": "there"}

    def quarantined(self):
        return frozenset(self.out)

    def remove_idle(self, busy, until):
        pass

    def take_out(self, executor):
        self.out.add(executor)

    def let_in(self, executor):
        self.out.discard(executor)


class Played(FollowedQuery):
    """Follows a query whose batches the test hands in."""

    def __init__(self, folder):
        super().__init__(SimpleNamespace(name="q"), folder, None)
        self.started = self.follower._followed_since = 1.0
        self.restarts = []
        self.follower.monitor = SimpleNamespace(
            latency_basis=None,
            snapshot=lambda: Snapshot(time.time(), "q", freeze({}), freeze({})),
            set_forecasts=lambda _: None,
            note_problem=lambda *_: None,
        )

    def restart(self, restart):
        self.restarts.append(restart)


def task(operator, edge, feeds):
    return TaskRun(operator, 0, edge, feeds, False, "0", "here", *[1.0] * 8, 10, 10, 0, 0, 0)


class Wanting:
    """Wishes what the test says."""

    name = "wanting"

    def __init__(self):
        self.action = None

    def start(self):
        return None

    def wish(self, state, world):
        return state, [] if self.action is None else [Wish(self.name, self.action, "the test says so")]


class Scene:
    """A followed query with its control loop, and the folder as other terminals see it."""

    def __init__(self, path):
        self.people = ControlFolder(str(path))
        self.people.change_routes(lambda table: table.declare("work", pool=4))
        self.files = Counting(path)
        folder = ControlFolder(str(path), self.files)
        self.cluster, self.policy = Cluster(), Wanting()
        query = Played(folder)
        self.follower, self.restarts = query.follower, query.restarts
        self.observer = Observer(self.follower, self.cluster)
        self.controller = Controller(
            Control((self.policy,)),
            WorldReader(query, self.cluster, self.observer, Target(2.0)),
            Actuator(query, self.cluster, self.observer, None),
            Journal(None),
            WorldRecorder(None),
            folder,
        )
        self.follower.subscribe(self.controller)
        self.files.looks.clear()

    def end_batch(self, version):
        """A batch ends that read routes of this version, and the loop has had its turn."""
        number = self.follower.last_batch + 1
        tasks = (task("read", None, "work"), task("work", "work", None))
        self.follower.publish(BatchReport(number, time.time(), 0.1, 10, version, {}, tasks=tasks))
        end = time.monotonic() + 20
        while (status := self.people.status.control()) is None or status.cycles != number + 1:
            assert time.monotonic() < end, self.controller.problems
            time.sleep(0.01)


@pytest.fixture
def scene(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "foretide.runtime.loop.controller._PERIOD_SECONDS", 600.0
    )  # no cycle but those that follow a batch
    made = Scene(tmp_path)
    made.controller.start()
    yield made
    made.controller.stop()
    assert made.controller.problems == []


def test_routes_and_drained_places_are_read_once_a_batch(scene):
    for _ in range(5):
        scene.end_batch(1)
    assert (scene.files.looks[ROUTES], scene.files.looks[DRAINED]) == (5, 5)
    assert scene.files.changes == {}


def test_a_loop_that_publishes_routes_reads_them_only_to_change_them_and_knows_what_it_published(scene):
    before = scene.people.change_routes(lambda table: table.activate("work", 1)).version
    scene.policy.action = SetReplicas("work", 2)
    scene.end_batch(before)
    assert scene.people.routes().edges["work"].active == 2
    scene.people.change_routes(lambda table: table.activate("work", 4))
    scene.end_batch(before + 1)  # it began between the two
    assert scene.observer.observed().routes["work"] == (512.0, 512.0, 0.0, 0.0)
    assert (scene.files.looks[ROUTES], scene.files.changes[ROUTES]) == (2, 1)


def test_what_a_person_writes_into_the_route_file_is_seen_in_the_next_batch(scene, tmp_path):
    scene.end_batch(1)
    edited = scene.people.routes().split("work", (0, 0, 0, 1))
    (tmp_path / ROUTES).write_text(edited.to_json())
    scene.end_batch(edited.version)
    assert scene.follower.routes == edited
    assert scene.observer.observed().routes["work"] == (0.0, 0.0, 0.0, 1024.0)


def test_a_damaged_route_file_is_mended_after_the_batch_and_the_loop_goes_on(scene, tmp_path):
    scene.end_batch(1)
    good = scene.people.routes()
    (tmp_path / ROUTES).write_text("{")
    scene.end_batch(None)
    assert "routes-unreadable" in {alarm.kind for alarm in scene.follower.audit_log.failures}
    mended = scene.people.routes()
    assert (mended.version, mended.edges) == (good.version + 1, good.edges)
    scene.end_batch(mended.version)
    assert scene.observer.observed().route_version == mended.version


def test_orders_from_another_terminal_are_obeyed_after_the_next_batch(scene):
    scene.people.orders.drain("1")
    scene.people.orders.set_target(TargetOrder(latency=5.0))
    scene.end_batch(1)
    assert scene.controller.target == Target(5.0)
    assert scene.controller.decisions[-1].actions == (Quarantine("1"),)
    assert scene.cluster.out == {"1"}
    scene.people.status.write(PipelineFacts("q", {}, {"work": 4}))
    scene.people.orders.request_restart(RestartOrder("one", "more tasks", pools={"work": 6}))
    scene.end_batch(1)
    scene.end_batch(1)
    assert [(wanted.reason, wanted.pools) for wanted in scene.restarts] == [("more tasks", {"work": 6})]
    assert scene.people.orders.last_restarted() == "one"
    scene.people.orders.drain("1", release=True)
    scene.end_batch(1)
    assert scene.cluster.out == set()
