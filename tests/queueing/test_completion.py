"""Sums of sojourn times and completion times of tuple trees."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import IdleNetworkError, ModelError, OverloadError
from foretide.queueing.completion import expected_completion_time
from foretide.queueing.model import Model, SimulationPlan
from foretide.queueing.network import Flow, Network, Operator
from foretide.queueing.sojourn import expected_sojourns, expected_total_sojourn, utilization
from foretide.simulation.pipeline import simulate
from foretide.simulation.scenario import scenario_of


def fork(ways: int, rate: float, service: float = 1.0, scv: float = 1.0) -> Network:
    branches = tuple(Operator(f"b{i}", service, service_scv=scv) for i in range(ways))
    flows = tuple(Flow("in", branch.name) for branch in branches)
    return Network((Operator("in", 1e6), *branches), flows, {"in": rate})


def one_each(network: Network, many: int = 1) -> dict[str, int]:
    return dict.fromkeys(network.names, many)


def test_a_loop_without_forks_is_exact_and_both_answers_agree():
    flows = (Flow("a", "b"), Flow("b", "a", 0.5))
    network = Network((Operator("a", 10.0), Operator("b", 8.0)), flows, {"a": 2.0})
    # Each operator gets 4 tuples a second, two for each that enters.
    total = 2 * (1 / (10 - 4) + 1 / (8 - 4))
    answer = expected_completion_time(network, one_each(network))
    assert expected_total_sojourn(network, one_each(network)) == pytest.approx(total)
    assert (answer.expected, answer.exact) == (pytest.approx(total), True)


@pytest.mark.parametrize("ways", [2, 3, 10])
def test_branches_that_never_wait_take_the_maximum_of_their_services(ways):
    network = fork(ways, rate=1e-3)
    answer = expected_completion_time(network, one_each(network, 9))
    harmonic = sum(1 / n for n in range(1, ways + 1))
    assert answer.expected == pytest.approx(harmonic, rel=1e-4)
    assert answer.at_most == pytest.approx(ways, rel=1e-4)
    assert answer.at_least == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("rho", [0.2, 0.5, 0.8])
def test_two_forked_queues_against_the_known_answer(rho):
    # Flatto and Hahn: two M/M/1 queues fed by the same arrivals take (12 - rho) / 8 of one queue's sojourn.
    network = fork(2, rate=rho)
    answer = expected_completion_time(network, one_each(network))
    exact = (12 - rho) / 8 / (1 - rho)
    assert exact * 0.999 <= answer.expected <= exact * 1.09
    assert answer.expected == pytest.approx(1.5 / (1 - rho), rel=1e-3)


def test_copies_sent_along_one_flow_are_all_waited_for():
    network = Network((Operator("a", 1e6), Operator("b", 2.0)), (Flow("a", "b", 4.0),), {"a": 1e-3})
    answer = expected_completion_time(network, {"a": 1, "b": 50})
    assert answer.expected == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 2, rel=1e-4)


def test_constant_services_side_by_side_take_as_long_as_one():
    network = fork(5, rate=1e-4, scv=0.0)
    assert expected_completion_time(network, one_each(network, 9)).expected == pytest.approx(1.0, rel=2e-3)


@pytest.mark.parametrize("scv", [0.02, 0.3, 0.5, 0.77, 2.0, 9.0])
def test_fits_keep_mean_and_variation(scv):
    # E[max of two] of a fork grows with variation; a chain of the same operators keeps its exact mean.
    network = fork(2, rate=1e-4, scv=scv)
    answer = expected_completion_time(network, one_each(network, 9))
    assert 1.0 < answer.expected < 2.0
    flows = (Flow("a", "b", 1.0), Flow("a", "c", 1e-9))
    nearly_chain = Network((Operator("a", 2.0, scv), Operator("b", 0.5, scv), Operator("c", 1.0)), flows, {"a": 0.1})
    answer = expected_completion_time(nearly_chain, one_each(nearly_chain))
    assert answer.expected == pytest.approx(answer.at_most, rel=1e-5)


def sample_tree(network: Network, name: str, rng: random.Random) -> float:
    """One completion time of a tree whose sojourns are plain services (nobody waits)."""
    i = network.index[name]
    children = []
    for j, gain in enumerate(network.gains[i].tolist()):
        copies = math.floor(gain) + (rng.random() < gain - math.floor(gain))
        children += [sample_tree(network, network.names[j], rng) for _ in range(copies)]
    return rng.expovariate(network.operators[i].service_rate) + max(children, default=0.0)


def test_trees_with_loops_and_gains_agree_with_sampling():
    flows = (Flow("a", "b", 1.3), Flow("a", "c", 0.4), Flow("b", "a", 0.3), Flow("c", "c", 0.5))
    network = Network((Operator("a", 3.0), Operator("b", 1.0), Operator("c", 0.7)), flows, {"a": 1e-4})
    answer = expected_completion_time(network, one_each(network, 20))
    rng = random.Random(7)
    samples = [sample_tree(network, "a", rng) for _ in range(20_000)]
    mean = sum(samples) / len(samples)
    error = (sum((x - mean) ** 2 for x in samples) / len(samples) ** 2) ** 0.5
    assert abs(answer.expected - mean) < 4 * error
    assert answer.at_least < answer.expected < answer.at_most


def test_a_split_is_no_fork():
    flows = (Flow("a", "b", 0.7), Flow("a", "c", 0.3))
    operators = (Operator("a", 5.0, splits=True), Operator("b", 5.0), Operator("c", 0.5))
    network = Network(operators, flows, {"a": 1.0})
    answer = expected_completion_time(network, one_each(network))
    assert answer.exact
    assert answer.expected == pytest.approx(expected_total_sojourn(network, one_each(network)))


def test_a_split_next_to_a_fork_weighs_its_branches():
    flows = (Flow("in", "a"), Flow("in", "d"), Flow("a", "b", 0.5), Flow("a", "c", 0.5))
    operators = (
        Operator("in", 1e6),
        Operator("a", 1e6, splits=True),
        Operator("b", 1.0),
        Operator("c", 0.1),
        Operator("d", 1e6),
    )
    network = Network(operators, flows, {"in": 1e-4})
    answer = expected_completion_time(network, one_each(network, 9))
    assert answer.expected == pytest.approx(0.5 * 1 + 0.5 * 10, rel=1e-3)
    assert answer.at_least == pytest.approx(5.5, rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.floats(0.05, 0.95), st.floats(0.0, 4.0), st.integers(1, 5))
def test_the_answer_lies_within_its_bounds(ways, rho, scv, servers):
    network = fork(ways, rate=rho * servers, scv=scv)
    answer = expected_completion_time(network, one_each(network, servers))
    assert answer.at_least <= answer.expected <= answer.at_most
    assert not answer.exact


def test_who_cannot_keep_up_is_named():
    network = Network((Operator("a", 2.0), Operator("b", 5.0)), (Flow("a", "b"),), {"a": 5.0})
    assert utilization(network, {"a": 2, "b": 2}) == {"a": 1.25, "b": 0.5}
    for answer in (expected_total_sojourn, expected_completion_time, expected_sojourns):
        with pytest.raises(OverloadError) as caught:
            answer(network, {"a": 2, "b": 1})
        assert caught.value.utilization == {"a": 1.25, "b": 1.0}
        assert caught.value.needed == {"a": 3, "b": 2}


def test_questions_without_an_answer():
    idle = Network((Operator("a", 2.0),))
    assert expected_sojourns(idle, {"a": 1}) == {"a": 0.5}
    with pytest.raises(IdleNetworkError):
        expected_total_sojourn(idle, {"a": 1})
    with pytest.raises(ModelError, match="has 0 processors"):
        expected_total_sojourn(Network((Operator("a", 2.0),), (), {"a": 1.0}), {})


def test_forked_queues_against_the_simulator():
    operators = (Operator("in", 1000.0), Operator("b", 1.0), Operator("c", 1.0))
    network = Network(operators, (Flow("in", "b"), Flow("in", "c")), {"in": 2.1})
    processors = {"in": 1, "b": 3, "c": 3}
    model = Model(network, processors, simulation=SimulationPlan(duration=6_000.0, warm_up=600.0))
    result = simulate(scenario_of(model), np.random.default_rng(5), lambda share: None).as_dict()
    simulated = result["completion_time"]
    answer = expected_completion_time(network, processors)
    # Taken as independent, the branches' maximum comes out a little high, and never as high as their sum.
    assert simulated["value"] - simulated["half_width"] < answer.expected
    assert answer.expected < 1.09 * (simulated["value"] + simulated["half_width"])
    assert simulated["value"] + simulated["half_width"] < 0.9 * answer.at_most


def test_a_loop_that_hardly_dies_out_ends_within_its_bounds():
    operators = tuple(Operator(f"o{number}", 1.0) for number in range(20))
    ring = tuple(Flow(f"o{number}", f"o{(number + 1) % 20}", 0.9999) for number in range(20))
    network = Network(operators, (*ring, Flow("o0", "o5", 1e-3)), {"o0": 0.01})
    time = expected_completion_time(network, dict.fromkeys(network.names, 20))
    assert time.at_least <= time.expected <= time.at_most
