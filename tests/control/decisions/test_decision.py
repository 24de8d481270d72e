"""Decisions survive a trip through JSON, and can be explained."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.control.actions.registry import (
    Quarantine,
    QuarantineHost,
    Release,
    ReleaseHost,
    Restart,
    SetAdmission,
    SetExecutors,
    SetJoinPlan,
    SetReplicas,
    SetSplit,
)
from foretide.control.decisions.decision import (
    Contest,
    Decision,
    Effect,
    Expectation,
    Fact,
    Intervention,
    Wish,
    from_json,
    to_json,
)
from foretide.control.decisions.explain import Part, explain, heading, in_unit, summary
from foretide.errors import CodecError
from foretide.joins.plan import JoinPlan, KeyGrid

names = st.text(min_size=1, max_size=8)
grids = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=3).map(tuple)
plans = st.builds(
    JoinPlan, st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.builds(KeyGrid, grids), max_size=3), st.floats(0, 9)
)
numbers = st.floats(allow_nan=False)
actions = st.one_of(
    st.builds(SetSplit, names, st.lists(st.floats(0.01, 9), min_size=1, max_size=5).map(tuple)),
    st.builds(SetReplicas, names, st.integers(1, 99)),
    *(st.builds(kind, names) for kind in (Quarantine, Release, QuarantineHost, ReleaseHost)),
    st.builds(SetExecutors, st.integers(1, 99)),
    st.builds(SetAdmission, names, st.none() | st.integers(1, 10**12)),
    st.builds(SetJoinPlan, names, plans),
    st.builds(
        Restart,
        names,
        state_partitions=st.integers(1, 99),
        pools=st.dictionaries(names, st.integers(1, 9), max_size=3),
        order=st.none() | names,
    ),
)
facts = st.builds(Fact, names, names, numbers, numbers, st.none() | names, st.none() | numbers)
wishes = st.builds(
    Wish, names, actions, names, st.none() | st.builds(Expectation, names, st.none() | names, st.none() | numbers)
)
effects = st.builds(
    Effect,
    st.integers(1, 99),
    st.sampled_from(["better", "worse", "no clear change", "unclear", "never observed"]),
    *(names, st.none() | names, st.none() | numbers, st.none() | numbers, st.none() | numbers),
)
decisions = st.builds(
    Decision,
    id=st.integers(1, 10**9),
    at=st.floats(0, 1e10),
    query=names,
    mode=st.sampled_from(["act", "advise"]),
    seen=st.lists(facts, max_size=3).map(tuple),
    forecasts=st.lists(facts, max_size=3).map(tuple),
    wishes=st.lists(wishes, max_size=3).map(tuple),
    chosen=st.lists(wishes, max_size=3).map(tuple),
    contests=st.lists(st.builds(Contest, names, wishes, names), max_size=2).map(tuple),
    guards=st.lists(st.builds(Intervention, names, names, actions, st.none() | actions, names), max_size=2).map(tuple),
    problems=st.lists(names, max_size=2).map(tuple),
    effects_of_earlier=st.lists(effects, max_size=2).map(tuple),
    effect=st.none() | effects,
)


@settings(max_examples=40)
@given(decisions)
def test_a_decision_survives_json_whatever_is_in_it(decision):
    assert from_json(Decision, to_json(decision)) == decision


@settings(max_examples=40)
@given(decisions)
def test_every_decision_can_be_explained(decision):
    assert heading(decision).startswith(f"Decision {decision.id} ")
    assert all(part.label and part.text for part in explain(decision))
    assert summary(decision)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"format": 1}',
        '{"format": 99}',
        '{"format":1,"id":1,"at":1,"query":"q","mode":"x"}',
        pytest.param(f'{{"format":1,"id":1,"at":{10**400},"query":"q"}}', id="too-large"),
    ],
)
def test_a_damaged_decision_is_refused(text):
    with pytest.raises(CodecError):
        from_json(Decision, text)


def test_an_explanation_says_everything_in_order():
    wanted = Wish("replicas", SetReplicas("parse", 9), "3,000 tuples/s are expected", Expectation("batches below 1 s"))
    final = Wish("replicas", SetReplicas("parse", 8), "3,000 tuples/s are expected", Expectation("batches below 1 s"))
    decision = Decision(
        7,
        0.0,
        "q",
        seen=(Fact("latency_p99_ms", "q", 13_820.0),),
        forecasts=(Fact("arrival_rate", "read", 3000.0, by="ewma", ahead=30.0),),
        wishes=(wanted, Wish("reactive", SetReplicas("parse", 4), "busy")),
        chosen=(final,),
        contests=(Contest("replicas", Wish("reactive", SetReplicas("parse", 4), "busy"), "edge parse"),),
        guards=(Intervention("bounds", "replicas", wanted.action, final.action, "1 to 8"),),
        effect=Effect(7, "better", "latency_p99_ms went from 900 to 400: better", in_force_after=1.5),
    )
    use = "behind edge 'parse'"
    assert list(explain(decision)) == [
        Part("Seen", "latency_p99_ms of 'q': 13,820 ms"),
        Part("Forecast", "arrival_rate of 'read': 3,000 tuples/s in 30 s (by ewma)"),
        Part("Wanted", f"use 9 replicas {use} (replicas), because 3,000 tuples/s are expected"),
        Part("Wanted", f"use 4 replicas {use} (reactive), because busy"),
        Part("Overruled", f"'use 4 replicas {use}' (reactive): replicas has precedence on edge parse"),
        Part("Changed by guards", f"'use 9 replicas {use}' (replicas) became 'use 8 replicas {use}' by bounds: 1 to 8"),
        Part("Chosen", f"use 8 replicas {use} (replicas), from the next batch on"),
        Part("Expected", "batches below 1 s"),
        Part("Achieved", "latency_p99_ms went from 900 to 400: better, in force after 1.5 s"),
    ]
    assert decision.actions == (SetReplicas("parse", 8),)


def test_the_summary_of_a_stopped_wish_names_the_guard():
    stopped = Intervention("cooldown", "replicas", SetReplicas("parse", 2), None, "too early")
    assert summary(Decision(1, 0.0, "q", guards=(stopped,))) == (
        "nothing: cooldown stopped 'use 2 replicas behind edge 'parse''"
    )
    assert summary(Decision(1, 0.0, "q")) == "nothing to do"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0"), (-3.0, "-3"), (13_820.4, "13,820"), (1_250_000.0, "1,250,000"), (99.996, "100"), (2.5, "2.5")),
        *((0.0123, "0.0123"), (1e-7, "< 0.000001"), (float("inf"), "unlimited"), (1e300, "over 1,000,000,000,000,000")),
    ],
)
def test_numbers_are_written_as_people_write_them(value, text):
    assert in_unit(None, value) == text


def test_figures_have_their_unit_and_shares_of_time_are_in_percent():
    assert in_unit("latency_p99_ms", 3126.4) == "3,126 ms"
    assert in_unit("skew", 1.25) == "1.25"
    assert in_unit("utilization", 0.001401) == "0.14%"
