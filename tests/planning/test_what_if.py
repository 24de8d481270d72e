"""What-if answers: consistent with the formulas they come from, and said in plain words."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import BudgetTooSmallError, ModelError
from foretide.planning.alternatives import next_best
from foretide.planning.processors import assign_processors
from foretide.planning.what_if import BatchWhatIf, WhatIf, explain, what_if
from foretide.queueing.model import BatchCosts, Model
from foretide.queueing.network import Flow, Network, Operator
from foretide.queueing.sojourn import expected_total_sojourn, fewest_processors

OPERATORS = (Operator("extract", 1.75), Operator("match", 1.6), Operator("aggregate", 650.0))
FLOWS = (Flow("extract", "match"), Flow("match", "aggregate"))
LOGOS = Network(OPERATORS, FLOWS, {"extract": 13.0})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.3, 4.7), st.floats(0.0, 4.0)), min_size=2, max_size=4), st.integers(1, 7))
def test_the_next_best_are_the_next_best(operators, extra):
    made = tuple(Operator(f"o{i}", 3.0 / load, scv) for i, (load, scv) in enumerate(operators))
    network = Network(made, (), {operator.name: 3.0 for operator in made})
    first = fewest_processors(network)
    best = assign_processors(network, sum(first.values()) + extra)
    if best.spare:
        return
    alternatives = next_best(network, best.processors, count=4)
    every = [
        expected_total_sojourn(network, {name: k + given.count(name) for name, k in first.items()})
        for given in itertools.combinations_with_replacement(network.names, extra)
    ]
    expected = sorted(every)[1:5]
    assert [a.expected_total_sojourn for a in alternatives] == pytest.approx(expected, rel=1e-9)
    for a in alternatives:
        assert expected_total_sojourn(network, a.processors) == pytest.approx(a.expected_total_sojourn, rel=1e-9)
        assert sum(a.processors.values()) == best.total


def test_a_budget_answer_adds_up():
    answer = what_if(Model(LOGOS, {"extract": 8, "match": 12, "aggregate": 2}), budget=22)
    assert isinstance(answer, WhatIf)
    assert dict(answer.allocation.processors) == {"extract": 10, "match": 11, "aggregate": 1}
    assert sum(line.share for line in answer.operators) == pytest.approx(1.0)
    assert [line.now for line in answer.operators] == [8, 12, 2]
    assert answer.bottleneck == "extract"
    assert answer.completion.expected == pytest.approx(answer.allocation.expected_total_sojourn)
    more = {**answer.allocation.processors, "match": 12}
    saved = answer.allocation.expected_total_sojourn - expected_total_sojourn(LOGOS, more)
    assert answer.operators[1].next_gain == pytest.approx(saved)
    assert answer.now == pytest.approx(expected_total_sojourn(LOGOS, {"extract": 8, "match": 12, "aggregate": 2}))


def test_the_words_say_it():
    words = explain(what_if(Model(LOGOS, {"extract": 8, "match": 12, "aggregate": 2}), budget=22))
    assert words[0].startswith("22 processors split best as 10:11:1: 1.")
    assert words[1].startswith("The bottleneck is extract: 74% busy")
    assert "One more processor would help extract most" in words[2]
    assert words[3].startswith("The next best, ")
    assert "As it is now it takes" in words[4]
    assert words[4].endswith("more.")


def test_a_latency_answer_uses_the_fewest():
    answer = what_if(Model(LOGOS), latency=1.4)
    assert answer.allocation.expected_total_sojourn <= 1.4
    fewer = assign_processors(LOGOS, answer.allocation.total - 1)
    assert fewer.expected_total_sojourn > 1.4
    assert "are the minimum, as" in explain(answer)[0]
    assert answer.now is None


def test_forks_are_told_apart_from_sums():
    branches = (Operator("a", 100.0), Operator("b", 2.0), Operator("c", 2.0))
    network = Network(branches, (Flow("a", "b"), Flow("a", "c")), {"a": 3.0})
    answer = what_if(Model(network), budget=9)
    assert answer.completion.expected < 0.9 * answer.allocation.expected_total_sojourn
    assert any("side by side" in sentence for sentence in explain(answer))


def test_pools_limit_the_answer_and_what_could_come_next():
    answer = what_if(Model(LOGOS, pools={"extract": 9, "match": 9, "aggregate": 2}), budget=22)
    assert (answer.allocation.total, answer.allocation.spare) == (20, 2)
    words = " ".join(explain(answer))
    assert "Every pool is used up" in words
    assert "2 of the budget are left over" in words


def test_an_overload_now_is_said():
    answer = what_if(Model(LOGOS, {"extract": 4, "match": 12, "aggregate": 2}), budget=22)
    assert answer.now == math.inf
    assert "cannot keep up" in explain(answer)[-1]


def test_micro_batches_are_planned_as_micro_batches():
    network = Network((Operator("a", 500.0), Operator("b", 2000.0)), (Flow("a", "b"),), {"a": 1000.0})
    costs = BatchCosts(cores=2, fixed_cost=0.2, task_cost=0.01)
    answer = what_if(Model(network, {"a": 8, "b": 8}, micro_batch=costs), budget=8)
    assert isinstance(answer, BatchWhatIf)
    assert answer.plan.cores == 8
    total = costs.fixed_cost + sum(answer.stage_seconds.values())
    assert total == pytest.approx(answer.plan.steady.length)
    assert answer.bottleneck == "a"
    words = explain(answer)
    assert words[0].startswith("8 cores with ")
    assert "fixed cost" in words[2]
    assert answer.now == math.inf  # the model's own two cores cannot carry it
    within = what_if(Model(network, micro_batch=costs), latency=1.0)
    assert within.plan.steady.mean_latency <= 1.0
    assert within.now is None


@pytest.mark.parametrize("question", [{}, {"budget": 3, "latency": 1.0}, {"budget": 0}, {"latency": -1.0}])
def test_questions_that_make_no_sense(question):
    with pytest.raises(ModelError):
        what_if(Model(LOGOS), **question)


def test_too_small_a_budget_says_the_least_that_does():
    with pytest.raises(BudgetTooSmallError) as caught:
        what_if(Model(LOGOS), budget=9)
    assert caught.value.needed == 18
