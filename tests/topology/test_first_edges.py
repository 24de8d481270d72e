from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import All, Fields
from foretide.topology.shape import FirstEdge, first_edges, sole_sources
from foretide.topology.sources import Rate


def work(frame):
    return frame


def topology(*bolts, spouts=("lines",)):
    return Topology("app", [Spout(name, Rate(1)) for name in spouts], bolts)


def bolt(name, *inputs, **options):
    return Bolt(name, work, [From(each) if isinstance(each, str) else each for each in inputs], **options)


def test_only_the_edges_behind_spouts_are_first():
    assert first_edges(topology(bolt("parse", "lines"), bolt("count", "parse"))) == {"parse": FirstEdge(("lines",))}


def test_a_spout_with_several_readers_has_an_edge_of_its_own_before_theirs():
    assert first_edges(topology(bolt("a", "lines"), bolt("b", "lines"))) == {
        "lines.out": FirstEdge(("lines",)),
        "a": FirstEdge(("lines",)),
        "b": FirstEdge(("lines",)),
    }


def test_all_grouping_copies_every_tuple_to_the_whole_pool():
    assert first_edges(topology(bolt("a", From("lines", All()), pool=3))) == {"a": FirstEdge(("lines",), copies=3)}


def test_several_spouts_into_one_bolt_are_counted_together():
    assert first_edges(topology(bolt("a", "one", "two"), spouts=("one", "two"))) == {"a": FirstEdge(("one", "two"))}


def test_an_edge_that_other_tuples_join_is_not_first():
    mixed = topology(bolt("a", "lines"), bolt("b", "lines", "a"))
    assert "b" not in first_edges(mixed)
    loop = topology(bolt("a", "lines", From("a", feedback=True)))
    assert first_edges(loop) == {}


def test_an_edge_that_copies_only_some_of_its_inputs_is_not_first():
    assert first_edges(topology(bolt("a", "one", From("two", All())), spouts=("one", "two"))) == {}


# ---- bolts that see a spout's own arrivals


def test_a_bolt_with_one_spout_gets_all_of_its_tuples_and_no_others():
    app = topology(bolt("parse", From("lines", Fields("word"))), bolt("count", "parse"))
    assert sole_sources(app) == {"parse": "lines"}


def test_several_readers_of_one_spout_get_all_of_its_tuples_each():
    assert sole_sources(topology(bolt("a", "lines"), bolt("b", "lines"))) == {"a": "lines", "b": "lines"}


def test_a_bolt_that_other_tuples_join_does_not_see_the_arrivals_of_one_spout():
    assert sole_sources(topology(bolt("a", "one", "two"), spouts=("one", "two"))) == {}
    assert sole_sources(topology(bolt("a", "lines", From("a", feedback=True)))) == {}
    assert sole_sources(topology(bolt("a", "lines", "lines"))) == {}


def test_a_bolt_that_gets_every_tuple_several_times_does_not_see_its_arrivals():
    assert sole_sources(topology(bolt("a", From("lines", All()), pool=3))) == {}
