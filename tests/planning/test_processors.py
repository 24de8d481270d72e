"""drs Algorithms 1 and 2: optimal, within budget, and clear about what cannot be done."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foretide.errors import (
    BudgetTooSmallError,
    IdleNetworkError,
    LatencyOutOfReachError,
    LoopGainError,
    OverloadError,
)
from foretide.planning.alternatives import next_best
from foretide.planning.processors import Queues, assign_processors, greedy_order, min_processors
from foretide.planning.what_if import what_if
from foretide.queueing.model import Model
from foretide.queueing.network import Flow, Network, Operator
from foretide.queueing.sojourn import expected_total_sojourn, expected_tuple_latency, fewest_processors, utilization

SAME = 1e-9


def away_from_whole(load: float) -> bool:
    """Loads a rounding error away from saturation have no answer that two formulas could agree on."""
    return abs(load - round(load)) > 1e-4


@st.composite
def networks(draw: st.DrawFn, most: int = 4, load: float = 6.0) -> Network:
    """Up to `most` operators with any flows between them, loops and gains above 1 included."""
    names = "abcdefgh"[: draw(st.integers(1, most))]
    scv = st.one_of(st.just(1.0), st.floats(0.0, 5.0))
    pairs = [pair for pair in itertools.product(names, names) if draw(st.integers(0, 3)) == 0]
    flows = tuple(Flow(s, t, draw(st.sampled_from([0.05, 0.3, 0.5, 1.0, 2.5]))) for s, t in pairs)
    external = {name: draw(st.sampled_from([0.0, 1.0, 3.7])) for name in names}
    external[names[0]] = 2.0
    try:
        bare = Network(tuple(Operator(name, 1.0) for name in names), flows, external)
    except LoopGainError:
        assume(False)
        raise
    loads = {name: draw(st.floats(0.05, load).filter(away_from_whole)) for name in names}
    operators = (
        Operator(name, (bare.arrival_rates[name] or 1.0) / loads[name], draw(scv), draw(scv)) for name in names
    )
    return Network(tuple(operators), flows, external)


def wait(arrival: float, service: float, k: int) -> float:
    """drs eqs 2 and 3, with factorials and all."""
    rho = arrival / (k * service)
    if rho >= 1:
        return math.inf
    head = sum((k * rho) ** n / math.factorial(n) for n in range(k))
    last = (k * rho) ** k / math.factorial(k)
    return last / (head + last / (1 - rho)) / ((1 - rho) ** 2 * service * k)


def total_sojourn(network: Network, counts: tuple[int, ...]) -> float:
    """drs eqs 4 and 5."""
    total = 0.0
    for operator, arrival, k in zip(network.operators, network.arrival_array.tolist(), counts, strict=True):
        factor = (operator.arrival_scv + operator.service_scv) / 2
        waiting = wait(arrival, operator.service_rate, k)
        total += arrival * (1 / operator.service_rate + (math.inf if math.isinf(waiting) else factor * waiting))
    return total / network.external_rate


def fewest(network: Network) -> tuple[int, ...]:
    return tuple(math.floor(load) + 1 for load in network.load_array.tolist())


def allocations(network: Network, extra: int) -> Iterator[tuple[int, ...]]:
    """Every stable allocation with exactly `extra` processors above the fewest."""
    first = fewest(network)
    for cuts in itertools.combinations_with_replacement(range(len(first)), extra):
        yield tuple(k + cuts.count(i) for i, k in enumerate(first))


def greedy(network: Network, budget: int) -> tuple[int, ...]:
    """drs Algorithm 1, one processor at a time, handing out `budget` and not one more."""
    counts = list(fewest(network))
    while sum(counts) < budget:
        now = total_sojourn(network, tuple(counts))
        gains = []
        for i in range(len(counts)):
            more = (*counts[:i], counts[i] + 1, *counts[i + 1 :])
            gains.append(now - total_sojourn(network, more))
        counts[gains.index(max(gains))] += 1
    return tuple(counts)


def counts(allocation) -> tuple[int, ...]:
    return tuple(allocation.processors.values())


@settings(max_examples=300, deadline=None)
@given(networks(), st.integers(0, 7))
def test_no_allocation_beats_algorithm_1(network, extra):
    budget = sum(fewest(network)) + extra
    chosen = assign_processors(network, budget)
    best = min(total_sojourn(network, every) for every in allocations(network, extra))
    assert total_sojourn(network, counts(chosen)) <= best * (1 + SAME)
    assert chosen.expected_total_sojourn == pytest.approx(best, rel=SAME)
    assert chosen.total + chosen.spare == budget


@settings(max_examples=200, deadline=None)
@given(networks(), st.integers(1, 6), st.floats(0.0, 1.0))
def test_no_fewer_processors_meet_the_bound_of_algorithm_2(network, extra, between):
    best = {n: min(total_sojourn(network, every) for every in allocations(network, n)) for n in (extra - 1, extra)}
    latency = best[extra] + between * (best[extra - 1] - best[extra])
    chosen = min_processors(network, latency * (1 + SAME))
    assert total_sojourn(network, counts(chosen)) <= latency * (1 + 3 * SAME)
    used = chosen.total - sum(fewest(network))
    assert used <= extra
    for fewer in range(used):
        assert all(total_sojourn(network, every) > latency for every in allocations(network, fewer))


@settings(max_examples=60, deadline=None)
@given(networks(most=5, load=12.0), st.integers(0, 30))
def test_agrees_with_plain_greedy(network, extra):
    budget = sum(fewest(network)) + extra
    chosen = assign_processors(network, budget)
    plain = total_sojourn(network, greedy(network, budget))
    assert chosen.expected_total_sojourn == pytest.approx(plain, rel=SAME)
    assert expected_total_sojourn(network, chosen.processors) == pytest.approx(plain, rel=SAME)


@settings(max_examples=60, deadline=None)
@given(networks(most=3), st.integers(0, 6), st.data())
def test_pools_are_kept_and_the_best_within_them_is_found(network, extra, data):
    first = fewest(network)
    pools = {name: k + data.draw(st.integers(0, 3)) for name, k in zip(network.names, first, strict=True)}
    chosen = assign_processors(network, sum(first) + extra, pools)
    within = [
        total_sojourn(network, every)
        for n in range(extra + 1)
        for every in allocations(network, n)
        if all(k <= pools[name] for k, name in zip(every, network.names, strict=True))
    ]
    assert all(chosen.processors[name] <= pools[name] for name in network.names)
    assert total_sojourn(network, counts(chosen)) <= min(within) * (1 + SAME)


def test_long_curves_are_extended_where_needed():
    # One operator needs thousands of steps, the others nearly none.
    loads = np.array([40_000.0, 0.5, 0.5, 0.5])
    queues = Queues(np.floor(loads) + 1, loads, loads, np.full(4, 1 << 40))
    order = greedy_order(queues, 9_000)
    assert len(order.owners) > 4_096 * 1.5
    gains = [np.minimum.accumulate(-np.diff(row)) for row in order.waiting]
    taken = order.counts(len(order.owners))
    worst_taken = min(float(g[n - 1]) for g, n in zip(gains, taken, strict=True) if n)
    best_left = max((float(g[n]) for g, n in zip(gains, taken, strict=True) if n < len(g)), default=0.0)
    assert worst_taken >= best_left


def test_a_million_processors():
    network = Network(tuple(Operator(f"o{i}", 1.0 + i) for i in range(20)), (), {f"o{i}": 45_000.0 for i in range(20)})
    chosen = assign_processors(network, 1_000_000)
    assert chosen.total + chosen.spare == 1_000_000
    again = min_processors(network, chosen.expected_total_sojourn * (1 + 1e-6))
    assert again.total < chosen.total
    assert again.expected_total_sojourn <= chosen.expected_total_sojourn * (1 + 1e-6)


def test_the_papers_allocations_follow_from_plausible_rates():
    # drs reports 10:11:1 for logo detection with K_max = 22; the rates behind it were not printed.
    extract, match, aggregate = (
        Operator("extract", 1.75),
        Operator("match", 1.6),
        Operator("aggregate", 650.0),
    )
    flows = (Flow("extract", "match"), Flow("match", "aggregate"))
    network = Network((extract, match, aggregate), flows, {"extract": 13.0})
    assert counts(assign_processors(network, 22)) == (10, 11, 1)


def test_variation_changes_the_best_split():
    flows = (Flow("a", "b"),)
    calm = Network((Operator("a", 2.5), Operator("b", 2.5)), flows, {"a": 5.0})
    bursty = Network((Operator("a", 2.5), Operator("b", 2.5, 9.0, 9.0)), flows, {"a": 5.0})
    assert counts(assign_processors(calm, 10)) == (5, 5)
    assert counts(assign_processors(bursty, 10)) == (4, 6)


def test_an_operator_without_arrivals_keeps_one_processor():
    network = Network((Operator("a", 2.0), Operator("b", 2.0)), (), {"a": 5.0})
    assert counts(assign_processors(network, 8)) == (7, 1)


def test_processors_that_bring_nothing_are_left_over():
    network = Network((Operator("a", 10.0, 0.0, 0.0),), (), {"a": 25.0})
    chosen = assign_processors(network, 10)
    assert (counts(chosen), chosen.spare) == ((3,), 7)


def test_a_budget_below_stability_says_what_would_do():
    network = Network((Operator("a", 2.0), Operator("b", 3.0)), (Flow("a", "b"),), {"a": 5.0})
    with pytest.raises(BudgetTooSmallError) as caught:
        assign_processors(network, 4)
    assert (caught.value.budget, caught.value.needed) == (4, 5)
    assert counts(assign_processors(network, caught.value.needed)) == (3, 2)


def test_a_latency_below_the_service_times_says_what_can_be_approached():
    network = Network((Operator("a", 2.0), Operator("b", 4.0)), (Flow("a", "b", 3.0),), {"a": 5.0})
    with pytest.raises(LatencyOutOfReachError) as caught:
        min_processors(network, 1.2)
    assert (caught.value.target, caught.value.best) == (1.2, pytest.approx(1.25))
    assert min_processors(network, 1.2501).expected_total_sojourn <= 1.2501


def test_the_bound_weighs_by_visits():
    # The plain sum of 1/mu is 10.1 s; a tuple visits the slow operator once in a hundred times.
    network = Network((Operator("a", 10.0), Operator("b", 0.1)), (Flow("a", "b", 0.01),), {"a": 5.0})
    assert min_processors(network, 0.25).expected_total_sojourn <= 0.25


def test_pools_that_cannot_keep_up_are_named():
    network = Network((Operator("a", 2.0), Operator("b", 3.0)), (Flow("a", "b"),), {"a": 5.0})
    with pytest.raises(OverloadError) as caught:
        assign_processors(network, 20, {"a": 2})
    assert (caught.value.operators, caught.value.needed) == (("a",), {"a": 3})
    with pytest.raises(LatencyOutOfReachError) as reached:
        min_processors(network, 0.9, {"a": 3, "b": 2})
    assert reached.value.best == pytest.approx(total_sojourn(network, (3, 2)))


def test_an_idle_network_has_nothing_to_plan():
    idle = Network((Operator("a", 2.0),))
    for ask in (lambda: assign_processors(idle, 3), lambda: min_processors(idle, 1.0)):
        with pytest.raises(IdleNetworkError):
            ask()


def test_a_load_that_is_whole_but_for_rounding_counts_as_whole():
    network = Network((Operator("a", 0.1),), (), {"a": 0.3 * (1 - 2e-16)})
    assert network.arrival_array[0] / 0.1 < 3
    assert network.load_array[0] == 3
    assert counts(assign_processors(network, 4)) == (4,)


def test_a_load_of_whole_processors_needs_one_more():
    network = Network((Operator("a", 2.0),), (), {"a": 6.0})
    assert counts(assign_processors(network, 4)) == (4,)
    with pytest.raises(BudgetTooSmallError):
        assign_processors(network, 3)
    assert math.isfinite(assign_processors(network, 4).expected_total_sojourn)


WHOLE_LOADS = [(tenths, load) for tenths in range(1, 10) for load in range(1, 12)]


@pytest.mark.parametrize(("tenths", "load"), WHOLE_LOADS)
def test_a_whole_load_needs_one_processor_more_wherever_it_is_compared(tenths, load):
    rate, arrivals = float(f"0.{tenths}"), float(f"{tenths * load // 10}.{tenths * load % 10}")
    operators = Operator("a", rate), Operator("b", 100.0)
    network = Network(operators, (Flow("a", "b"),), {"a": arrivals})
    assert fewest_processors(network) == {"a": load + 1, "b": 1}
    assert utilization(network, {"a": load, "b": 1})["a"] == 1.0
    with pytest.raises(OverloadError) as refused:
        expected_total_sojourn(network, {"a": load, "b": 1})
    assert refused.value.needed == {"a": load + 1}
    best = assign_processors(network, load + 3)
    assert best.expected_total_sojourn < 3 / rate
    for other in next_best(network, best.processors):
        assert other.processors["a"] > load
        assert best.expected_total_sojourn <= other.expected_total_sojourn < 3 / rate
    model = Model(network, {"a": load, "b": 1})
    answer = what_if(model, budget=load + 3)
    assert answer.now == math.inf


@settings(max_examples=40, deadline=None)
@given(networks(most=3, load=3.0), st.integers(0, 5))
def test_no_allocation_beats_algorithm_1_where_processors_have_queues_of_their_own(network, extra):
    poisson = [replace(each, arrival_scv=max(each.arrival_scv, 1.0)) for each in network.operators]
    own = replace(network, operators=tuple(replace(each, own_queues=True) for each in poisson))
    found = assign_processors(own, sum(fewest(own)) + extra)
    assert found.expected_total_sojourn == pytest.approx(expected_total_sojourn(own, found.processors))
    for each in allocations(own, extra):
        there = expected_total_sojourn(own, dict(zip(own.names, each, strict=True)))
        assert found.expected_total_sojourn <= there * (1 + 1e-9)


def test_queues_of_their_own_wait_longer_than_a_shared_one_and_as_long_as_single_servers():
    shared = Network((Operator("a", 10.0),), (), {"a": 25.0})
    own = Network((Operator("a", 10.0, own_queues=True),), (), {"a": 25.0})
    single = Network((Operator("a", 10.0),), (), {"a": 25.0 / 4})
    assert expected_total_sojourn(own, {"a": 4}) == pytest.approx(expected_total_sojourn(single, {"a": 1}))
    assert expected_total_sojourn(own, {"a": 4}) > expected_total_sojourn(shared, {"a": 4})
    assert min_processors(own, 0.15).processors["a"] > min_processors(shared, 0.15).processors["a"]


@given(st.floats(0.1, 5), st.floats(0.1, 5), st.floats(0.5, 50))
def test_the_latency_of_a_tuple_is_the_sum_of_its_path_whatever_it_is_multiplied_by(first, second, gain):
    pair = (Operator("a", first), Operator("b", second))
    network = Network(pair, (Flow("a", "b", gain),), {"a": 1.0})
    assert expected_tuple_latency(network) == pytest.approx(1 / first + 1 / second)
    plenty = {"a": 500, "b": 5000}
    assert expected_tuple_latency(network, plenty) == pytest.approx(1 / first + 1 / second)


def test_the_latency_of_tuples_on_two_paths_is_their_mean_by_what_leaves():
    triple = (Operator("a", 1.0), Operator("b", 2.0), Operator("c", 4.0))
    network = Network(triple, (Flow("a", "b", 0.25), Flow("a", "c", 0.75)), {"a": 0.1})
    assert expected_tuple_latency(network) == pytest.approx(1 + 0.25 * 0.5 + 0.75 * 0.25)
    loop = Network((Operator("a", 2.0),), (Flow("a", "a", 0.5),), {"a": 0.1})
    assert expected_tuple_latency(loop) == pytest.approx(1.0)
