"""Orders as the loop obeys them: each restart once, and nothing is forgotten because a file cannot be read."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from foretide.control.actions.registry import SetSplit
from foretide.control.world.setup import Observed, Target
from foretide.control_folder.facts import PipelineFacts
from foretide.control_folder.folder import ControlFolder, ControlStatus
from foretide.control_folder.orders import DRAINED, HELD, RESTART, RESTARTED, HeldOrder, RestartOrder, TargetOrder
from foretide.errors import ControlFolderError
from foretide.runtime.loop.controller import Actuator
from foretide.runtime.loop.orders import Orders
from foretide.runtime.loop.world_reader import Observer

FACTS = PipelineFacts("shop", {"lines": True}, {"work": 2})


@pytest.fixture
def folder(tmp_path):
    made = ControlFolder(str(tmp_path))
    made.status.write(FACTS)
    return made


def test_a_drained_worker_or_host_is_taken_out_and_let_back_in(folder):
    orders = Orders(folder)
    seen = Observed(executors={"0": "here", "1": "there"})
    folder.orders.drain("1")
    drained = folder.orders.drain("there")
    assert [action.describe() for action in orders.actions(replace(seen, drained=drained))] == [
        "give worker 1 no more tasks",
        "give the workers of host there no more tasks",
    ]
    out = replace(seen, quarantined=frozenset({"1"}))
    assert orders.actions(replace(out, drained=drained)) == ()
    folder.orders.drain("1", release=True)
    drained = folder.orders.drain("there", release=True)
    assert {action.kind for action in orders.actions(replace(out, drained=drained))} == {"release", "release-host"}
    assert orders.actions(replace(seen, drained=drained)) == ()


DAMAGES = ["", "{", "[]", '{"places": 3}', "[" * 100_000, "\\ud800", "9" * 5000]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_drained_host_stays_out_when_the_file_is_damaged_and_the_driver_starts_again(folder, tmp_path, damage):
    orders = Orders(folder)
    folder.orders.drain("h1")
    assert orders.drained() == {"h1"}
    (tmp_path / DRAINED).write_text(damage)
    assert orders.drained() == {"h1"}
    (problem,) = orders.problems
    assert "drained.json" in problem
    assert "delete it" in problem
    folder.status.write(ControlStatus(1.0, "act", (), Target(), drained=tuple(orders.drained())))
    assert Orders(folder).drained() == {"h1"}
    (tmp_path / DRAINED).unlink()
    assert (orders.drained(), orders.problems) == (frozenset(), [])


def test_a_damaged_target_leaves_the_one_that_was_read_last(folder, tmp_path):
    orders = Orders(folder)
    folder.orders.set_target(TargetOrder(latency=5.0))
    assert orders.target(Target(2.0)) == Target(5.0)
    (tmp_path / "target.json").write_text("{")
    assert orders.target(Target(2.0)) == Target(5.0)
    assert any("target.json" in problem for problem in orders.problems)


def test_limits_that_cannot_be_read_are_a_problem(folder, tmp_path):
    orders = Orders(folder)
    orders.check_admission()
    assert orders.problems == []
    (tmp_path / "admission.json").mkdir()
    orders.check_admission()
    assert "admission.json" in orders.problems[0]


class Played:
    """A query that is restarted when the test says so."""

    def __init__(self, folder):
        self.started, self.restarts = 5.0, []
        self.follower = SimpleNamespace(control_folder=folder, query=self, routes=None)

    def restart(self, restart):
        self.restarts.append(restart)


def test_one_order_is_one_restart_by_this_loop_and_by_the_next_one(folder):
    query = Played(folder)
    executors = SimpleNamespace(executors=dict, quarantined=frozenset)
    observer, orders = Observer(query.follower, executors), Orders(folder)
    actuator = Actuator(query, executors, observer, None)
    order = RestartOrder("one", "because")
    folder.orders.request_restart(order)
    (wanted,) = orders.actions(observer.observed())
    assert orders.actions(observer.observed()) == (wanted,)  # until it is taken up: another order may come first
    assert actuator.perform((wanted,)) == []
    assert [each.order for each in query.restarts] == ["one"]
    assert (orders.actions(observer.observed()), Orders(folder).actions(Observed())) == ((), ())
    assert not wanted.in_force(observer.observed())
    query.started = 4.0  # the driver's clock was set back meanwhile
    assert wanted.in_force(observer.observed())
    folder.orders.request_restart(replace(order, id="two"))
    assert [each.order for each in orders.actions(observer.observed())] == ["two"]


def test_an_order_that_cannot_be_marked_is_not_carried_out(folder, monkeypatch):
    def full(order):
        raise OSError("no space left")

    query = Played(folder)
    actuator = Actuator(query, SimpleNamespace(), Observer(query.follower, SimpleNamespace()), None)
    folder.orders.request_restart(RestartOrder("one"))
    monkeypatch.setattr(folder.orders, "note_restarted", full)
    problems = actuator.perform(Orders(folder).actions(Observed()))
    assert "no space left" in problems[0]
    assert query.restarts == []


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (RestartOrder("x", pools={"nowhere": 5}), "no edge 'nowhere' whose pool can be changed; there are: work"),
        (RestartOrder("x", pools={"work": 0}), "between 1 and 1024"),
        (RestartOrder("x", pools={"work": 300_000_000}), "between 1 and 1024"),
        (RestartOrder("x", state_partitions=300_000_000), "between 1 and 10000"),
        (RestartOrder("x", state_partitions=4), "it keeps no state"),
        (RestartOrder("x", admission={"lines": 4}), "a restart cannot limit spout 'lines'; it can limit: none"),
    ],
)
def test_an_order_that_does_not_fit_is_refused_for_good(folder, order, reason):
    folder.status.write(replace(FACTS, state_repartition="it keeps no state"))
    folder.orders.request_restart(order)
    orders = Orders(folder)
    for _ in range(2):
        assert orders.actions(Observed()) == ()
        assert reason in orders.problems[0]
    folder.status.write(replace(FACTS, pools={"work": 2, "nowhere": 1}))
    assert Orders(folder).actions(Observed()) == ()
    folder.orders.request_restart(RestartOrder("y"))
    assert [each.order for each in orders.actions(Observed())] == ["y"]
    assert orders.problems == []


def test_a_query_that_was_started_elsewhere_is_not_restarted(folder):
    folder.status.write(replace(FACTS, no_restart="it was started elsewhere"))
    folder.orders.request_restart(RestartOrder("x"))
    orders = Orders(folder)
    assert orders.actions(Observed()) == ()
    assert "cannot restart 'shop': it was started elsewhere" in orders.problems[0]


def test_a_restart_waits_for_a_store_that_does_not_answer(folder, monkeypatch):
    def silent():
        raise ControlFolderError("no answer")

    folder.orders.request_restart(RestartOrder("x"))
    orders = Orders(folder)
    with monkeypatch.context() as patch:
        patch.setattr(folder.orders, "last_restarted", silent)
        assert orders.actions(Observed()) == ()
        assert "no answer" in orders.problems[0]
    assert [each.order for each in orders.actions(Observed())] == ["x"]
    assert orders.problems == []


@pytest.mark.parametrize("name", ["pipeline.json", RESTART, RESTARTED])
def test_no_restart_is_made_on_a_guess(folder, tmp_path, name):
    folder.orders.request_restart(RestartOrder("x"))
    (tmp_path / name).write_text('{"at": 50.0, "reason": "by an older version", "id": 3}')
    orders = Orders(folder)
    assert orders.actions(Observed()) == ()
    assert name in orders.problems[0]


def test_a_pipeline_that_has_not_described_itself_is_not_restarted(folder, tmp_path):
    (tmp_path / "pipeline.json").unlink()
    folder.orders.request_restart(RestartOrder("x"))
    orders = Orders(folder)
    assert orders.actions(Observed()) == ()
    assert "start it again" in orders.problems[0]


def test_orders_for_a_time_end_with_it_and_survive_a_start_of_the_driver(folder):
    now = [100.0]
    folder.orders.hold("edge work", HeldOrder("me@here", 100.0, "split 3:1", until=160.0))
    folder.orders.hold("target", HeldOrder("me@here", 100.0, "3 s", until=160.0))
    folder.orders.hold("drained h1", HeldOrder("me@here", 100.0, "no tasks", until=160.0))
    folder.orders.set_target(TargetOrder(3.0))
    folder.orders.drain("h1")
    for orders in (Orders(folder, lambda: now[0]), Orders(folder, lambda: now[0])):
        now[0] = 159.0
        assert set(orders.held()) == {"edge work", "target", "drained h1"}
        assert (orders.drained(), orders.target(Target(1.0)).latency) == ({"h1"}, 3.0)
        now[0] = 160.0
        assert (orders.held(), orders.drained(), orders.target(Target(1.0)).latency) == ({}, frozenset(), 1.0)


def test_what_is_held_stays_so_while_the_file_cannot_be_read(folder, tmp_path):
    orders = Orders(folder)
    folder.orders.hold("edge work", HeldOrder("me@here", 100.0, "split 3:1"))
    assert set(orders.held()) == {"edge work"}
    (tmp_path / HELD).write_text("{")
    assert set(orders.held()) == {"edge work"}
    assert "held.json" in orders.problems[0]


def test_an_action_on_what_a_person_has_just_set_is_refused(folder):
    folder.change_routes(lambda table: table.declare("work", pool=2).split("work", (3.0, 1.0)))
    folder.orders.hold("edge work", HeldOrder("me@here", 100.0, "split 3:1"))
    follower = SimpleNamespace(control_folder=folder)
    actuator = Actuator(SimpleNamespace(follower=follower), None, None, None)
    (problem,) = actuator.perform((SetSplit("work", (1.0, 1.0)),))
    assert "held by a person: split 3:1, set by me@here" in problem
    assert folder.routes().edges["work"].shares == (0.75, 0.25)
