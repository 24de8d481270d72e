import pytest

from foretide.topology.graph import DEFAULT_POOL, Arrow, Bolt, From, Native, PerTuple, Spout, Topology
from foretide.topology.groupings import (
    All,
    Direct,
    Dynamic,
    Fields,
    Global,
    LoadAware,
    LocalOrShuffle,
    PartialKey,
    Shuffle,
)
from foretide.topology.sources import Rate


def work(frame):
    return frame


def bolt(name, *inputs, **options):
    return Bolt(name, work, [From(each) if isinstance(each, str) else each for each in inputs], **options)


def topology(*bolts):
    return Topology("app", [Spout("lines", Rate(1))], bolts)


def ids(bolts):
    return [each.id for each in bolts]


def test_bolts_come_after_all_they_read_in_whatever_order_they_are_given():
    parts = [bolt("join", "left", "right"), bolt("right", "parse"), bolt("left", "parse"), bolt("parse", "lines")]
    assert ids(topology(*parts).in_order()) == ["parse", "right", "left", "join"]
    assert ids(topology(*reversed(parts)).in_order()) == ["parse", "left", "right", "join"]


def test_feedback_does_not_hold_up_the_order():
    loop = topology(bolt("enter", "lines", From("decide", feedback=True)), bolt("decide", "enter"))
    assert ids(loop.in_order()) == ["enter", "decide"]


def test_what_sits_on_a_cycle_or_reads_from_nowhere_is_left_out_of_the_order():
    stuck = topology(bolt("fine", "lines"), bolt("a", "b"), bolt("b", "a"), bolt("behind", "a"), bolt("lost", "moon"))
    assert ids(stuck.in_order()) == ["fine"]


def test_streams_that_nobody_reads_or_that_come_back_are_outputs():
    loop = topology(
        bolt("enter", "lines", From("decide", stream="again", feedback=True)),
        bolt("decide", "enter", streams=("default", "again", "late")),
        bolt("store", "decide"),
    )
    assert [(each.id, stream) for each, stream in loop.outputs()] == [
        ("decide", "again"),
        ("decide", "late"),
        ("store", "default"),
    ]


def test_a_stream_that_comes_back_is_an_output_even_when_a_bolt_reads_it_on():
    both = topology(
        bolt("enter", "lines", From("decide", feedback=True)), bolt("decide", "enter"), bolt("on", "decide")
    )
    assert [each.id for each, _ in both.outputs()] == ["decide", "on"]


def test_readers_are_found_by_component_and_stream():
    late = From("parse", stream="late")
    split = topology(bolt("parse", "lines", streams=("default", "late")), bolt("a", "parse"), bolt("b", late, "parse"))
    assert [reader.id for reader, _ in split.readers("parse", "default")] == ["a", "b"]
    assert split.readers("parse", "late") == [(split.component("b"), late)]
    assert split.readers("a", "default") == []


def test_a_component_is_found_by_its_id():
    chain = topology(bolt("parse", "lines"))
    assert chain.component("lines") is chain.spouts[0]
    assert chain.component("parse") is chain.bolts[0]
    assert chain.component("moon") is None


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, DEFAULT_POOL),
        ({"pool": 8}, 8),
        ({"pool": 8, "replicas": 2}, 8),
        ({"replicas": 3}, 3),
        ({"pool": 0}, 0),
    ],
)
def test_the_pool_is_what_was_said_or_the_replicas_or_the_default(options, size):
    assert bolt("a", "lines", **options).pool_size == size


def test_a_bolt_behind_global_alone_has_a_pool_of_one():
    assert bolt("a", From("lines", Global())).pool_size == 1
    assert bolt("a", From("lines", Global()), "b").pool_size == DEFAULT_POOL


@pytest.mark.parametrize(
    ("grouping", "controllable"),
    [
        (Shuffle(), True),
        (Dynamic(), True),
        (LoadAware(), True),
        (Fields("k"), True),
        (PartialKey("k"), True),
        (All(), False),
        (Global(), False),
        (LocalOrShuffle(), False),
        (Direct("k"), False),
    ],
)
def test_a_bolt_is_controllable_when_a_route_steers_one_of_its_inputs(grouping, controllable):
    assert bolt("a", From("lines", grouping)).controllable is controllable
    assert bolt("a", From("lines", grouping), "b").controllable


def test_a_bare_function_is_native_work():
    assert bolt("a", "lines").operator == Native(work)
    for operator in (Native(work), Arrow(work, "n int"), PerTuple(work, "n int")):
        assert Bolt("a", operator, [From("lines")]).operator is operator
