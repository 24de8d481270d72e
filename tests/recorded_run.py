"""A simulated run, recorded as a live one would be. No Spark."""

from dataclasses import replace

from foretide.control.history import RecordedWorld
from foretide.control.policies.bypass import Bypass
from foretide.control.policies.replicas import Replicas
from foretide.control.simulation.query import SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.step import Control, step
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.queueing.network import Flow, Network, Operator
from foretide.runtime.loop.controller import Journal
from foretide.runtime.monitoring.monitor import LatestValues
from foretide.settings.run import MonitorSettings
from foretide.simulation.batches import RowLoad
from foretide.store.metric_store import MetricStore
from foretide.store.writer import StoreWriter

EPOCH = 1_750_000_000.0
SCENARIO = ControlScenario(
    Network((Operator("read", 100_000.0), Operator("parse", 500.0)), (Flow("read", "parse", 1.0),), {"read": 1000.0}),
    pools={"read": 4, "parse": 16},
    replicas={"parse": 4},
    slow_executors=(SlowExecutor("2", 4.0, start=200.0),),
    executor_range=(1, 8),
    name="shop",
)
LOAD = RowLoad([400.0] * 60 + [2500.0] * 300)


POLICIES = (Bypass(), Replicas())
TARGET = Target(3.0)


def record(path, policies=POLICIES, target=TARGET, name="shop"):
    """A run as a live loop would leave it, with samples, decisions and setups; without policies, samples alone."""
    scenario = replace(SCENARIO, name=name)
    query, control, setup = SimulatedQuery(scenario, LOAD), Control(policies), scenario.setup()
    state, board = control.start(), LatestValues(name, MonitorSettings().smoothing)
    with StoreWriter(lambda: MetricStore.open(path), name).start() as writer:
        journal = Journal(writer)
        while query.run() is not None:
            measured, seen = query.snapshot(), query.observed()
            at = EPOCH + measured.at
            samples = [replace(each, at=at) for each in measured.samples() if each.at == measured.at]
            writer.put(samples)
            if not policies:
                continue
            writer.put_setup(RecordedWorld(at, setup, target, seen, tuple(each.name for each in policies)))
            board.put(samples)
            state, decision = step(control, state, World(setup, board.snapshot(at), seen, target=target))
            journal.note(decision)
            for action in decision.actions:
                query.perform(action)
        assert writer.flush(60)
