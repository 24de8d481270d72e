"""Micro-batches: by hand where it can be counted, by the steady state where it cannot."""

import numpy as np
import pytest

from foretide.queueing.batches import BatchModel, StagePlan, batch_model
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.pipeline import simulate
from foretide.simulation.routes import RouteChange
from foretide.simulation.scenario import Scenario
from foretide.simulation.workers import Outage, Slowdown


def regular(rate, service, name="count"):
    return Network((Operator(name, service, service_scv=0.0, arrival_scv=0.0),), external={name: rate})


def run(network, workers, duration, costs, seed=1, **options):
    return simulate(Scenario(network, workers, duration, batching=costs, **options), np.random.default_rng(seed))


ONE_TASK = {"count": (RouteChange((1.0, 0.0)),)}


def test_three_batches_counted_by_hand():
    """Rows at 0.1, 0.2 .. 1.0; 0.1 s of work each, on one task; 0.55 s a batch, 0.05 s a task."""
    result = run(regular(10.0, 10.0), {"count": 2}, 1.05, BatchCosts(2, 0.55, 0.05), routes=ONE_TASK, batches=2)
    assert result.batches.count == 3
    assert (result.trees, result.completed) == (10, 10)
    commits = [0.85] + [0.85 + 0.65 + 0.7] * 7 + [2.2 + 0.65 + 0.2] * 2
    arrivals = np.arange(1, 11) / 10
    assert result.completion_time.value == pytest.approx(np.mean(commits - arrivals))
    assert result.total_sojourn.value == pytest.approx(result.completion_time.value)


def test_the_limit_leaves_rows_for_later_batches():
    costs = BatchCosts(2, 0.55, 0.05)
    result = run(regular(10.0, 10.0), {"count": 2}, 1.05, costs, routes=ONE_TASK, batches=2, limit=4)
    commits = [0.85] + [1.9] * 4 + [2.95] * 4 + [3.7]
    assert result.batches.count == 4
    assert result.completion_time.value == pytest.approx(np.mean(commits - np.arange(1, 11) / 10))


def test_the_trigger_spaces_the_starts():
    result = run(regular(10.0, 1000.0), {"count": 1}, 10.05, BatchCosts(1, 0.01, trigger=2.0), batches=2)
    assert result.batches.count == 6, "at 0.1, 2.1, 4.1, 6.1, 8.1 and 10.1"


def test_fixed_cost_grows_with_the_pool_and_not_with_the_active_tasks():
    def length(active, pool):
        routes = {"count": (RouteChange.first(active, pool, spread="even"),)}
        costs = BatchCosts(4, 0.1, 0.01)
        return run(regular(100.0, 1e6), {"count": pool}, 60.0, costs, routes=routes).batches.length.value

    assert length(4, 40) == pytest.approx(0.5, rel=0.01)
    assert length(40, 40) == pytest.approx(0.5, rel=0.01)
    assert length(4, 80) == pytest.approx(0.9, rel=0.01)


def test_steady_batch_length():
    """L = F + rate * L * work / cores, so L = F / (1 - utilization)."""
    costs = BatchCosts(cores=8, fixed_cost=0.4, task_cost=0.0125)
    result = run(regular(1000.0, 200.0), {"count": 8}, 400.0, costs, warmup=50.0)
    assert result.batches.length.value == pytest.approx(0.5 / (1 - 5 / 8), rel=0.02)
    assert result.operator("count").utilization.value == pytest.approx(5 / 8, rel=0.02)
    length = result.batches.length.value
    assert result.completion_time.value == pytest.approx(1.5 * length, rel=0.02), "half a batch, then a whole one"


@pytest.mark.parametrize(("active", "pool"), [(2, 4), (4, 12), (8, 16)])
def test_foretides_own_batch_model_agrees_with_the_simulator(active, pool):
    costs = BatchCosts(cores=4, fixed_cost=0.2, task_cost=0.01)
    steady = BatchModel(costs, (StagePlan("count", 1e-3, active, pool),)).steady(1500.0)
    routes = {"count": (RouteChange.first(active, pool, spread="even"),)}
    result = run(regular(1500.0, 1000.0), {"count": pool}, 300.0, costs, warmup=50.0, routes=routes)
    assert result.batches.length.value == pytest.approx(steady.length, rel=0.02)
    assert result.batches.rows.value == pytest.approx(steady.rows, rel=0.02)
    assert result.completion_time.value == pytest.approx(steady.mean_latency, rel=0.02)


def test_the_slowest_task_decides():
    def mean(weights):
        routes = {"count": (RouteChange(weights, spread="even"),)}
        return run(regular(1000.0, 1000.0), {"count": 4}, 60.0, BatchCosts(4, 0.5), routes=routes)

    level, skewed = mean((1.0, 1.0, 1.0, 1.0)), mean((5.0, 1.0, 1.0, 1.0))
    assert level.batches.length.value == pytest.approx(0.5 / (1 - 0.25), rel=0.05)
    assert skewed.batches.length.value == pytest.approx(0.5 / (1 - 0.625), rel=0.1)


def test_more_tasks_than_cores_run_in_turns():
    result = run(regular(1000.0, 1000.0), {"count": 6}, 120.0, BatchCosts(4, 0.5), warmup=20.0)
    assert result.batches.length.value == pytest.approx(0.5 / (1 - 2 / 6), rel=0.05), "two rounds of a sixth each"


def test_a_slow_core_stretches_every_stage_it_takes_part_in():
    options = {"slowdowns": (Slowdown(0, 0.0, 1000.0, speed=0.5),)}
    result = run(regular(1000.0, 1000.0), {"count": 4}, 60.0, BatchCosts(4, 0.5), warmup=20.0, **options)
    assert result.batches.length.value == pytest.approx(0.5 / (1 - 0.5), rel=0.05)


def test_tasks_lost_with_a_core_run_again_and_nothing_is_lost():
    outages = tuple(Outage(core, 10.0 + 3 * core, 12.5 + 3 * core) for core in range(3))
    result = run(regular(1000.0, 500.0), {"count": 8}, 60.0, BatchCosts(4, 0.2), outages=outages)
    count = result.operator("count")
    assert count.replayed >= 1
    assert count.arrived == count.served == result.trees == result.completed
    calm = run(regular(1000.0, 500.0), {"count": 8}, 60.0, BatchCosts(4, 0.2))
    assert result.latency[0.99].value > calm.latency[0.99].value


def test_a_route_takes_effect_with_the_next_batch():
    """All rows to one task, then spread over four: batches get shorter after the change."""
    routes = {"count": (RouteChange((1.0, 0.0, 0.0, 0.0)), RouteChange((1.0,) * 4, since=50.0, spread="even"))}
    result = run(regular(700.0, 1000.0), {"count": 4}, 100.0, BatchCosts(4, 0.3), routes=routes, batches=10)
    latency = result.timeline.latency[0.5]
    assert latency[3] == pytest.approx(1.5 * 0.3 / (1 - 0.7), rel=0.2)
    assert latency[8] == pytest.approx(1.5 * 0.3 / (1 - 0.175), rel=0.2)


def test_stages_follow_one_another_and_gains_multiply_rows():
    network = Network(
        (
            Operator("parse", 1000.0, service_scv=0.0, arrival_scv=0.0),
            Operator("count", 5000.0, service_scv=0.0),
        ),
        (Flow("parse", "count", 3.0),),
        {"parse": 500.0},
    )
    result = run(network, {"parse": 2, "count": 2}, 100.0, BatchCosts(2, 0.3), warmup=10.0)
    assert result.operator("count").arrived == 3 * result.trees
    assert result.batches.length.value == pytest.approx(0.3 / (1 - 0.25 - 0.15), rel=0.05)
    assert result.total_sojourn.value > result.completion_time.value, "three branches count three times"


def test_work_per_row_overrides_the_network():
    costs = BatchCosts(2, 0.3, work_per_row=0.004)
    result = run(regular(250.0, 1e6), {"count": 2}, 100.0, costs, warmup=10.0)
    assert result.operator("count").utilization.value == pytest.approx(0.5, rel=0.03)


def test_what_flows_back_is_read_by_the_next_batch():
    loop = Network(
        (Operator("rank", 1000.0, service_scv=0.0, splits=True),),
        (Flow("rank", "rank", 0.5),),
        {"rank": 100.0},
    )
    result = run(loop, {"rank": 1}, 200.0, BatchCosts(1, 0.5), warmup=10.0, confidence=0.99)
    rank = result.operator("rank")
    assert rank.arrived == rank.served
    assert result.trees == result.completed
    assert rank.throughput.covers(200.0)
    length = result.batches.length.value
    assert length == pytest.approx(0.5 / (1 - 0.2), rel=0.05)
    assert result.completion_time.value == pytest.approx((0.5 + 2) * length, rel=0.05), "two batches on average"


def test_an_overloaded_driver_still_processes_all():
    result = run(regular(2000.0, 1000.0), {"count": 1}, 20.0, BatchCosts(1, 0.1), limit=500)
    assert result.completed == result.trees
    assert result.timeline.latency[0.5][-1] > result.timeline.latency[0.5][5]


@pytest.mark.parametrize(
    ("rate", "service_rate", "scv", "replicas", "cores"),
    [(500.0, 300.0, 1.0, 4, 4), (30.0, 6.0, 1.0, 8, 8), (30.0, 6.0, 2.0, 8, 8), (20.0, 4.0, 1.0, 8, 8)],
)
def test_the_model_of_batches_knows_the_longest_of_tasks_whose_work_varies(rate, service_rate, scv, replicas, cores):
    network = Network((Operator("ask", service_rate, scv),), (), {"ask": rate})
    costs = BatchCosts(cores, fixed_cost=0.2, task_cost=0.005)
    steady = batch_model(network, costs, {"ask": replicas}).steady(rate)
    result = run(network, {"ask": replicas}, 1500.0, costs, warmup=200.0)
    assert result.batches.length.value == pytest.approx(steady.length, rel=0.1)
    assert result.completion_time.value == pytest.approx(steady.mean_latency, rel=0.1)


def test_batches_near_their_limit_grow_for_a_long_time_and_the_model_says_how_far():
    """The model of docs/planning.md: a fifth of a second is fixed, and the longest tasks make minutes of it."""
    operators = (Operator("extract", 1.75), Operator("match", 1.6))
    network = Network(operators, (Flow("extract", "match"),), {"extract": 13.0})
    costs = BatchCosts(22, fixed_cost=0.2, task_cost=0.001)
    steady = batch_model(network, costs, {"extract": 16, "match": 22}).steady(13.0)
    assert 60 < steady.length < 200
    short = run(network, {"extract": 16, "match": 22}, 60.0, costs)
    assert short.batches.length.value < 0.5 * steady.length
