"""Which spouts a stage scans, and which bolt is behind an exchange of Spark's own."""

import pytest

from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import Fields, LocalOrShuffle
from foretide.topology.shape import PlanShape
from foretide.topology.sources import Rate


def work(frame):
    return frame


def bolt(name, *inputs, **options):
    return Bolt(name, work, [From(each) if isinstance(each, str) else each for each in inputs], **options)


def local(name, *inputs, **options):
    return bolt(name, *(From(each, LocalOrShuffle()) for each in inputs), **options)


def shape(*bolts, spouts=("lines",), chained=(), stateful=()):
    return PlanShape.of(Topology("app", [Spout(name, Rate(1)) for name in spouts], bolts), set(chained), set(stateful))


def test_the_scan_behind_an_edge_is_its_spout():
    found = shape(bolt("parse", "lines"), bolt("count", From("parse", Fields("word"))))
    assert found.scan("parse", 0, 1) == "lines"
    assert found.scan("count", 0, 1) is None  # a stage that reads an edge scans nothing
    assert found.scan(None, 0, 1) is None  # nor does what writes to the sink


def test_a_spout_with_several_readers_is_scanned_once_before_the_exchange_that_they_share():
    found = shape(bolt("a", "lines"), bolt("b", "lines"))
    assert found.scan("lines.out", 0, 1) == "lines"
    assert found.scan("a", 0, 1) is None
    assert found.scan("b", 0, 1) is None


def test_a_bolt_with_two_spouts_has_their_scans_in_the_order_of_its_inputs():
    found = shape(bolt("join", "one", "two"), spouts=("two", "one"))
    assert [found.scan("join", place, 2) for place in (0, 1)] == ["one", "two"]


def test_a_bolt_with_a_spout_and_a_bolt_scans_the_spout_alone():
    found = shape(bolt("parse", "lines"), bolt("join", "parse", "other"), spouts=("lines", "other"))
    assert found.scan("join", 0, 1) == "other"


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_scans_than_is_known_leaves_all_of_them_open(count):
    found = shape(bolt("join", "one", "two"), spouts=("one", "two"))
    assert found.scan("join", 0, count) is None


def test_what_feeds_an_edge_that_is_not_known_is_not_known():
    assert shape(bolt("parse", "lines")).scan("elsewhere", 0, 1) is None
    assert PlanShape().scan("parse", 0, 1) is None


# ---- chained bolts


def test_a_chained_bolt_runs_in_the_stage_that_scans_its_spout():
    found = shape(local("parse", "lines"), bolt("count", "parse"), chained={"parse"})
    assert found.scan("count", 0, 1) == "lines"
    assert found.scan("parse", 0, 1) is None  # it has no exchange


def test_a_chain_of_bolts_leads_back_to_its_spout():
    found = shape(local("a", "lines"), local("b", "a"), bolt("count", "b"), chained={"a", "b"})
    assert found.scan("count", 0, 1) == "lines"


def test_a_chained_bolt_that_writes_to_the_sink_is_scanned_without_any_edge():
    assert shape(local("parse", "lines"), chained={"parse"}).scan(None, 0, 1) == "lines"


def test_a_chain_with_two_readers_is_left_open_rather_than_told_wrongly():
    found = shape(local("a", "lines"), bolt("x", "a"), bolt("y", "a"), chained={"a"})
    assert found.scan("x", 0, 1) is None
    assert found.scan("y", 0, 1) is None


def test_scans_that_reach_the_sink_are_in_the_order_of_the_plan_not_of_the_list_of_bolts():
    # The plan unites what goes to the sink in the order in which bolts can be built: `late` waits for `early`.
    bolts = [local("late", "early"), local("early", "one"), local("other", "two")]
    found = shape(*bolts, spouts=("one", "two"), chained={"late", "early", "other"})
    assert [found.scan(None, place, 2) for place in (0, 1)] == ["two", "one"]


# ---- stateful bolts


def test_a_stateful_bolt_is_behind_sparks_own_exchange():
    found = shape(bolt("count", "lines"), stateful={"count"})
    assert found.after("lines") == "count"
    assert found.scan(None, 0, 1) == "lines"
    assert found.scan("count", 0, 1) is None


def test_a_stateful_bolt_behind_an_edge_is_found_by_the_operator_that_writes_to_it():
    found = shape(bolt("parse", "lines"), bolt("count", "parse"), stateful={"count"})
    assert found.after("parse") == "count"
    assert found.after("lines") == "lines"
    assert found.scan("parse", 0, 1) == "lines"


def test_a_stateful_bolt_behind_a_chain_is_found_by_the_operator_that_runs_the_chain():
    found = shape(local("parse", "lines"), bolt("count", "parse"), chained={"parse"}, stateful={"count"})
    assert found.after("lines") == "count"
    assert found.scan(None, 0, 1) == "lines"


def test_two_stateful_bolts_behind_one_operator_cannot_be_told_apart():
    found = shape(bolt("a", "lines"), bolt("b", "lines"), stateful={"a", "b"})
    assert found.after("lines") == "lines"
    assert found.scan("lines.out", 0, 1) == "lines"


def test_two_stateful_bolts_on_two_spouts_have_scans_that_cannot_be_told_apart():
    found = shape(bolt("a", "one"), bolt("b", "two"), spouts=("one", "two"), stateful={"a", "b"})
    assert found.scan(None, 0, 1) is None
    assert (found.after("one"), found.after("two")) == ("a", "b")


def test_an_exchange_whose_writer_is_not_known_has_nobody_behind_it():
    assert shape(bolt("count", "lines"), stateful={"count"}).after(None) is None
    assert PlanShape().after("lines") == "lines"
