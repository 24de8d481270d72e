"""Erlang's formulas against arbitrary precision, and against what must hold of any queue."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.queueing.network import Network, Operator
from foretide.queueing.sojourn import _inverse_erlang_b, erlang_c, expected_sojourns, mmk_wait, mmk_wait_curves

CLOSE = 1e-9
TINY = mp.mpf(10) ** -300


def erlang_b(servers: int, load: float) -> float:
    return 1 / float(_inverse_erlang_b(np.array([float(servers)]), np.array([load]))[0])


def exact_b(servers: int, load: float) -> mp.mpf:
    """Erlang B by the plain recurrence, with 40 digits."""
    with mp.workdps(40):
        inverse, a = mp.mpf(1), mp.mpf(load)
        for k in range(1, servers + 1):
            inverse = 1 + inverse * k / a
        return 1 / inverse


def exact_c(servers: int, load: float) -> mp.mpf:
    with mp.workdps(40):
        blocking = exact_b(servers, load)
        rho = mp.mpf(load) / servers
        return blocking / (1 - rho * (1 - blocking))


def assert_close(value: float, exact: mp.mpf) -> None:
    if exact < TINY:
        assert 0 <= value <= 1e-299
    else:
        assert abs(mp.mpf(value) / exact - 1) < CLOSE


@pytest.mark.parametrize("rho", [0.01, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("servers", [1, 2, 3, 64, 65, 577, 5_000])
def test_agrees_with_arbitrary_precision(servers, rho):
    load = servers * rho
    assert_close(erlang_b(servers, load), exact_b(servers, load))
    assert_close(float(erlang_c(servers, load)), exact_c(servers, load))
    with mp.workdps(40):
        wait = exact_c(servers, load) / (servers - mp.mpf(load))
    assert_close(float(mmk_wait(servers, load)), wait)


@pytest.mark.parametrize("rho", [0.95, 0.9999])
def test_a_hundred_thousand_servers(rho):
    assert_close(float(erlang_c(100_000, 100_000 * rho)), exact_c(100_000, 100_000 * rho))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 700), st.floats(1e-6, 0.9999))
def test_agrees_anywhere(servers, rho):
    load = servers * rho
    assert_close(erlang_b(servers, load), exact_b(servers, load))
    assert_close(float(erlang_c(servers, load)), exact_c(servers, load))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.floats(1.0, 50.0))
def test_blocking_is_right_beyond_the_servers_too(servers, excess):
    assert_close((erlang_b(servers, servers * excess)), exact_b(servers, servers * excess))


def test_vectors_agree_with_single_values():
    servers = np.array([[1], [40], [3_000]])
    loads = np.array([0.2, 0.9, 39.0, 2_990.0])
    for answer in (erlang_c, mmk_wait):
        whole = answer(servers, loads)
        assert whole.shape == (3, 4)
        for i in range(3):
            for j in range(4):
                assert whole[i, j] == pytest.approx(float(answer(servers[i, 0], loads[j])), rel=1e-13)


def test_nothing_arriving_and_too_much_arriving():
    assert (erlang_b(5, 0.0)) == 0
    assert (erlang_b(0, 3.0)) == 1
    assert float(erlang_c(5, 0.0)) == 0
    assert erlang_c(5, [5.0, 7.0]).tolist() == [1.0, 1.0]
    assert mmk_wait(5, [5.0, 7.0]).tolist() == [np.inf, np.inf]
    assert sojourn(5, 0.0, 4.0) == 0.25


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 400.0), st.integers(1, 120))
def test_curves_agree_with_single_waits(load, length):
    first = np.floor(load) + 1
    [curve] = mmk_wait_curves(np.array([first]), np.array([load]), length)
    single = mmk_wait(first + np.arange(length), load)
    assert curve == pytest.approx(single, rel=1e-10, abs=1e-290)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 400.0))
def test_one_more_server_always_helps_and_each_helps_less(load):
    waits = mmk_wait_curves(np.array([np.floor(load) + 1]), np.array([load]), 30)[0]
    gains = -np.diff(waits)
    assert (gains >= 0).all()
    assert (np.diff(gains) <= 1e-12 * gains[:-1]).all()


def sojourn(servers: int, arrivals: float, service: float, service_scv: float = 1.0) -> float:
    network = Network((Operator("only", service, service_scv=service_scv),), external={"only": arrivals})
    return expected_sojourns(network, {"only": servers})["only"]


@given(st.floats(0.01, 0.99), st.floats(0.0, 20.0))
def test_one_server_is_pollaczek_khinchine(rho, scv):
    service = 4.0
    expected = 1 / service + rho * (1 + scv) / (2 * service * (1 - rho))
    assert sojourn(1, rho * service, service, scv) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 50), st.floats(0.01, 0.99), st.floats(0.1, 1000.0))
def test_the_unit_of_time_does_not_matter(servers, rho, unit):
    seconds = sojourn(servers, servers * rho, 1.0)
    assert sojourn(servers, servers * rho * unit, unit) * unit == pytest.approx(seconds, rel=1e-9)
