"""In which branch operators are metered, and what that means for the edges between them."""

from __future__ import annotations

import foretide as ft
from foretide.spark.realtime.branches import Branches
from foretide.spark.realtime.operators import metered_operators


def same(frame):
    return frame


def bolt(name, *inputs, python=False, **options):
    work = ft.PerTuple(lambda row: iter([row]), "id long") if python else same
    return ft.Bolt(name, work, [each if isinstance(each, ft.From) else ft.From(each) for each in inputs], **options)


def topology(*bolts, spouts=("in",)):
    sources = [ft.Spout(name, ft.KafkaSource("host:1", name, "id long")) for name in spouts]
    return ft.Topology("t", sources, bolts)


def operators(made, chained=(), **options):
    names = [part.id for part in made.components if part.id not in chained]
    return {each.name: each for each in metered_operators(made, dict.fromkeys(names, 2), set(chained), **options)}


def test_a_path_is_metered_in_the_branch_of_its_deepest_bolt():
    made = topology(bolt("a", "in", python=True), bolt("b", "a", python=True), bolt("c", "b"))
    branches = Branches.of(made)
    assert list(branches.members) == ["a", "b", "c"]
    assert branches.metered_in == dict.fromkeys(["in", "a", "b", "c"], "c")
    found = operators(made)
    assert [(each.feeds, each.sends_all, each.sink) for each in found.values()] == [
        ("a", True, False),
        ("b", True, False),
        ("c", True, False),
        (None, False, True),
    ]


def test_of_several_branches_each_is_measured_at_its_end_and_what_they_share_in_the_longest():
    made = topology(bolt("a", "in"), bolt("b", "a"), bolt("c", "a"), bolt("d", "c"))
    assert Branches.of(made).metered_in == {"in": "d", "a": "d", "b": "b", "c": "d", "d": "d"}
    found = operators(made)
    assert {name for name, each in found.items() if each.sink} == {"b", "d"}
    assert {name: each.feeds for name, each in found.items() if each.sends_all} == {"in": "a", "a": "c", "c": "d"}


def test_of_two_branches_of_the_same_length_the_first_one_counts():
    made = topology(bolt("b", "in"), bolt("a", "in"))
    assert Branches.of(made).metered_in == {"in": "b", "b": "b", "a": "a"}


def test_an_edge_with_a_sender_that_is_counted_elsewhere_has_no_tuples_in_flight():
    shared = topology(bolt("a", "in", "more"), bolt("b", "more"), bolt("c", "b"), spouts=("in", "more"))
    assert Branches.of(shared).metered_in["more"] == "c"
    assert not operators(shared)["in"].sends_all
    back = topology(bolt("a", "in", ft.From("b", feedback=True)), bolt("b", "a"))
    assert not operators(back)["in"].sends_all
    assert operators(back)["a"].sends_all
    copies = topology(bolt("a", ft.From("in", ft.All())))
    assert not operators(copies)["in"].sends_all


def test_a_bolt_without_an_exchange_belongs_to_the_operator_before_it():
    made = topology(bolt("a", ft.From("in", ft.LocalOrShuffle())), bolt("b", "a"))
    found = operators(made, chained=("a",))
    assert (found["in"].feeds, found["in"].sends_all, found["in"].sink) == ("b", True, False)
    ending = operators(topology(bolt("a", ft.From("in", ft.LocalOrShuffle()))), chained=("a",))
    assert ending["in"].sink


def test_latency_is_measured_up_to_an_aggregation():
    made = topology(bolt("a", "in"), bolt("count", "a"))
    found = {each.name: each for each in metered_operators(made, {"in": 2, "a": 2}, untimed={"count"})}
    assert [found["in"].sink, found["a"].sink, found["a"].feeds] == [False, True, "count"]
