"""The simulator against the formulas, wherever they are exact, within its own confidence interval."""

import math

import numpy as np
import pytest

from foretide.queueing.completion import expected_completion_time
from foretide.queueing.network import Flow, Network, Operator
from foretide.queueing.sojourn import expected_sojourns, expected_total_sojourn
from foretide.simulation.pipeline import simulate
from foretide.simulation.routes import RouteChange
from foretide.simulation.scenario import Scenario


def erlang_c(k, load):
    blocking = 1.0
    for servers in range(1, k + 1):
        blocking = load * blocking / (servers + load * blocking)
    return blocking / (1 - load / k * (1 - blocking))


def mmk_wait(k, arrivals, service):
    return erlang_c(k, arrivals / service) / (k * service - arrivals)


def run(network, workers, tuples, seed=7, **options):
    duration = tuples / network.external_rate
    scenario = Scenario(network, workers, duration, warmup=duration / 20, **{"confidence": 0.99, **options})
    return simulate(scenario, np.random.default_rng(seed))


def single(rate, service, **options):
    return Network((Operator("only", service, **options),), external={"only": rate})


@pytest.mark.parametrize(("k", "utilization"), [(1, 0.5), (1, 0.8), (2, 0.7), (10, 0.9), (2000, 0.98)])
def test_one_operator_is_m_m_k(k, utilization):
    rate = 10.0 * k * utilization
    result = run(single(rate, 10.0), {"only": k}, tuples=200_000)
    only = result.operator("only")
    wait = mmk_wait(k, rate, 10.0)
    assert only.sojourn.covers(wait + 0.1)
    assert only.queue_length.covers(rate * wait)
    assert only.utilization.covers(utilization)
    assert only.throughput.covers(rate)
    assert only.sojourn.half_width < 0.2 * only.sojourn.value


def test_m_m_1_latency_is_exponential():
    result = run(single(7.0, 10.0), {"only": 1}, tuples=300_000)
    for level, estimate in result.latency.items():
        assert estimate.covers(-math.log(1 - level) / 3.0)


@pytest.mark.parametrize("scv", [0.0, 0.25, 4.0])
@pytest.mark.parametrize("family", ["gamma", "lognormal"])
def test_m_g_1_is_pollaczek_khinchine(scv, family):
    result = run(single(7.0, 10.0, service_scv=scv), {"only": 1}, tuples=300_000, family=family)
    wait = 7.0 * (1 + scv) * 0.01 / (2 * (1 - 0.7))
    assert result.operator("only").sojourn.covers(wait + 0.1)


def test_d_m_1_is_the_root_of_its_equation():
    root = 0.5
    for _ in range(200):
        root = math.exp(-(1 - root) / 0.7)
    result = run(single(7.0, 10.0, arrival_scv=0.0), {"only": 1}, tuples=300_000)
    assert result.operator("only").sojourn.covers(0.1 / (1 - root))


def test_regular_arrivals_and_services_never_wait():
    result = run(single(9.0, 10.0, arrival_scv=0.0, service_scv=0.0), {"only": 1}, tuples=2_000)
    assert result.latency[0.99].value == pytest.approx(0.1)
    assert result.operator("only").queue_length.value == pytest.approx(0.0, abs=1e-9)


def jackson():
    """Splits, a join, and two loops: one through two operators, one onto the same."""
    operators = (
        Operator("a", 10.0, splits=True),
        Operator("b", 6.0, splits=True),
        Operator("c", 5.0, splits=True),
        Operator("d", 40.0, splits=True),
    )
    flows = (
        Flow("a", "b", 0.5),
        Flow("a", "c", 0.4),
        Flow("b", "d", 0.8),
        Flow("c", "d", 0.7),
        Flow("c", "c", 0.2),
        Flow("d", "a", 0.3),
    )
    return Network(operators, flows, {"a": 10.0, "c": 2.0}), {"a": 2, "b": 2, "c": 3, "d": 1}


def test_jackson_network_with_splits_joins_and_loops():
    network, workers = jackson()
    result = run(network, workers, tuples=150_000)
    total = 0.0
    for operator in network.operators:
        rate = network.arrival_rates[operator.name]
        sojourn = mmk_wait(workers[operator.name], rate, operator.service_rate) + 1 / operator.service_rate
        total += network.visits[operator.name] * sojourn
        found = result.operator(operator.name)
        assert found.sojourn.covers(sojourn), operator.name
        assert found.throughput.covers(rate), operator.name
        assert found.utilization.covers(rate / operator.service_rate / workers[operator.name])
    assert result.total_sojourn.covers(total)
    assert result.completion_time.value == pytest.approx(result.total_sojourn.value), "splits have one path"


def test_foretides_own_formulas_agree_with_the_simulator():
    network, workers = jackson()
    result = run(network, workers, tuples=100_000, seed=11)
    for name, sojourn in expected_sojourns(network, workers).items():
        assert result.operator(name).sojourn.covers(sojourn), name
    assert result.total_sojourn.covers(expected_total_sojourn(network, workers))
    assert result.completion_time.covers(expected_completion_time(network, workers).expected)


def test_tandem_sojourns_add_up():
    chain = Network(
        (Operator("a", 10.0), Operator("b", 20.0), Operator("c", 9.0)),
        (Flow("a", "b"), Flow("b", "c")),
        {"a": 7.0},
    )
    result = run(chain, {"a": 1, "b": 1, "c": 1}, tuples=200_000)
    assert result.total_sojourn.covers(1 / 3 + 1 / 13 + 1 / 2)


def test_fork_completes_with_its_slowest_branch_and_sums_both():
    """With plenty of workers a fork's branches are independent: E max of two exponentials is 1.5 means."""
    fork = Network(
        (Operator("split", 100.0, service_scv=0.0), Operator("left", 1.0), Operator("right", 1.0)),
        (Flow("split", "left"), Flow("split", "right")),
        {"split": 5.0},
    )
    result = run(fork, {"split": 10, "left": 60, "right": 60}, tuples=60_000)
    assert result.completion_time.covers(0.01 + 1.5)
    assert result.total_sojourn.covers(0.01 + 2.0)


@pytest.mark.parametrize("gain", [0.1, 2.5, 50.0])
def test_gains_change_the_flow_and_lose_nothing(gain):
    network = Network((Operator("a", 100.0), Operator("b", 100.0 * gain)), (Flow("a", "b", gain),), {"a": 40.0})
    result = run(network, {"a": 1, "b": 2}, tuples=int(100_000 / max(gain, 1)))
    first, second = result.operators
    assert second.throughput.covers(40.0 * gain)
    assert second.arrived == pytest.approx(first.served * gain, rel=0.05)
    if gain == int(gain):
        assert second.arrived == first.served * gain


def test_batches_of_fifty_wait_as_m_x_m_1_says():
    """A gain of 50 behind a very fast operator is a Poisson stream of batches of exactly 50."""
    network = Network((Operator("a", 1e6, service_scv=0.0), Operator("b", 100.0)), (Flow("a", "b", 50.0),), {"a": 1.4})
    result = run(network, {"a": 1, "b": 1}, tuples=8_000)
    # A tuple waits for the work ahead of its batch, then for those before it in the batch (24.5 on average).
    work_ahead = 1.4 * (50 * 51 / 100.0**2) / (2 * (1 - 0.7))
    assert result.operator("b").sojourn.covers(work_ahead + 24.5 / 100.0 + 0.01)


def test_random_routes_thin_a_poisson_stream():
    result = run(single(10.0, 10.0), {"only": 3}, tuples=300_000, routes={"only": (RouteChange((2.0, 1.0, 1.0)),)})
    busy, calm = 1 / (10.0 - 5.0), 1 / (10.0 - 2.5)
    assert result.operator("only").sojourn.covers(0.5 * busy + 0.5 * calm)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    covered = sum(
        run(single(5.0, 10.0), {"only": 1}, tuples=15_000, seed=seed, confidence=0.9)
        .operator("only")
        .sojourn.covers(0.2)
        for seed in range(100)
    )
    assert 80 <= covered <= 98
