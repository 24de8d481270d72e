"""Rows one by one and rows as numbers: with nothing left to chance, both give the same batches."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import FluidRows, MicroBatches, RowLoad
from foretide.simulation.routes import RouteChange
from foretide.simulation.rows import run_batches
from foretide.simulation.scenario import Scenario
from foretide.simulation.variation import RateCurve
from foretide.simulation.workers import SharedStation, Slowdown, UnevenStation, timelines

NAMES = ("read", "parse", "count")
rows_per_second = st.lists(st.integers(1, 40).map(lambda rate: 50.0 * rate), min_size=1, max_size=4)


def chain(services, rate):
    operators = tuple(
        Operator(name, service, service_scv=0.0, arrival_scv=0.0) for name, service in zip(NAMES, services, strict=True)
    )
    return Network(operators, tuple(Flow(*pair) for pair in pairwise(NAMES)), {"read": rate})


def exact_batches(network, pools, active, costs, rates, step, slow=()):
    since = tuple(step * index for index in range(len(rates)))
    scenario = Scenario(
        network,
        pools,
        duration=step * len(rates),
        curves={network.names[0]: RateCurve(since, tuple(rates))},
        routes={name: (RouteChange.first(active[name], pools[name], spread="even"),) for name in network.names},
        slowdowns=slow,
        batching=costs,
    )
    return run_batches(scenario, np.random.default_rng(1), lambda _: None).batches


def fluid_batches(network, pools, active, costs, rates, step, slow=()):
    load = RowLoad(rates, step)
    weights = {name: RouteChange.first(active[name], pools[name]).weights for name in network.names}
    cores = {
        index: UnevenStation(costs.cores, timelines(slow, ())) if slow else SharedStation(costs.cores)
        for index in range(len(network.names))
    }
    batches, runs = MicroBatches(network, pools, costs, FluidRows(network, load, costs, weights), cores), []
    while (run := batches.run(load.seconds)) is not None:
        runs.append((run.start, run.commit, run.intake.rows))
    return runs


@settings(max_examples=60, deadline=None)
@given(
    rates=rows_per_second,
    services=st.tuples(*[st.integers(10_000, 100_000).map(float)] * 3),
    pools=st.tuples(*[st.integers(1, 6)] * 3),
    fixed=st.floats(0.05, 0.5),
    trigger=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_one_task_a_stage_takes_the_same_rows_at_the_same_times(rates, services, pools, fixed, trigger):
    """One row more or less is all that whole rows can make: as much in time as that row and those it lets in."""
    network, sizes = chain(services, rates[0]), dict(zip(NAMES, pools, strict=True))
    costs, active = BatchCosts(4, fixed, 0.002, trigger=trigger), {"read": pools[0], "parse": 1, "count": 1}
    sizes["read"] = active["read"] = 1
    setting = (network, sizes, active, costs, rates, 5.0)
    exact, fluid = exact_batches(*setting), fluid_batches(*setting)
    exact = [each for each in exact if each[0] < 5.0 * len(rates)]
    assert abs(len(exact) - len(fluid)) <= 1
    row = sum(1 / service for service in services) / (1 - max(rates) * sum(1 / service for service in services))
    for (start, commit, rows), (fluid_start, fluid_commit, fluid_rows) in zip(exact, fluid, strict=False):
        assert start == pytest.approx(fluid_start, abs=3 * row + 1e-5)
        assert commit - start == pytest.approx(fluid_commit - fluid_start, abs=3 * row + 1e-5)
        assert rows == pytest.approx(fluid_rows, abs=2 + 6 * row * max(rates))


@pytest.mark.parametrize("trigger", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("cores", [1, 2, 8])
def test_batches_paced_by_the_trigger_differ_by_a_row_at_most(trigger, cores):
    network, pools = chain((50_000.0, 20_000.0, 40_000.0), 1000.0), {"read": 1, "parse": 4, "count": 2}
    costs, active = BatchCosts(cores, 0.05, 0.005, trigger=trigger), {"read": 1, "parse": 1, "count": 1}
    setting = (network, pools, active, costs, [1000.0], 10.0)
    exact, fluid = exact_batches(*setting), fluid_batches(*setting)
    assert len(exact) - len(fluid) in (0, 1)
    row = 1 / 50_000 + 1 / 20_000 + 1 / 40_000
    for (start, commit, rows), (fluid_start, fluid_commit, fluid_rows) in zip(exact, fluid, strict=False):
        assert start == pytest.approx(fluid_start, abs=2e-6)
        assert rows == pytest.approx(fluid_rows, abs=1.01)
        assert commit == pytest.approx(fluid_commit, abs=1.01 * row + 2e-6)


@pytest.mark.parametrize(("active", "cores"), [(2, 4), (6, 4), (8, 8)])
def test_level_routes_give_steady_batches_of_the_same_length(active, cores):
    """Taking turns is not quite level: tasks differ by a row or so."""
    network, pools = chain((1e6, 5000.0, 8000.0), 2000.0), {"read": 1, "parse": 8, "count": 8}
    costs, replicas = BatchCosts(cores, 0.1, 0.002), {"read": 1, "parse": active, "count": active}
    setting = (network, pools, replicas, costs, [2000.0], 30.0)
    exact, fluid = exact_batches(*setting), fluid_batches(*setting)
    exact, fluid = ([each for each in batches if 10 < each[0] < 28] for batches in (exact, fluid))
    assert np.mean([b - a for a, b, _ in exact]) == pytest.approx(np.mean([b - a for a, b, _ in fluid]), rel=0.02)
    assert np.mean([rows for *_, rows in exact]) == pytest.approx(np.mean([rows for *_, rows in fluid]), rel=0.02)


def test_slow_cores_slow_both_down_from_the_same_moment_to_the_same_moment():
    network, pools = chain((50_000.0, 20_000.0, 40_000.0), 3000.0), {"read": 1, "parse": 4, "count": 2}
    costs, active = BatchCosts(1, 0.05, 0.005, trigger=1.0), {"read": 1, "parse": 1, "count": 1}
    setting = (network, pools, active, costs, [3000.0], 30.0, (Slowdown(0, 10.15, 18.2, 0.2),))
    exact, fluid = exact_batches(*setting), fluid_batches(*setting)
    lengths = np.array([commit - start for start, commit, _ in fluid])
    assert max(lengths) > 2 * min(lengths[1:])
    for (start, commit, rows), (fluid_start, fluid_commit, fluid_rows) in zip(exact, fluid, strict=False):
        assert start == pytest.approx(fluid_start, abs=0.02)
        assert commit == pytest.approx(fluid_commit, abs=0.02)
        assert rows == pytest.approx(fluid_rows, abs=60)


def test_rows_that_flow_back_are_read_by_the_next_batch():
    operators = (Operator("in", 20_000.0, service_scv=0.0, arrival_scv=0.0), Operator("rank", 5000.0, service_scv=0.0))
    network = Network(operators, (Flow("in", "rank"), Flow("rank", "rank", 0.5)), {"in": 1000.0})
    one = {"in": 1, "rank": 1}
    setting = (network, one, one, BatchCosts(2, 0.2, 0.01), [1000.0], 60.0)
    exact, fluid = exact_batches(*setting), fluid_batches(*setting)
    assert fluid[1][2] == pytest.approx(fluid[1][0] * 1000 - 1, rel=0.01)
    lengths = [np.mean([commit - start for start, commit, _ in batches[10:50]]) for batches in (exact, fluid)]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.03)


def test_a_measured_work_per_row_counts_in_both():
    network, pools = chain((1e6, 5000.0, 8000.0), 500.0), {"read": 1, "parse": 2, "count": 2}
    costs, one = BatchCosts(4, 0.1, 0.002, work_per_row=0.001, trigger=1.0), dict.fromkeys(NAMES, 1)
    setting = (network, pools, one, costs, [500.0], 20.0)
    exact, fluid = exact_batches(*setting), fluid_batches(*setting)
    assert exact[5][1] - exact[5][0] == pytest.approx(0.1 + 5 * 0.002 + 0.5, rel=0.01)
    assert fluid[5][1] - fluid[5][0] == pytest.approx(0.1 + 5 * 0.002 + 0.5, rel=0.01)
