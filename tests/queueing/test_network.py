"""Traffic equations, and networks that are refused."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import LoopGainError, ModelError, UnstableNetworkError
from foretide.queueing.network import Flow, Network, Operator


def operators(names: str) -> tuple[Operator, ...]:
    return tuple(Operator(name, 10.0) for name in names)


def test_splits_and_joins():
    flows = (Flow("a", "b", 0.7), Flow("a", "c", 0.3), Flow("b", "d", 0.4), Flow("c", "d", 1.0))
    network = Network(operators("abcd"), flows, {"a": 100.0})
    assert network.arrival_rates == pytest.approx({"a": 100.0, "b": 70.0, "c": 30.0, "d": 58.0})
    assert network.visits == pytest.approx({"a": 1.0, "b": 0.7, "c": 0.3, "d": 0.58})


def test_gains_far_from_one_and_several_sources():
    network = Network(operators("abc"), (Flow("a", "c", 50.0), Flow("b", "c", 0.1)), {"a": 2.0, "b": 30.0})
    assert network.arrival_rates == pytest.approx({"a": 2.0, "b": 30.0, "c": 103.0})
    assert network.external_rate == 32.0


def test_a_long_chain_of_large_gains_is_no_loop():
    names = "abcdefghijklmnopqrst"
    flows = tuple(Flow(s, t, 50.0) for s, t in pairwise(names))
    assert Network(operators(names), flows, {"a": 1e-30}).arrival_rates["t"] == pytest.approx(1e-30 * 50.0**19)


def test_an_idle_network_is_legal():
    network = Network(operators("ab"), (Flow("a", "b"),))
    assert network.arrival_rates == {"a": 0.0, "b": 0.0}
    assert network.visits == {"a": 0.0, "b": 0.0}


@given(st.floats(0.0, 0.99), st.floats(0.0, 1.0), st.floats(0.1, 1e4))
def test_nested_loops_conserve_tuples(own, back, rate):
    flows = (Flow("a", "b"), Flow("b", "b", own * 0.5), Flow("b", "a", back * (1 - own * 0.5) * 0.99))
    network = Network(operators("ab"), flows, {"a": rate})
    arrivals = network.arrival_array
    assert arrivals == pytest.approx(network.external_array + network.gains.T @ arrivals, rel=1e-9)
    assert (arrivals >= rate * (1 - 1e-12)).all()


@pytest.mark.parametrize("gain", [1.0, 1.5])
def test_a_loop_that_grows_names_its_operators(gain):
    flows = (Flow("a", "b"), Flow("b", "c", 20.0), Flow("c", "b", gain / 20.0), Flow("c", "d"))
    with pytest.raises(LoopGainError) as caught:
        Network(operators("abcd"), flows, {"a": 1.0})
    assert caught.value.operators == ("b", "c")
    assert caught.value.gain == pytest.approx(gain**0.5)
    assert isinstance(caught.value, UnstableNetworkError)


def test_a_loop_just_below_one_is_solved():
    network = Network(operators("a"), (Flow("a", "a", 0.999),), {"a": 1.0})
    assert network.arrival_rates["a"] == pytest.approx(1000.0)


def test_every_problem_is_listed():
    bad = (Operator("a", 0.0), Operator("b", -1.0, service_scv=-1.0), Operator("b", float("nan")))
    with pytest.raises(ModelError) as caught:
        Network(bad, (Flow("a", "x", -0.5), Flow("a", "b"), Flow("a", "b")), {"a": -3.0, "y": 1.0})
    text = str(caught.value)
    for what in ("service_rate is 0", "service_rate is -1", "service_rate is nan", "service_scv is -1"):
        assert what in text
    for what in (
        "'b' is defined",
        "b: is defined 2 times",
        "no operator 'x'",
        "gain is -0.5",
        "rate is -3",
        "'y'",
    ):
        assert what.replace("'b' is defined", "operator 'b': is defined 2 times") in text


def test_probabilities_of_a_split_add_up_to_one_at_most():
    splitter = (Operator("a", 10.0, splits=True), *operators("bc"))
    Network(splitter, (Flow("a", "b", 0.7), Flow("a", "c", 0.3)), {"a": 1.0})
    with pytest.raises(ModelError, match=r"add up to 1\.2"):
        Network(splitter, (Flow("a", "b", 0.7), Flow("a", "c", 0.5)), {"a": 1.0})


def test_which_networks_are_jackson():
    flows = (Flow("a", "b", 0.7), Flow("a", "c", 0.3))
    fork = Network(operators("abc"), flows, {"a": 1.0})
    split = Network((Operator("a", 10.0, splits=True), *operators("bc")), flows, {"a": 1.0})
    assert (fork.has_forks, fork.is_jackson) == (True, False)
    assert (split.has_forks, split.is_jackson) == (False, True)
    constant = Network((Operator("a", 10.0, service_scv=0.0),), (), {"a": 1.0})
    assert (constant.has_forks, constant.is_jackson) == (False, False)


def test_arrays_follow_the_order_of_the_operators():
    network = Network((Operator("z", 4.0), Operator("a", 8.0)), (Flow("z", "a", 2.0),), {"z": 6.0})
    assert network.names == ("z", "a")
    assert np.array_equal(network.load_array, [1.5, 1.5])
    assert network.operator("a").service_rate == 8.0
