"""The plan of disturbances that workers are recorded under: one at a time, of every kind, the same for a seed."""

from itertools import pairwise

from benchmarks.generators.stress import CASES, SIGNALS, stresses

PLAN = stresses(3, 3600.0, [0, 1])


def test_one_ends_before_the_signal_of_the_next_begins():
    assert all(one.end <= other.signals[0] for one, other in pairwise(PLAN))
    assert PLAN[-1].end <= 3600.0


def test_every_case_signal_and_core_occurs_and_most_are_announced():
    assert {each.case for each in PLAN} == {*CASES}
    assert {each.signal for each in PLAN} == {*SIGNALS}
    assert {each.core for each in PLAN} == {0, 1}
    assert sum(each.case == "announced" for each in PLAN) > len(PLAN) / 2


def test_false_signals_are_followed_by_nothing_and_others_without_signal_by_load():
    for each in PLAN:
        assert (each.loops == 0) == (each.case == "false")
        assert (each.lead == 0) == (each.case == "unannounced")
        assert each.signals == (each.start - each.lead, each.start)


def test_the_seed_decides():
    assert stresses(3, 3600.0, [0, 1]) == PLAN
    assert stresses(4, 3600.0, [0, 1]) != PLAN
    assert stresses(3, 5.0, [0, 1]) == []
