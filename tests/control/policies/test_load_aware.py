"""Load-aware splits as decisions: by what replicas took, beside other policies, and as often as a batch."""

from dataclasses import replace

import numpy as np
import pytest

from foretide.control.actions.registry import SetReplicas, SetSplit
from foretide.control.decisions.decision import Wish
from foretide.control.guards import GuardSettings
from foretide.control.policies.load_aware import LoadAwareSplits
from foretide.control.policies.replicas import Replicas
from foretide.control.simulation.pipeline import simulate_pipeline
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.step import Control, step
from foretide.control.world.setup import Observed, OperatorSetup, Setup
from foretide.control.world.world import World
from foretide.metrics.snapshot import Snapshot
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

PARSE = OperatorSetup("parse", 3, "parse", balance_every=2.0)
SETUP = Setup("q", (OperatorSetup("read", spout=True), PARSE), (("read", "parse"),))


def world(at, weights, rows, busy, setup=SETUP):
    figures = {("batch", "q"): (at, at)}
    for task, (taken, took) in enumerate(zip(rows, busy, strict=True)):
        figures["task_rows", f"parse/{task}"] = (float(taken), at)
        figures["task_busy_ms", f"parse/{task}"] = (float(took), at)
    observed = Observed({"parse": weights}, executors={"0": "h"}, pools={"parse": 3})
    return World(setup, Snapshot(at, "q", figures), observed)


class Loop:
    """Batches of a second in which task 1 takes so many times as long for a row, and the loop's splits in force."""

    def __init__(self, *policies, guards=None, weights=(342.0, 341.0, 341.0)):
        self.control = Control(policies, guards or GuardSettings())
        self.state, self.weights, self.at, self.decisions = self.control.start(), weights, 1000.0, []

    def run(self, batches, slow=1.0):
        for _ in range(batches):
            self.at += 1.0
            rows = [round(weight / 2) for weight in self.weights]
            busy = [taken * (slow if task == 1 else 1.0) for task, taken in enumerate(rows)]
            self.state, decision = step(self.control, self.state, world(self.at, self.weights, rows, busy))
            self.decisions.append(decision)
            for action in decision.actions:
                assert isinstance(action, SetSplit)
                self.weights = action.weights
        return self


def test_a_replica_that_is_half_as_fast_gets_half_as_much():
    loop = Loop(LoadAwareSplits()).run(4, slow=2.0)
    assert loop.weights == pytest.approx((410, 205, 410), abs=1)
    chosen = [decision for decision in loop.decisions if decision.chosen]
    assert len(chosen) == 1
    assert chosen[0].chosen[0].reason == "its replicas took 1 to 2 ms for a tuple"
    assert loop.run(6, slow=2.0).weights == chosen[0].actions[0].weights, "an even load is left as it is"


def test_an_edge_that_is_not_load_aware_is_left_alone():
    setup = replace(SETUP, operators=(SETUP.operators[0], replace(PARSE, balance_every=None)))
    policy, state = LoadAwareSplits(), {}
    for at in range(9):
        state, wishes = policy.wish(state, world(float(at), (1.0,) * 3, (10,) * 3, (10, 90, 10), setup))
        assert (state, wishes) == ({}, [])


def test_splits_wait_for_no_cooldown_use_up_no_quota_and_are_not_evaluated():
    guards = GuardSettings(cooldown=600.0, quota=1, settle_batches=9)
    loop = Loop(LoadAwareSplits(), guards=guards)
    for slow in (2.0, 1.0, 3.0, 1.0):
        loop.run(4, slow)
    assert sum(bool(decision.chosen) for decision in loop.decisions) >= 4
    assert loop.state.evaluations.open == ()
    assert loop.state.memory.decided_since(0.0) == 0


class Wants:
    def __init__(self, replicas):
        self.name, self.action = "wants", SetReplicas("parse", replicas)

    def start(self):
        return None

    def wish(self, state, _):
        return state, [Wish(self.name, self.action, "it does")]


def test_a_split_does_not_contradict_replicas_that_are_in_force():
    loop = Loop(Wants(3), LoadAwareSplits()).run(4, slow=2.0)
    assert loop.weights[1] < 250
    assert not any(decision.contests for decision in loop.decisions)


def test_other_replicas_go_before_a_split():
    control = Control((Wants(2), LoadAwareSplits()))
    state = control.start()
    for at in (1000.0, 1003.0):
        state, decision = step(control, state, world(at, (342.0, 341.0, 341.0), (300,) * 3, (300, 600, 300)))
    assert [contest.winner for contest in decision.contests] == ["wants"]


def test_in_real_time_a_slow_executor_gets_less_within_seconds():
    network = Network((Operator("read", 1e5), Operator("parse", 200.0)), (Flow("read", "parse", 1.0),), {"read": 300.0})
    scenario = ControlScenario(
        network,
        pools={"read": 1, "parse": 4},
        executors=4,
        slow_executors=(SlowExecutor("1", 2.0, start=10.0),),
        balance_every={"parse": 2.0},
    )
    load = RowLoad([300.0] * 60)
    run = lambda *policies: simulate_pipeline(Control(policies), scenario, load, rng=np.random.default_rng(3))
    balanced, alone = run(LoadAwareSplits()), run()
    assert balanced.latency(0.99, start=20.0) < alone.latency(0.99, start=20.0) / 2
    assert any(10.0 < at < 20.0 for at, _ in balanced.chosen(SetSplit))
    together = run(Replicas(), LoadAwareSplits())
    assert together.chosen(SetSplit)
