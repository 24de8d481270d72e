import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import RouteError
from foretide.routing.ring import DEFAULT_SLOTS
from foretide.routing.table import FORMAT, Route, RouteTable, parse_ratio


def a_table():
    return RouteTable().declare("parse", pool=3).declare("count", pool=2, weights=[3, 1])


@st.composite
def tables(draw):
    table = RouteTable()
    for edge in draw(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=3)):
        pool = draw(st.integers(1, 5))
        weights = draw(st.lists(st.integers(0, 9), min_size=pool, max_size=pool).filter(any))
        table = table.declare(edge, pool, weights, slots=draw(st.integers(8, 64)))
    return table


def test_every_change_has_the_next_version_and_leaves_the_old_table_as_it_was():
    table = a_table()
    text = table.to_json()
    changed = [table.split("parse", [7, 3, 2]), table.activate("parse", 1), table.split("count", [0, 1])]
    assert [after.version for after in changed] == [table.version + 1] * 3
    assert changed[0].split("count", [1, 1]).version == table.version + 2
    assert table.to_json() == text


def test_a_change_of_one_edge_leaves_the_others_alone():
    table = a_table()
    after = table.split("parse", [1, 0, 0])
    assert after.edges["parse"] != table.edges["parse"]
    assert after.edges["count"] == table.edges["count"]


def test_declaring_a_known_edge_keeps_its_route_and_its_version():
    table = a_table().split("parse", [7, 3, 2])
    assert table.declare("parse", pool=3, weights=[1, 1, 1]) is table


@pytest.mark.parametrize(("pool", "slots"), [(4, DEFAULT_SLOTS), (3, 64)])
def test_declaring_a_known_edge_with_another_pool_or_ring_starts_it_anew(pool, slots):
    table = a_table().split("parse", [7, 3, 2]).declare("parse", pool=pool, slots=slots)
    route = table.edges["parse"]
    assert (route.pool, len(route.ring), route.active) == (pool, slots, pool)
    assert table.version == 4


def test_a_route_knows_its_counts_shares_and_active_replicas():
    route = Route(4, (0, 0, 0, 2))
    assert (route.counts, route.shares, route.active) == ((3, 0, 1, 0), (0.75, 0.0, 0.25, 0.0), 2)


def test_activating_spreads_evenly_over_the_first_replicas():
    table = a_table().activate("parse", 2)
    assert table.edges["parse"].counts == (512, 512, 0)
    assert table.activate("parse", 3).edges["parse"].counts == (342, 341, 341)


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=6).filter(lambda ws: sum(map(bool, ws)) > 1), st.data())
def test_disabling_a_task_moves_only_its_own_identifiers(weights, data):
    table = RouteTable().declare("parse", len(weights), weights, slots=64)
    task = data.draw(st.sampled_from([task for task, weight in enumerate(weights) if weight]))
    before = table.edges["parse"]
    without = [0 if each == task else count for each, count in enumerate(before.counts)]
    after = table.split("parse", without).edges["parse"].ring
    assert task not in after
    assert all(new == old for old, new in zip(before.ring, after, strict=True) if old != task)


@pytest.mark.parametrize(
    ("change", "edge", "reason"),
    [
        (lambda t: t.split("parse", [1, 1]), "parse", "2 weights for a pool of 3 tasks"),
        (lambda t: t.split("parse", [1, 1, 1, 1]), "parse", "4 weights for a pool of 3 tasks"),
        (lambda t: t.split("parse", [0, 0, 0]), "parse", "all weights are zero"),
        (lambda t: t.split("parse", [1, -1, 1]), "parse", "weight of task 1 is -1"),
        (lambda t: t.split("parse", [1, 1, float("nan")]), "parse", "weight of task 2 is nan"),
        (lambda t: t.split("parse", [float("inf"), 1, 1]), "parse", "weight of task 0 is inf"),
        (lambda t: t.split("nowhere", [1]), "nowhere", "edges with a route are: count, parse"),
        (lambda t: t.activate("parse", 0), "parse", "active replicas must be between 1 and 3"),
        (lambda t: t.activate("parse", 4), "parse", "active replicas must be between 1 and 3"),
        (lambda t: t.activate("nowhere", 1), "nowhere", "no such edge"),
        (lambda t: t.declare("new", 0), "new", "a pool of 0 tasks"),
        (lambda t: t.declare("new", 2, [1]), "new", "1 weights for a pool of 2 tasks"),
        (lambda t: t.declare("new", 9, slots=8), "new", "9 tasks cannot share a ring of 8"),
    ],
)
def test_a_change_that_cannot_be_is_refused_by_edge_and_reason(change, edge, reason):
    table = a_table()
    text = table.to_json()
    with pytest.raises(RouteError) as refused:
        change(table)
    assert refused.value.edge == edge
    assert reason in refused.value.reason
    assert f"'{edge}'" in str(refused.value)
    assert reason in str(refused.value)
    assert table.to_json() == text


def test_an_empty_table_says_that_there_are_no_edges():
    with pytest.raises(RouteError, match="edges with a route are: none"):
        RouteTable().route("parse")


@settings(deadline=None)
@given(tables())
def test_a_table_comes_back_from_json_as_it_was(table):
    assert RouteTable.from_json(table.to_json()) == table


def test_every_truncation_of_a_table_is_refused():
    text = RouteTable().declare("parse", 2, slots=4).to_json()
    for length in range(len(text)):
        with pytest.raises(RouteError):
            RouteTable.from_json(text[:length])


def as_text(**changes):
    table = {"format": FORMAT, "version": 3, "edges": {"parse": {"pool": 2, "ring": [0, 1]}}}
    return json.dumps(table | changes)


def test_the_text_that_the_refusals_below_change_is_itself_a_table():
    assert RouteTable.from_json(as_text()) == RouteTable(3, {"parse": Route(2, (0, 1))})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read"),
        ("   ", "cannot be read"),
        ("null", "not a JSON object"),
        ("[]", "not a JSON object"),
        ('"routes"', "not a JSON object"),
        ("{}", "format None"),
        (as_text(format=FORMAT + 1), f"has format {FORMAT + 1}, this release reads {FORMAT}"),
        (as_text(edges=None), "cannot be read"),
        (as_text(edges=[1]), "cannot be read"),
        (as_text(version=None), "cannot be read"),
        (as_text(version="new"), "cannot be read"),
        (as_text(version=float("inf")), "cannot be read"),
        (as_text(version=-1), "its version is not a whole number from 0 to"),
        (as_text(version=2**63), "its version is not a whole number from 0 to"),
        (as_text(version=1.0), "its version is not a whole number from 0 to"),
        ("[" * 100_000, "cannot be read"),
        (as_text(version=1).replace('"version": 1', '"version": ' + "9" * 5000), "cannot be read"),
        (as_text(edges={"parse": {"pool": 10**9, "ring": [0]}}), "at most 100000 tasks"),
        (as_text(edges={"parse": 5}), "cannot be read"),
        (as_text(edges={"parse": {"pool": 2}}), "cannot be read"),
        (as_text(edges={"parse": {"pool": 2, "ring": 7}}), "cannot be read"),
        (as_text(edges={"parse": {"pool": 2, "ring": []}}), "outside 0 to 1"),
        (as_text(edges={"parse": {"pool": 2, "ring": [0, 2]}}), "outside 0 to 1"),
        (as_text(edges={"parse": {"pool": 2, "ring": [-1, 0]}}), "outside 0 to 1"),
        (as_text(edges={"parse": {"pool": 2, "ring": [0, 0.5]}}), "not all whole numbers"),
        (as_text(edges={"parse": {"pool": 2, "ring": [0, None]}}), "not all whole numbers"),
        (as_text(edges={"parse": {"pool": float("inf"), "ring": [0]}}), "not all whole numbers"),
        (as_text(edges={"parse": {"pool": "2", "ring": [0, 1]}}), "not all whole numbers"),
    ],
)
def test_a_text_that_is_no_table_is_refused_with_its_reason(text, reason):
    with pytest.raises(RouteError) as refused:
        RouteTable.from_json(text)
    assert reason in refused.value.reason


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(anything, anything, anything)
def test_whatever_stands_in_the_file_it_is_a_table_or_a_route_error(version, pool, ring):
    text = as_text(version=version, edges={"parse": {"pool": pool, "ring": ring}})
    try:
        table = RouteTable.from_json(text)
    except RouteError:
        return
    assert sum(table.edges["parse"].counts) == len(table.edges["parse"].ring)


def test_a_ratio_is_read_from_text():
    assert parse_ratio("parse", "7:3:0.5") == [7.0, 3.0, 0.5]


@pytest.mark.parametrize("text", ["", "7:", "a:b", "7,3"])
def test_a_text_that_is_no_ratio_is_refused(text):
    with pytest.raises(RouteError, match=r"'parse'.*is not a ratio"):
        parse_ratio("parse", text)


def test_restoring_brings_back_only_what_is_lacking_under_a_newer_version():
    good = RouteTable().declare("one", pool=2).declare("two", pool=3)
    changed = RouteTable().declare("one", pool=2).split("one", [1, 0])
    restored = changed.restore(good)
    assert restored.edges["one"] == changed.edges["one"]
    assert restored.edges["two"] == good.edges["two"]
    assert restored.version == 3
    assert restored.restore(good) is restored
