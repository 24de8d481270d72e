"""What was measured with a few executors says what a larger load needs."""

from dataclasses import replace

import numpy as np
import pytest

from foretide.control.capacity import capacity, explain
from foretide.control.policies.batch_allocation import BatchPlanner
from foretide.control.simulation.query import SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.world.measured import batch_observation
from foretide.control.world.setup import OperatorSetup, Target
from foretide.control.world.world import World
from foretide.errors import CapacityError
from foretide.queueing.learned_batches import learn
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

ASKING = Network((Operator("read", 1e6, 0.0), Operator("ask", 100.0, 0.5)), (Flow("read", "ask"),), {"read": 1.0})


def scenario(executors, pool):
    return ControlScenario(
        ASKING,
        {"read": 2, "ask": pool},
        {"ask": executors},
        BatchCosts(1, fixed_cost=0.35),
        executors=executors,
        executor_range=(1, executors),
        cores_per_executor=1,
    )


def played(executors, rate, seconds=120, pool=6):
    """The world after each batch of a query with random rows, and the latency of each batch's rows."""
    described = scenario(executors, pool)
    query = SimulatedQuery(described, RowLoad([rate] * seconds), np.random.default_rng(4))
    worlds, latencies = [], []
    while (batch := query.run()) is not None:
        worlds.append(World(described.setup(), query.snapshot(), query.observed(), target=Target(latency=4.0)))
        low, high = batch.latencies
        latencies.append(low + 0.99 * (high - low))
    return worlds, latencies[5:]


def test_what_one_to_three_executors_show_is_right_within_15_per_cent_for_six():
    worlds = [world for count, rate in ((1, 40.0), (2, 100.0), (3, 150.0)) for world in played(count, rate)[0]]
    learned = learn([batch_observation(world) for world in worlds])
    planner = BatchPlanner(learned, replace(worlds[-1], setup=replace(worlds[-1].setup, executors=(1, 6))), 420.0)
    _, measured = played(6, 420.0, seconds=300)
    assert planner.choice(6).latency == pytest.approx(np.mean(measured), rel=0.15)
    found = capacity(worlds, 420.0, 1.1 * planner.choice(6).latency)
    assert found.executors == 6
    assert found.most_cores == 3


def test_the_answer_names_pools_that_are_too_small_and_what_it_rests_on():
    worlds, _ = played(2, 100.0, pool=4)
    said = " ".join(explain(capacity(worlds, 600.0, 6.0)))
    assert "its pool has 4: foretide restart --pool ask=" in said
    assert "The bottleneck is ask." in said
    assert "batches with up to 2 cores" in said


def with_state(worlds, partitions, *, restartable):
    """The same worlds of a query whose second operator keeps state, and has no edge."""
    operators = (OperatorSetup("read", 2, spout=True), OperatorSetup("ask", partitions, stateful=True))
    return [
        replace(each, setup=replace(each.setup, operators=operators, can_repartition=restartable)) for each in worlds
    ]


@pytest.mark.parametrize("restartable", [True, False])
def test_the_answer_names_state_partitions_that_are_too_few_and_how_to_change_them(restartable):
    worlds = with_state(played(2, 100.0, pool=2)[0], 2, restartable=restartable)
    found = capacity(worlds, 420.0, 4.0)
    assert found.executors > 2
    assert found.state_partitions == {"ask": (found.executors, 2)}
    how = f"foretide restart --state-partitions {found.executors}."
    if not restartable:
        how = f"start it on a new checkpoint with spark.sql.shuffle.partitions={found.executors}; "
    assert f"The state of 'ask' needs {found.executors} partitions; it has 2: {how}" in " ".join(explain(found))


def test_state_partitions_stay_where_more_of_them_do_not_save_an_executor():
    worlds = with_state(played(2, 100.0, pool=2)[0], 2, restartable=True)
    found = capacity(worlds, 100.0, 4.0)
    assert found.state_partitions == {"ask": (2, 2)}
    assert "The state of" not in " ".join(explain(found))


def test_what_cannot_be_answered_is_said():
    worlds, _ = played(2, 100.0)
    with pytest.raises(CapacityError, match="too few to learn"):
        capacity(worlds[:2], None, None)
    with pytest.raises(CapacityError, match="the lowest p99 is"):
        capacity(worlds, 100.0, 0.05)
    with pytest.raises(CapacityError, match="too few to learn"):
        capacity([], 100.0, 2.0)
