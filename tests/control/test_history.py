"""Recordings: setups survive JSON, samples become worlds, worlds become advice, and the progress of wishes is known."""

import json
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.control.actions.registry import Quarantine, SetReplicas, SetSplit
from foretide.control.decisions.decision import Contest, Decision, Effect, Intervention, Wish, from_json, to_json
from foretide.control.decisions.effects import merge_effects
from foretide.control.decisions.explain import progress_of_wishes
from foretide.control.history import RecordedForecasts, RecordedWorld, advice, replay, worlds
from foretide.control.policies.bypass import Bypass
from foretide.control.policies.hot_keys import HotKeys, HotKeySettings
from foretide.control.policies.replicas import Replicas
from foretide.control.simulation.query import SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.step import Control, step
from foretide.control.world.setup import Observed, OperatorSetup, Setup, Target
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts, World
from foretide.errors import CodecError
from foretide.joins.plan import JoinPlan, JoinView, KeyGrid, KeyLoad, TailLoad
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Fading
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

names = st.text(min_size=1, max_size=5)
weights = st.lists(st.floats(0, 9), max_size=4).map(tuple)
hashes = st.integers(-(2**31), 2**31 - 1)
plans = st.builds(
    JoinPlan, st.dictionaries(hashes, st.sampled_from([KeyGrid(((0, 1),)), KeyGrid(((2,), (3,)))]), max_size=2)
)
setups = st.builds(
    Setup,
    names,
    st.lists(
        st.builds(OperatorSetup, names, st.integers(1, 9), st.none() | names, st.booleans(), st.booleans()), max_size=3
    ).map(tuple),
    st.lists(st.tuples(names, names), max_size=3).map(tuple),
    st.sampled_from(["micro-batch", "pipeline"]),
    st.integers(1, 9),
    st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.floats(0, 9),
    st.booleans(),
    st.frozensets(names, max_size=3),
)
seen = st.builds(
    Observed,
    st.dictionaries(names, weights, max_size=3),
    st.none() | st.integers(0, 99),
    st.dictionaries(names, names, max_size=3),
    st.frozensets(names, max_size=3),
    st.frozensets(names, max_size=3),
    st.frozensets(names, max_size=3),
    st.dictionaries(names, st.none() | st.integers(1, 99), max_size=3),
    st.dictionaries(names, st.lists(st.none() | names, max_size=3).map(tuple), max_size=3),
    st.none() | st.integers(1, 9),
    st.dictionaries(names, st.integers(1, 9), max_size=3),
    st.none() | names,
    st.dictionaries(names, plans, max_size=2),
)
targets = st.builds(Target, st.none() | st.floats(1, 9), st.floats(0, 0.9), st.just("p95"), st.none() | st.just(4))
loads = st.lists(st.builds(KeyLoad, hashes, st.floats(0, 1e9), st.floats(0, 1e9)), max_size=2).map(tuple)
views = st.builds(
    JoinView,
    names,
    st.integers(1, 9),
    keys=loads,
    tail=st.lists(st.builds(TailLoad, st.floats(0, 9), st.floats(0, 9)), max_size=2).map(tuple),
    forecast=loads,
    imbalance=st.none() | st.floats(0, 9),
    rows=st.none() | st.just((1, 2)),
    plan=plans,
    pending=st.none() | plans,
    problem=st.none() | names,
    forecast_by=names,
    names=st.dictionaries(hashes, names, max_size=2),
)
records = st.builds(
    RecordedWorld,
    st.floats(0, 1e10),
    setups,
    targets,
    seen,
    st.lists(names, max_size=2).map(tuple),
    st.dictionaries(names, views, max_size=2),
)

SETUP = Setup(
    "q",
    (OperatorSetup("read", pool=2, spout=True), OperatorSetup("parse", pool=4, edge="parse")),
    flows=(("read", "parse"),),
)
RECORDED = RecordedWorld(0.0, SETUP)


@settings(max_examples=40)
@given(records)
def test_a_setup_survives_json_whatever_is_in_it(record):
    assert from_json(RecordedWorld, to_json(record)) == record


@settings(max_examples=100)
@given(records, st.data())
def test_a_damaged_setup_is_refused_by_one_kind_of_error(record, data):
    text = to_json(record)
    place = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:place] + data.draw(st.sampled_from(["", "x", "0", '"', "null", "-1"])) + text[place + 1 :]
    try:
        from_json(RecordedWorld, damaged)
    except CodecError:
        return


@pytest.mark.parametrize(
    "change",
    [{"setup": None}, {"policies": [1]}, {"observed": {"executors": {"1": None}}}, {"target": {"budget": 0.5}},
     {"setup": {"query": "q", "operators": [{"name": "a", "pool": 0}]}}, {"format": 2}, {"at": "soon"}],
)  # fmt: skip
def test_what_has_another_type_or_makes_no_sense_is_refused(change):
    with pytest.raises(CodecError):
        from_json(RecordedWorld, json.dumps({**json.loads(to_json(RECORDED)), **change}))


# ---- samples to worlds


def batch(at, number, **figures):
    made = [Sample("batch", "q", at, float(number))]
    for metric, by_subject in figures.items():
        made += [Sample(metric, subject, at, float(value)) for subject, value in by_subject.items()]
    return made


def test_every_batch_is_a_world_with_the_newest_figure_of_everything():
    cpu = partial(Sample, "worker_heap_bytes", "1")
    samples = [cpu(9.0, 5.0), *batch(10.0, 1, lag={"read": 3}), cpu(12.0, 6.0), *batch(20.0, 2), cpu(21.0, 7.0)]
    made = list(worlds([RECORDED], samples))
    assert [(world.at, world.batch) for world in made] == [(10.0, 1), (20.0, 2)]
    assert [world.snapshot.value("worker_heap_bytes", "1") for world in made] == [5.0, 6.0]
    assert made[1].snapshot.value("lag", "read") == 3.0
    assert made[1].snapshot.value("lag", "read", within=5.0) is None


def test_smoothed_metrics_are_smoothed_as_they_were_live():
    samples = [*batch(10.0, 1, arrival_rate={"read": 8}), *batch(20.0, 2, arrival_rate={"read": 16})]
    smooth = list(worlds([RECORDED], samples, smoothing={"arrival_rate": Fading}))
    assert [world.snapshot.value("arrival_rate", "read") for world in smooth] == [8.0, 12.0]


def test_routes_are_what_was_recorded_for_the_version_that_a_batch_read_and_else_what_tasks_got():
    known = Observed(routes={"parse": (3.0, 1.0, 0.0, 0.0)}, route_version=7)
    rows = {"parse/0": 5, "parse/1": 5, "parse/2": 6, "strange": 1}
    samples = [
        *batch(10.0, 1),
        *batch(20.0, 2, route_version={"q": 7}, task_rows=rows),
        *batch(30.0, 3, route_version={"q": 8}, task_rows=rows),
        *batch(40.0, 4, route_version={"q": 8}, task_rows={"parse/3": 2}),
        *batch(50.0, 5, route_version={"q": 8}),
    ]
    made = [world.observed.routes["parse"] for world in worlds([replace(RECORDED, observed=known)], samples)]
    assert made[:2] == [(3.0, 1.0, 0.0, 0.0)] * 2
    assert made[2:] == [(5.0, 5.0, 6.0, 0.0), (0.0, 0.0, 0.0, 2.0), (0.0, 0.0, 0.0, 2.0)]
    bare = next(iter(worlds([RECORDED], samples)))
    assert bare.observed.routes == {"parse": (1.0,) * 4}
    assert bare.observed.pools == {"parse": 4}


def test_workers_are_alive_while_there_are_samples_of_them():
    known = Observed(executors={"1": "h1", "9": "h9"}, quarantined=frozenset("1"))
    recorded = replace(RECORDED, observed=known)
    samples = [
        *batch(10.0, 1), *batch(20.0, 2, worker_heap_bytes={"1": 1, "2": 1}),
        *batch(90.0, 3, worker_heap_bytes={"2": 1}),
    ]  # fmt: skip
    made = [world.observed for world in worlds([recorded], samples)]
    assert [each.executors for each in made] == [{"1": "h1", "9": "h9"}, {"1": "h1", "2": "2"}, {"2": "2"}]
    assert made[1].in_service == {"2"}


def test_each_setup_holds_until_the_next_and_a_target_of_ones_own_goes_before():
    later = replace(RECORDED, at=15.0, target=Target(3.0))
    samples = [*batch(10.0, 1), *batch(15.0, 2), *batch(20.0, 3)]
    assert [world.target.latency for world in worlds([RECORDED, later], samples)] == [None, 3.0, 3.0]
    assert {world.target.latency for world in worlds([RECORDED, later], samples, target=Target(9.0))} == {9.0}


def test_a_replay_of_recorded_samples_decides_what_the_loop_decides_on_the_live_worlds():
    network = Network(
        (Operator("read", 100_000.0), Operator("parse", 500.0)), (Flow("read", "parse", 1.0),), {"read": 1000.0}
    )
    scenario = ControlScenario(
        network,
        pools={"read": 4, "parse": 16},
        replicas={"parse": 4},
        slow_executors=(SlowExecutor("2", 20.0, start=30.0),),
    )
    query = SimulatedQuery(scenario, RowLoad([400.0] * 60 + [2500.0] * 60))
    control = Control((Bypass(), Replicas()), mode="advise")
    state, live, samples = control.start(), [], []
    while query.run() is not None:
        snapshot = query.snapshot()
        samples += [sample for sample in snapshot.samples() if sample.at == snapshot.at]
        world = World(scenario.setup(), snapshot, query.observed())
        state, decision = step(control, state, world)
        live.append(decision)
    recorded = RecordedWorld(0.0, scenario.setup(), observed=query.observed())
    again = list(replay(control, worlds([recorded], sorted(samples, key=lambda sample: sample.at))))
    assert len(again) == len(live) > 50
    assert [each.actions for each in again] == [each.actions for each in live]
    assert {type(action) for each in again for action in each.actions} == {Quarantine, SetReplicas}


def test_a_replay_plans_joins_by_what_was_recorded_of_them_window_by_window():
    hot = JoinView("clicks", 4, windows=1, keys=(KeyLoad(13, 100.0, 100.0),), tail=(TailLoad(25.0, 25.0),) * 4)
    later = replace(hot, windows=2, rows=(1, 2, 3, 4), names={13: "shoes", 14: "hats"})
    assert later.of_its_window() == replace(hot, windows=2, names={13: "shoes"}), "without what each batch changes"
    recorded = [RecordedWorld(0.0, SETUP), RecordedWorld(10.0, SETUP, joins={"clicks": later.of_its_window()})]
    samples = [Sample("batch", "q", at, at) for at in (5.0, 15.0, 25.0)]
    control = Control((HotKeys(HotKeySettings(choice="last-window")),), mode="advise")
    first, second, third = replay(control, worlds(recorded, samples))
    assert first.wishes == third.wishes == ()
    assert [wish.action.plan.grids for wish in second.wishes] == [{13: KeyGrid(((0, 1), (2, 3)))}]
    assert "shoes into 2 x 2" in second.wishes[0].reason


# ---- advice, effects, progress


def wish(action, policy="replicas"):
    return Wish(policy, action, "because")


def decided(number, *wishes, **more):
    return Decision(number, float(number), "q", wishes=wishes, chosen=wishes, **more)


def test_advice_that_is_repeated_counts_once():
    four, six, out = wish(SetReplicas("parse", 4)), wish(SetReplicas("parse", 6)), wish(Quarantine("3"))
    said = advice(
        [decided(1, four), decided(2), decided(3, four), decided(4, four, out), decided(5, six), decided(6, out)]
    )
    assert [(each.decision.id, each.times, each.last) for each in said] == [(1, 2, 3.0), (4, 2, 6.0), (5, 1, 5.0)]


def test_effects_reach_only_decisions_that_are_kept():
    effect = Effect(1, "worse", "latency doubled")
    later = Decision(2, 2.0, "q", effects_of_earlier=(effect, replace(effect, decision=9)))
    assert merge_effects(later, {1: decided(1)}) == {1: decided(1).with_effect(effect), 2: later}


def test_the_progress_of_a_wish_tells_planned_requested_and_observed_apart():
    wanted, allowed = wish(SetReplicas("parse", 9)), wish(SetReplicas("parse", 8))
    late = wish(SetReplicas("count", 2), "reactive")
    lost = wish(SetSplit("parse", (1.0, 2.0)), "bypass")
    decision = Decision(
        1, 0.0, "q",
        wishes=(wanted, late, lost),
        chosen=(allowed,),
        contests=(Contest("replicas", lost, "edge parse"),),
        guards=(
            Intervention("bounds", "replicas", wanted.action, allowed.action, "bounds are 1 to 8"),
            Intervention("cooldown", "reactive", late.action, None, "too early"),
        ),
    )  # fmt: skip
    first, second, third = progress_of_wishes(decision)
    assert (first.planned, first.requested, first.observed) == (
        "use 9 replicas behind edge 'parse' (replicas)", "use 8 replicas behind edge 'parse'", "not known yet",
    )  # fmt: skip
    assert second.requested == "nothing: cooldown: too early"
    assert third.requested == "nothing: replicas has precedence"
    assert progress_of_wishes(replace(decision, mode="advise"))[0].requested.startswith("nothing: advice only")
    for effect, observed in [
        (Effect(1, "better", "x", in_force_after=1.25), "after 1.25 s"),
        (Effect(1, "never observed", "x"), "never"),
        (Effect(1, "unclear", "x"), "not before the next decision"),
    ]:
        assert progress_of_wishes(decision.with_effect(effect))[0].observed == observed


# ---- forecasts


def forecasts_of(value):
    points = (ForecastPoint(10.0, value), ForecastPoint(30.0, value + 200.0))
    return Forecasts({("arrival_rate", "read"): Forecast("m", points)})


def test_a_batch_has_the_forecasts_of_the_cycle_that_followed_it_or_older_ones_shifted():
    setup = RecordedWorld(0.0, Setup("q", ()))
    samples = [Sample("batch", "q", at, at) for at in (100.0, 110.0, 120.0, 400.0)]
    made = [RecordedForecasts.of(at, forecasts_of(value)) for at, value in ((100.5, 1000.0), (110.5, 2000.0))]
    found = list(worlds([setup], samples, made))
    assert [world.at for world in found] == [100.0, 110.0, 120.0, 400.0]
    points = [[point.mean for point in world.forecasts.by_series["arrival_rate", "read"].points] for world in found[:3]]
    assert points == [[1000.0, 1200.0], [2000.0, 2200.0], [pytest.approx(2095.0), 2200.0]]
    assert found[3].forecasts == Forecasts()


def test_a_replay_judges_recorded_forecasts_as_the_live_loop_did():
    """Each cycle of a live run and of its replay trusts the same forecasts and decides the same."""
    scenario = ControlScenario(
        Network((Operator("read", 1e5), Operator("parse", 500.0)), (Flow("read", "parse", 1.0),), {"read": 1000.0}),
        pools={"read": 4, "parse": 16},
        replicas={"parse": 4},
    )
    query, control = (
        SimulatedQuery(scenario, RowLoad([400.0 + 4 * second for second in range(400)])),
        Control((Replicas(),)),
    )
    state, live, samples, made, setups = control.start(), [], [], [], []
    control = replace(control, mode="advise")
    while query.run() is not None:
        snapshot = query.snapshot()
        rate = snapshot.value("arrival_rate", "read")
        ahead = Forecasts({("arrival_rate", "read"): Forecast("m", (ForecastPoint(10.0, rate + 40.0),))})
        seen = World(scenario.setup(), snapshot, query.observed(), ahead)
        samples += [each for each in snapshot.samples() if each.at == snapshot.at]
        setups.append(RecordedWorld(snapshot.at, scenario.setup(), observed=seen.observed))
        made.append(RecordedForecasts.of(snapshot.at + 0.01, ahead))
        state, decision = step(control, state, seen)
        live.append(decision)
    again = list(replay(control, worlds(setups, samples, made)))
    trusted = [bool(decision.forecasts) for decision in live]
    assert trusted == [bool(decision.forecasts) for decision in again]
    assert trusted == sorted(trusted)
    assert trusted.count(True) > trusted.count(False) > 0
    assert [decision.actions for decision in live] == [decision.actions for decision in again]
    without = list(replay(control, worlds(setups, samples)))
    assert [decision.actions for decision in without] != [decision.actions for decision in live]
