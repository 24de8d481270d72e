"""The loop around the pure step: it goes on whatever fails or hangs, obeys people, and says how it is."""

import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

import foretide as ft
from foretide.control.actions.registry import Quarantine, SetReplicas
from foretide.control.decisions.decision import Wish
from foretide.control.decisions.explain import summary
from foretide.control.step import Control
from foretide.control.world.setup import Observed, OperatorSetup, Setup, Target
from foretide.control_folder import by_hand
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.orders import TargetOrder
from foretide.metrics.batch import BatchReport
from foretide.metrics.snapshot import Snapshot, freeze
from foretide.runtime.loop.controller import Controller, Journal
from foretide.runtime.loop.world_reader import WorldReader, WorldRecorder
from helpers import NO_SPACE, FullDisk

SETUP = Setup("q", (OperatorSetup("read", spout=True), OperatorSetup("work", 4, "work")), (("read", "work"),))
REPORT = BatchReport(1, 10.0, 1.0, 5, 1, {})


@dataclass(frozen=True)
class Always:
    """Wishes one thing for ever."""

    action: object
    name: str = "always"

    def start(self):
        return None

    def wish(self, state, world):
        return state, [Wish(self.name, self.action, "it does")]


class Eyes:
    """What is in force, for a query that does whatever it is told."""

    def __init__(self, folder):
        self.folder = folder
        self.observed_now = Observed({"work": (1.0, 0.0, 0.0, 0.0)}, 1, {"0": "here", "1": "here"})
        self.done = []

    def see(self, report, routes):
        pass

    def note_limits(self, at):
        pass

    def observed(self):
        return self.observed_now

    def perform(self, actions):
        self.done += actions
        return []

    def remove_idle_executors(self):
        pass


class Running:
    """A query that can be controlled, as far as the loop reads it."""

    def __init__(self, folder, snapshot):
        monitor = SimpleNamespace(snapshot=snapshot, latency_basis=None, set_forecasts=lambda _: None)
        self.follower = SimpleNamespace(control_folder=folder, monitor=monitor, routes=folder.routes())

    def setup(self, executors):
        return SETUP


def loop(tmp_path, policies, mode="act", **options):
    folder = ControlFolder(str(tmp_path))
    eyes = Eyes(folder)
    snapshot = options.pop("snapshot", lambda: Snapshot(time.time(), "q", freeze({}), freeze({})))
    reader = WorldReader(
        Running(folder, snapshot), SimpleNamespace(limits=[], range=SETUP.executors), eyes, Target(2.0)
    )
    control = Control(tuple(policies), mode=mode)
    controller = Controller(control, reader, eyes, Journal(None), WorldRecorder(None), folder, **options)
    return controller, eyes, folder


def until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def started():
    running = []

    def start(controller):
        running.append(controller.start())
        return controller

    yield start
    for controller in running:
        controller.stop()


def test_a_cycle_follows_every_batch_and_what_it_decides_is_done_and_told(tmp_path, started):
    controller, eyes, folder = loop(tmp_path, [Always(SetReplicas("work", 2))])
    heard = []
    controller.on_decision(heard.append)
    started(controller).see(REPORT, [])
    until(lambda: heard)
    assert eyes.done == [SetReplicas("work", 2)]
    assert [each.actions for each in controller.decisions] == [(SetReplicas("work", 2),)]
    until(lambda: folder.status.control() and folder.status.control().decisions)
    status = folder.status.control()
    assert status.policies == ("always",)
    assert status.workers == {"0": "here", "1": "here"}
    assert "use 2 replicas" in status.decisions[0].summary


def test_in_mode_advise_nothing_is_touched(tmp_path, started):
    controller, eyes, _ = loop(tmp_path, [Always(SetReplicas("work", 2))], mode="advise")
    started(controller).see(REPORT, [])
    until(lambda: controller.decisions)
    assert controller.decisions[0].mode == "advise"
    assert eyes.done == []


def test_people_pause_the_loop_and_let_it_advise_or_act_again(tmp_path, started):
    controller, eyes, folder = loop(tmp_path, [Always(SetReplicas("work", 2))])
    told = []
    controller.on_mode(told.append)
    folder.orders.set_mode("pause")
    folder.orders.drain("1")
    started(controller).see(REPORT, [])
    until(lambda: folder.status.control() and folder.status.control().paused)
    until(lambda: eyes.done)
    assert set(eyes.done) == {Quarantine("1")}, "orders of people are carried out, and nothing else"
    for mode in ("advise", None):
        folder.orders.set_mode(mode)
        controller.see(REPORT, [])
        until(lambda mode=mode: folder.status.control().mode == (mode or "act") and not folder.status.control().paused)
    until(lambda: SetReplicas("work", 2) in eyes.done)
    assert told == ["pause", "advise", "act"]


def test_what_people_hold_is_a_decision_by_hand(tmp_path, started):
    controller, _, folder = loop(tmp_path, [])
    started(controller).see(REPORT, [])
    until(lambda: controller.cycles)
    by_hand.change_route(folder, "work", lambda table: table.declare("work", pool=2).split("work", (3, 1)), "3:1", None)
    controller.see(REPORT, [])
    until(lambda: controller.decisions)
    by_hand.release(folder, "edge work")
    controller.see(REPORT, [])
    until(lambda: len(controller.decisions) > 1)
    said = [summary(each) for each in controller.decisions]
    assert said[0].startswith("by hand: edge work: 3:1, set by ")
    assert said[1] == "by hand: edge work: released"


def test_what_fails_is_shown_and_the_loop_begins_anew_after_several_failures(tmp_path, started, caplog):
    broken = threading.Event()
    broken.set()

    def snapshot():
        if broken.is_set():
            raise OSError("no snapshot")
        return Snapshot(time.time(), "q", freeze({}), freeze({}))

    controller, eyes, folder = loop(tmp_path, [Always(SetReplicas("work", 2))], snapshot=snapshot)
    started(controller)
    for _ in range(4):
        controller.see(REPORT, [])
        time.sleep(0.1)
    until(lambda: any("no snapshot" in problem for problem in controller.problems))
    until(lambda: folder.status.control().problems)
    broken.clear()
    controller.see(REPORT, [])
    until(lambda: eyes.done)
    assert controller.problems == []
    assert "a control cycle failed; the query runs on" in caplog.text


def test_a_policy_that_raises_is_named_and_the_others_go_on(tmp_path, started):
    class Broken(Always):
        def wish(self, state, world):
            raise ValueError("oh dear")

    controller, eyes, _ = loop(tmp_path, [Broken(None, "broken"), Always(SetReplicas("work", 2))])
    started(controller).see(REPORT, [])
    until(lambda: eyes.done)
    assert any("policy 'broken' failed: ValueError: oh dear" in each for each in controller.decisions[0].problems)


def test_a_loop_that_hangs_is_taken_over_by_a_new_one_and_the_old_one_acts_no_more(tmp_path, started):
    hang, hung = threading.Event(), threading.Event()

    class Hanging(Always):
        def wish(self, state, world):
            if not hung.is_set():
                hung.set()
                hang.wait(30)
            return super().wish(state, world)

    controller, eyes, _ = loop(tmp_path, [Hanging(SetReplicas("work", 2))], hung_after_seconds=0.2)
    started(controller).see(REPORT, [])
    assert hung.wait(10)
    time.sleep(0.3)
    controller.see(REPORT, [])  # the follower comes by, and finds that it hangs
    until(lambda: eyes.done)
    assert any("hung" in problem for problem in controller.problems) or controller.status().restarts == 1
    hang.set()
    time.sleep(0.2)
    assert eyes.done == [SetReplicas("work", 2)]


def test_a_listener_that_fails_does_not_stop_the_loop(tmp_path, started, caplog):
    controller, eyes, _ = loop(tmp_path, [Always(SetReplicas("work", 2))])
    controller.on_decision(lambda decision: 1 / 0)
    started(controller).see(REPORT, [])
    until(lambda: eyes.done)
    until(lambda: controller.cycles >= 1)
    assert controller.problems == []


def test_people_change_the_target_and_nonsense_leaves_the_earlier_one(tmp_path):
    controller, _, folder = loop(tmp_path, [])
    assert controller.target == Target(2.0)
    folder.orders.set_target(TargetOrder(latency=5.0, budget=3))
    assert controller.target == Target(5.0, budget=3)
    folder.orders.set_target(TargetOrder(latency=-1.0))
    assert controller.target == Target(2.0)
    assert "the requested target is invalid" in controller.problems[0]


def test_an_order_goes_before_every_policy(tmp_path, started):
    controller, eyes, folder = loop(tmp_path, [Always(SetReplicas("work", 2))])
    folder.orders.drain("1")
    started(controller).see(REPORT, [])
    until(lambda: eyes.done)
    assert eyes.done[0] == Quarantine("1")


def test_an_order_that_a_guard_stops_is_a_problem_until_it_is_taken_back(tmp_path, started):
    controller, eyes, folder = loop(tmp_path, [])
    eyes.observed_now = Observed(executors={"0": "here", "1": "here"}, quarantined=frozenset({"0"}))
    folder.orders.drain("0")
    folder.orders.drain("1")
    started(controller).see(REPORT, [])
    until(lambda: controller.problems)
    held_back = "the order to give worker 1 no more tasks is not carried out: only 0 workers would be left"
    assert controller.problems == [held_back]
    until(lambda: folder.status.control().problems == (held_back,))
    assert eyes.done == []
    folder.orders.drain("1", release=True)
    controller.see(REPORT, [])
    until(lambda: not controller.problems)


def test_control_of_something_else_is_refused():
    with pytest.raises(ft.errors.ControlError, match="cannot be controlled"):
        ft.control("no query")


def test_a_loop_whose_folder_cannot_be_written_goes_on_and_says_so(tmp_path, started, caplog):
    controller, eyes, folder = loop(tmp_path, [Always(SetReplicas("work", 2))])
    disk = folder.status._files = FullDisk(tmp_path)
    disk.error = NO_SPACE
    started(controller).see(REPORT, [])
    until(lambda: any("cannot be written: No space left on device" in problem for problem in controller.problems))
    assert eyes.done == [SetReplicas("work", 2)]
    assert "Traceback" not in caplog.text
    disk.error = None
    controller.see(REPORT, [])
    until(lambda: not controller.problems)
    assert folder.status.control().cycles


def test_a_notebook_shows_the_loop_and_progress_ends_with_it(tmp_path, started, capsys):
    controller, eyes, _ = loop(tmp_path, [Always(SetReplicas("work", 2))])
    started(controller).see(REPORT, [])
    until(lambda: eyes.done)
    controller.progress(0.01)
    assert "decision 1: use 2 replicas behind edge 'work'" in capsys.readouterr().out
    assert "running" in controller._repr_html_()
    controller.stop()
    controller.progress()  # would wait for ever
    assert "use 2 replicas behind edge" in controller._repr_html_()
    assert "ended" in controller._repr_html_()
