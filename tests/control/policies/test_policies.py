"""Replicas, processors, admission, reactive and static, on worlds made by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.worlds import SETUP, loaded, observed, world
from foretide.control.actions.registry import SetAdmission, SetReplicas
from foretide.control.policies.admission import Admission, AdmissionSettings
from foretide.control.policies.baselines import Reactive, ReactiveSettings, Static
from foretide.control.policies.processors import Processors, ProcessorSettings
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.control.step import Control, step
from foretide.control.world.measured import NotYet, arrivals, batch_observation, network
from foretide.control.world.outlook import planned_load, planned_quantile
from foretide.control.world.setup import Setup, Target
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.errors import SettingsError
from foretide.queueing.learned_batches import StageObservation
from foretide.queueing.network import Network

PIPELINE = replace(SETUP, mode="pipeline")


def replicas_wished(wishes):
    return {wish.action.edge: wish.action.replicas for wish in wishes if isinstance(wish.action, SetReplicas)}


# ---- what is measured


def test_a_network_is_made_of_what_was_measured():
    made = network(loaded(1000.0, service_scv={"parse": 0.5}))
    assert isinstance(made, Network)
    assert made.arrival_rates == {"read": 1000.0, "parse": 1000.0, "count": 1000.0}
    assert made.operator("parse").service_rate == 500.0
    assert made.operator("parse").service_scv == 0.5


@pytest.mark.parametrize("metric", ["arrival_rate", "service_time_ms", "flow_fraction"])
def test_what_is_missing_is_said_and_not_guessed(metric):
    made = network(loaded(**{metric: {}}))
    assert isinstance(made, NotYet)
    assert metric in str(made)


def test_figures_too_old_are_not_known():
    from foretide.metrics.snapshot import Snapshot

    seen = loaded()
    old = replace(seen, snapshot=Snapshot(seen.at + 500, "q", seen.snapshot.figures))
    assert isinstance(network(old), NotYet)


def test_an_only_reader_gets_what_is_emitted_when_flows_are_not_known():
    made = network(loaded(flow_fraction={}, selectivity={"read": 2.0, "parse": 0.5}))
    assert made.arrival_rates == {"read": 1000.0, "parse": 2000.0, "count": 1000.0}


def test_more_that_is_foreseen_is_planned_for():
    looks = Forecasts({("arrival_rate", "read"): Forecast("m", (ForecastPoint(30.0, 4000.0, {0.9: 5000.0}),))})
    assert planned_load(loaded(forecasts=looks), (0.0, 30.0)).rates == {"read": 4000.0}
    assert planned_load(loaded(forecasts=looks), (0.0, 30.0), planned_quantile(9.0)).rates == {"read": 5000.0}
    assert planned_load(loaded(forecasts=looks), None).rates == {"read": 1000.0}
    assert arrivals(loaded(forecasts=looks)) == {"read": 1000.0}


def test_a_batch_is_observed_once_all_of_it_is_known():
    tasks = {"active_tasks": {"read": 2, "parse": 4, "count": 4}}
    batch = batch_observation(loaded(**tasks))
    assert (batch.rows, batch.seconds, batch.cores) == (1000.0, 1.0, 16)
    assert batch.stages["parse"] == StageObservation(1000.0, 4, pytest.approx(1.2), pytest.approx(0.3))
    assert batch_observation(world()) is None
    assert batch_observation(loaded()) is None


def test_tasks_that_were_read_in_an_earlier_batch_say_nothing_of_the_last_one():
    seen = loaded(active_tasks={"read": 2, "parse": 4, "count": 4})
    value, at = seen.snapshot.figures["capacity", "parse"]
    older = {**seen.snapshot.figures, ("capacity", "parse"): (value, at - 1.0)}
    assert "parse" not in batch_observation(replace(seen, snapshot=replace(seen.snapshot, figures=older))).stages


# ---- replicas


def test_replicas_follow_the_load_that_is_foreseen():
    looks = Forecasts({("arrival_rate", "read"): Forecast("m", (ForecastPoint(30.0, 3000.0),))})
    pipeline = {"setup": PIPELINE}
    _, now = Replicas().wish(Replicas().start(), loaded(1000.0, **pipeline))
    _, ahead = Replicas().wish(Replicas().start(), loaded(1000.0, forecasts=looks, **pipeline))
    assert replicas_wished(now) == {"parse": 3, "count": 3}  # 1000/s * 2 ms = 2 at work, 80 % of the time
    assert replicas_wished(ahead) == {"parse": 8, "count": 8}
    assert "3,000 tuples/s are expected" in ahead[0].reason


def test_in_real_time_replicas_are_planned_beside_an_operator_whose_work_nobody_can_measure():
    operators = tuple(replace(part, stateful=True, edge=None) if part.name == "count" else part
                      for part in PIPELINE.operators)  # fmt: skip
    seen = loaded(1000.0, setup=replace(PIPELINE, operators=operators), service_time_ms={"read": 1e-4, "parse": 2.0})
    _, wishes = Replicas().wish(Replicas().start(), seen)
    assert replicas_wished(wishes) == {"parse": 3}


def test_stages_that_take_turns_need_more_replicas():
    _, wishes = Replicas().wish(Replicas().start(), loaded(1000.0))
    assert replicas_wished(wishes) == {"parse": 6, "count": 6}  # half of the time each: 2 / (0.8 / 2), rounded up


@given(st.floats(1, 5000), st.floats(0.01, 3), st.floats(0.01, 3))
def test_the_stages_of_a_batch_fit_into_the_time_whenever_the_pools_allow(rate, parse, count):
    seen = loaded(rate, service_time_ms={"read": 1e-4, "parse": parse, "count": count})
    _, wishes = Replicas().wish(Replicas().start(), seen)
    wished = replicas_wished(wishes)
    busy = rate * (parse / wished["parse"] + count / wished["count"] + 1e-4 / 4) / 1000
    if max(wished.values()) < 16:
        assert busy <= 0.8 + 1e-6


def test_replicas_are_planned_once_a_period():
    state, first = Replicas().wish(Replicas().start(), loaded(at=1000.0))
    same, second = Replicas().wish(state, loaded(at=1029.0))
    assert first
    assert (same, second) == (state, [])


def test_a_sudden_change_is_looked_at_once_more_and_then_believed():
    state, _ = Replicas().wish(Replicas().start(), loaded(500.0, at=1000.0))
    state, halfway = Replicas().wish(state, loaded(1000.0, at=1030.0))
    state, whole = Replicas().wish(state, loaded(1500.0, at=1035.0))
    assert halfway == []
    assert "1,500 tuples/s" in whole[0].reason


def test_replicas_are_planned_again_after_a_period():
    state, _ = Replicas().wish(Replicas().start(), loaded(at=1000.0))
    assert Replicas().wish(state, loaded(at=1030.0))[1]


def test_a_backlog_adds_one_replica_at_most_unless_the_paper_is_followed():
    lagging = {"lag": {"read": 200_000.0}, "setup": PIPELINE}
    _, bounded = Replicas().wish(Replicas().start(), loaded(1000.0, **lagging))
    assert replicas_wished(bounded) == {"parse": 4, "count": 4}
    paper = Replicas(ReplicaSettings(max_backlog_replicas=None))
    _, wishes = paper.wish(paper.start(), loaded(1000.0, **lagging))
    assert replicas_wished(wishes) == {"parse": 16, "count": 16}


def test_what_arrives_during_an_ordinary_batch_is_no_backlog():
    lagging = {"lag": {"read": 1000.0}, "service_time_ms": {"read": 0.01, "parse": 1.0, "count": 3.99}}
    _, wishes = Replicas().wish(Replicas().start(), loaded(1000.0, **lagging))
    assert "backlog" not in wishes[0].reason
    _, wishes = Replicas().wish(Replicas().start(), loaded(1000.0, **lagging, setup=PIPELINE))
    assert "with a backlog of 1,000" in wishes[0].reason  # in real time all that waits is one


def test_queues_between_operators_count_once_where_they_are():
    policy = Replicas(ReplicaSettings(period=5.0, max_backlog_replicas=None))
    waiting = {"in_flight": {"parse": 2000.0, "count": 1000.0}, "lag": {"read": 500.0}, "setup": PIPELINE}
    _, wishes = policy.wish(policy.start(), loaded(1000.0, **waiting))
    assert ["2,500" in wishes[0].reason, "3,500" in wishes[1].reason] == [True, True]
    assert replicas_wished(wishes) == {"parse": 4, "count": 5}  # (5,000 + 2,500) * 2 ms / 80 % in 5 s, and 8,500


def test_a_loop_brings_its_tuples_again():
    setup = replace(PIPELINE, flows=(*SETUP.flows, ("count", "parse")))
    fractions = {"read->parse": 1.0, "parse->count": 1.0, "count->parse": 0.5}
    seen = loaded(1000.0, setup=setup, flow_fraction=fractions)
    _, wishes = Replicas().wish(Replicas().start(), seen)
    assert replicas_wished(wishes) == {"parse": 5, "count": 5}  # each tuple comes by twice: 4 at work, 80 % of the time
    chain = Replicas().wish(Replicas().start(), loaded(2000.0, setup=PIPELINE))[1]
    assert replicas_wished(chain) == replicas_wished(wishes)
    waiting = loaded(1000.0, setup=setup, flow_fraction=fractions, lag={"read": 50_000.0})
    assert replicas_wished(Replicas().wish(Replicas().start(), waiting)[1]) == {"parse": 6, "count": 6}


def test_no_load_needs_one_replica():
    _, wishes = Replicas().wish(Replicas().start(), loaded(0.0))
    assert replicas_wished(wishes) == {"parse": 1, "count": 1}


def test_nothing_is_planned_before_enough_is_known():
    assert Replicas().wish(Replicas().start(), world()) == (Replicas().start(), [])


# ---- reactive and static


def test_reactive_brings_the_metric_to_its_target():
    busy = {"utilization": {"parse": 0.9, "count": 0.35}, "setup": PIPELINE}
    _, wishes = Reactive().wish(Reactive().start(), loaded(**busy))
    assert replicas_wished(wishes) == {"parse": 6, "count": 2}


def test_reactive_leaves_small_differences_alone():
    _, wishes = Reactive().wish(Reactive().start(), loaded(utilization={"parse": 0.76, "count": 0.64}, setup=PIPELINE))
    assert replicas_wished(wishes) == {"parse": 4, "count": 4}


def test_reactive_gives_back_only_what_was_not_recommended_for_a_while():
    policy, wished = Reactive(), []
    state = policy.start()
    for turn, busy in enumerate([0.7, *[0.2] * 25]):
        seen = loaded(at=1000.0 + 15 * turn, utilization={"parse": busy, "count": 0.7}, setup=PIPELINE)
        state, wishes = policy.wish(state, seen)
        wished.append(replicas_wished(wishes)["parse"])
    assert wished[:20] == [4] * 20
    assert wished[20:] == [2] * 6


def test_reactive_looks_at_the_sum_of_the_stages_in_micro_batches():
    _, wishes = Reactive().wish(Reactive().start(), loaded(utilization={"read": 0.0, "parse": 0.6, "count": 0.4}))
    assert replicas_wished(wishes) == {"parse": 6, "count": 6}


def test_reactive_grows_no_faster_than_the_autoscaler():
    policy = Reactive(ReactiveSettings(target_utilization=0.1))
    _, wishes = policy.wish(policy.start(), loaded(utilization={"parse": 1.0, "count": 0.1}, setup=PIPELINE))
    assert replicas_wished(wishes)["parse"] == 8


def test_static_never_wishes_anything():
    assert Static().wish(None, loaded()) == (None, [])
    assert Static().start() is None


# ---- processors


def drs(seen, **settings):
    policy = Processors(ProcessorSettings(**settings))
    return policy.wish(policy.start(), seen)


def test_above_t_max_processors_are_added_and_below_t_min_given_back():
    target = Target(latency=0.02, relaxed=0.008, quantile="mean")
    slow = loaded(1000.0, setup=PIPELINE, target=target, latency_mean_ms=25.0, seen=observed(3, 3))
    _, more = drs(slow)
    assert all(replicas > 3 for replicas in replicas_wished(more).values())
    fast = loaded(1000.0, setup=PIPELINE, target=target, latency_mean_ms=5.0, seen=observed(12, 12))
    _, fewer = drs(fast)
    assert sum(replicas_wished(fewer).values()) < 24
    within = loaded(1000.0, setup=PIPELINE, target=target, latency_mean_ms=10.0, seen=observed(6, 6))
    assert replicas_wished(drs(within)[1]) == {"parse": 6, "count": 6}


def test_a_model_that_is_too_rosy_is_corrected_by_what_is_measured():
    target = Target(latency=0.02, quantile="mean")
    mild = loaded(1000.0, setup=PIPELINE, target=target, latency_mean_ms=21.0, seen=observed(4, 4))
    worse = loaded(1000.0, setup=PIPELINE, target=target, latency_mean_ms=26.0, seen=observed(4, 4))
    assert sum(replicas_wished(drs(worse)[1]).values()) >= sum(replicas_wished(drs(mild)[1]).values())


def test_above_t_max_one_is_added_even_where_the_model_sees_no_way():
    seen = loaded(
        1000.0, setup=PIPELINE, target=Target(latency=0.02, quantile="mean"), latency_mean_ms=500.0, seen=observed(4, 4)
    )
    assert sum(replicas_wished(drs(seen)[1]).values()) == 9


def test_a_model_that_is_too_gloomy_gives_back_one_at_a_time():
    target = Target(latency=0.0055, relaxed=0.004, quantile="mean")
    seen = loaded(1000.0, setup=PIPELINE, target=target, latency_mean_ms=1.0, seen=observed(4, 4))
    _, wishes = drs(seen)
    assert sum(replicas_wished(wishes).values()) == 7


def test_the_budget_is_never_exceeded():
    target = Target(latency=0.0041, relaxed=0.0, budget=13, quantile="mean")  # the spout has 4 of them
    seen = loaded(1000.0, setup=PIPELINE, target=target, latency_mean_ms=50.0, seen=observed(3, 3))
    assert sum(replicas_wished(drs(seen)[1]).values()) <= 9
    tiny = loaded(
        1000.0,
        setup=PIPELINE,
        target=Target(0.0041, quantile="mean", budget=5),
        latency_mean_ms=50.0,
        seen=observed(3, 3),
    )
    assert replicas_wished(drs(tiny)[1]) == {"parse": 3, "count": 3}


def test_t_ra_counts_from_when_an_allocation_was_seen_to_change():
    policy = Processors(ProcessorSettings(min_interval=60, period=0))
    target = Target(latency=0.02, quantile="mean")

    def at(time, state, replicas):
        seen = observed(replicas, replicas)
        return policy.wish(
            state, loaded(1000.0, at=time, setup=PIPELINE, target=target, latency_mean_ms=50.0, seen=seen)
        )

    state, wishes = at(1000.0, policy.start(), 3)
    assert wishes
    state, wishes = at(1010.0, state, 3)
    assert wishes  # not observed yet, so nothing has moved
    state, wishes = at(1020.0, state, 5)
    assert wishes == []
    state, wishes = at(1081.0, state, 5)
    assert wishes


def test_in_a_pipeline_an_unknown_variation_is_said_and_never_guessed():
    target = Target(latency=0.02, quantile="mean")
    options = {"setup": PIPELINE, "target": target, "latency_mean_ms": 50.0, "seen": observed(3, 3)}
    unknown = loaded(1000.0, service_scv={"count": 1.0}, arrival_scv={"parse": 1.0}, **options)
    state, wishes = drs(unknown)
    assert wishes == []
    assert state.waits_for == "not known yet: service_scv of 'parse', arrival_scv of 'count'"
    assert drs(unknown, service_scv=1.0)[1] == []
    _, given = drs(unknown, service_scv=1.0, arrival_scv=1.0)
    _, measured = drs(loaded(1000.0, **options))
    assert given == measured
    assert given
    _, lively = drs(unknown, service_scv=9.0, arrival_scv=1.0)
    assert replicas_wished(given) == {"parse": 6, "count": 6}
    assert replicas_wished(lively) == {"parse": 6, "count": 4}  # more of the wait is explained by what varies


def test_what_is_missing_is_a_problem_of_the_decision_once():
    control = Control((Processors(ProcessorSettings(period=0)),))
    state, problems = control.start(), []
    for at in (1000.0, 1001.0, 1002.0):
        known = {} if at < 1002 else {"service_scv": {"parse": 1.0, "count": 1.0}}
        seen = loaded(at=at, setup=PIPELINE, target=Target(latency=5.0), **{"service_scv": {"parse": 1.0}, **known})
        state, decision = step(control, state, seen)
        problems.append(decision.problems)
    missing = ("policy 'processors' cannot plan: not known yet: service_scv of 'count'",)
    assert problems == [missing, (), ()]


def test_a_quantile_is_compared_with_the_target_by_its_measured_ratio_to_the_mean():
    def wished(quantile, p99):
        target = Target(latency=0.02, quantile=quantile)
        options = {"setup": PIPELINE, "target": target, "latency_mean_ms": 9.0, "latency_p99_ms": p99}
        return drs(loaded(1000.0, seen=observed(4, 4), **options))[1]

    assert replicas_wished(wished("mean", 36.0)) == {"parse": 4, "count": 4}
    above = wished("p99", 36.0)
    assert sum(replicas_wished(above).values()) > 8
    assert "p99 latency is 36 ms, 4.00 times the mean" in above[0].reason
    assert "the model says 8.01 ms where 9 ms are measured (-11%; off by 11% on average over 1 plan)" in above[0].reason
    assert above[0].expected.metric == "latency_p99_ms"
    assert above[0].expected.value < 36
    assert replicas_wished(wished("p99", 18.0)) == {"parse": 4, "count": 4}


def test_a_peak_of_one_plan_such_as_at_the_start_of_a_batch_adds_nothing():
    policy, target = Processors(ProcessorSettings(period=2, min_interval=5)), Target(latency=0.02, quantile="mean")

    def wished(latencies):
        state = policy.start()
        for turn, latency in enumerate(latencies):
            options = {"setup": PIPELINE, "target": target, "seen": observed(4, 4), "latency_mean_ms": latency}
            state, wishes = policy.wish(state, loaded(1000.0, at=1000.0 + 2 * turn, **options))
        return sum(replicas_wished(wishes).values())

    assert wished([9.0, 9.0, 500.0]) == 0
    assert wished([9.0, 9.0, 500.0, 9.0]) == 0
    assert wished([9.0, 9.0, 30.0, 30.0]) > 8


def test_in_a_pipeline_a_target_out_of_reach_is_said_once_with_what_would_be_needed():
    def seen(at, p99, budget=12, rate=1000.0):
        options = {"latency_mean_ms": p99 / 2.5, "latency_p99_ms": p99, "seen": observed(3, 3)}
        return loaded(rate, at=at, setup=PIPELINE, target=Target(latency=0.012, budget=budget), **options)

    control, problems = Control((Processors(ProcessorSettings(period=0, min_interval=0)),)), []
    state = control.start()
    for at, p99 in ((1000.0, 30.0), (1001.0, 30.0), (1002.0, 5.0), (1003.0, 5.0), (1004.0, 5.0)):
        state, decision = step(control, state, seen(at, p99))
        problems.append(decision.problems)
    assert problems[1:] == [()] * 4
    [problem] = problems[0]
    assert problem == (
        "policy 'processors': p99 latency of 12 ms is out of reach: 20 ms is expected with 8 processors, the best that "
        "is allowed; 24 slots for these operators (K_max leaves them 8) would be needed"
    )
    assert state.policies["processors"].notice is None
    assert drs(seen(1000.0, 30.0, budget=None))[0].notice is not None  # K_max is the 16 slots of four executors
    overloaded = drs(seen(1000.0, 30.0, rate=10_000.0))[0].notice
    assert "what is allowed cannot keep up with the load" in overloaded
    assert "a pool of 120 for 'parse' (16 now)" in overloaded


def test_in_a_pipeline_it_is_said_where_no_number_of_processors_would_help():
    target = Target(latency=0.003, quantile="mean")
    late = drs(loaded(setup=PIPELINE, target=target, latency_mean_ms=12.0, seen=observed(3, 3)))[0].notice
    assert late.startswith("mean latency of 3 ms is out of reach: 6 ms is expected with 12 processors")
    assert late.endswith("more would not help: 4 ms would be left if no tuple waited for a processor")


@given(st.floats(100, 3000), st.floats(1, 60), st.integers(2, 8), st.integers(2, 8), st.integers(6, 16))
def test_in_a_pipeline_no_plan_exceeds_pools_or_slots(rate, latency, parse, count, budget):
    target = Target(latency=0.01, quantile="mean", budget=budget)
    seen = loaded(rate, setup=PIPELINE, target=target, latency_mean_ms=latency, seen=observed(parse, count))
    wished = replicas_wished(drs(seen)[1])
    assert all(1 <= replicas <= 16 for replicas in wished.values())
    assert sum(wished.values()) <= max(budget - 4, parse + count)


# ---- admission


NO_TARGET = Target()


def admit(policy, turns, target=NO_TARGET, **figures):
    """Turns of (rows a batch, rate, p99 in ms, limit in force), 60 s apart."""
    state, wished = policy.start(), []
    for turn, (rows, rate, p99, limit) in enumerate(turns):
        seen = world(
            1000.0 + 60 * turn,
            seen=observed(admission={"read": limit}),
            processed={"read": rows},
            input_rows_per_second=rate,
            latency_p99_ms=p99,
            target=target,
            **figures,
        )
        state, wishes = policy.wish(state, seen)
        wished.append([wish.action for wish in wishes])
    return wished


def test_storms_tuner_tries_more_on_its_first_turn_and_goes_back_if_that_brings_nothing():
    turns = [(1000, 500, 900, 1000)] * 3 + [(1250, 500, 900, 1250)] * 2
    wished = admit(Admission(), turns)
    assert wished == [[], [], [SetAdmission("read", 1250)], [], [SetAdmission("read", 1000)]]


def test_the_latency_tuner_cuts_what_is_in_flight():
    policy = Admission(AdmissionSettings(tuner="latency"))
    wished = admit(policy, [(1000, 500, 4000, None)] * 3, Target(latency=2.0))
    assert wished[-1] == [SetAdmission("read", 500)]
    assert admit(policy, [(1000, 500, 4000, None)] * 3)[-1] == []  # no target, nothing to hold


def test_a_wish_that_a_guard_stopped_is_not_taken_for_one_that_brought_nothing():
    """The limit stays at 1,000: what was learnt of progress is kept, and a rise is answered."""
    stopped = [(1000, 500, 900, 1000)] * 5
    assert admit(Admission(), stopped)[2::2] == [[SetAdmission("read", 1250)], [SetAdmission("read", 1000)]]
    rising = [*stopped, (1000, 600, 900, 1000), (1000, 600, 900, 1000)]
    assert admit(Admission(), rising)[-1] == [SetAdmission("read", 1250)]


def test_a_spout_without_a_limit_begins_with_what_arrives_while_a_batch_runs():
    """Batches are small as yet, but 1,500 rows/s arrive, and batches follow each other in 2 s."""
    turns = [(60, 30, 900, None)] * 3
    wished = admit(Admission(), turns, arrival_rate={"read": 1500.0}, input_rows=60.0)
    assert wished[-1] == [SetAdmission("read", 3750)]
    assert admit(Admission(), [(4000, 1500, 900, None)] * 3)[-1] == [SetAdmission("read", 5000)]


def test_a_limit_that_somebody_changed_is_where_tuning_goes_on():
    turns = [(1000, 500, 900, 1000)] * 3 + [(300, 500, 900, 300)] * 2
    assert admit(Admission(), turns)[-1] == [SetAdmission("read", 375)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReplicaSettings(period=0),
        lambda: ReplicaSettings(target_utilization=0),
        lambda: ReplicaSettings(miss_cost=0.0),
        lambda: ReplicaSettings(max_backlog_replicas=-1),
        lambda: ReactiveSettings(target_utilization=0),
        lambda: ReactiveSettings(max_increase=0.5),
        lambda: ProcessorSettings(useful_for=1),
        lambda: ProcessorSettings(smoothing=1),
        lambda: AdmissionSettings(period=0),
        lambda: AdmissionSettings(tuner="guess"),
        lambda: Target(latency=1.0, relaxed=2.0),
        lambda: Target(budget=0),
    ],
)
def test_settings_out_of_bounds_are_refused(make):
    with pytest.raises(SettingsError):
        make()


def test_a_spout_whose_limit_takes_a_restart_is_left_alone_and_that_is_said():
    assert Admission().left_alone(Setup("app", can_admit=frozenset({"live"}))) is None
    said = Admission().left_alone(Setup("app", admit_by_restart=frozenset({"topic"})))
    assert "limit of topic is not tuned" in said
    assert "--restart" in said
    by_latency = Admission(AdmissionSettings(tuner="latency"))
    assert "only where the latency that it saves" in by_latency.left_alone(
        Setup("app", admit_by_restart=frozenset({"topic"}))
    )


def limited_by_restart(seconds, rate=600.0, useful_for=600.0, turns=3, tuner="latency"):
    """Batches of 1,000 rows at 500 rows/s from Kafka, a minute apart; the restarts that are wished for."""
    policy = Admission(AdmissionSettings(tuner=tuner, useful_for=useful_for))
    state, wished = policy.start(), []
    for turn in range(turns):
        now = world(
            1000.0 + 60 * turn, processed={"read": 1000}, input_rows_per_second=rate, latency_p99_ms=1000 * seconds,
            arrival_rate={"read": 500.0}, target=Target(latency=2.0),
        )  # fmt: skip
        setup = replace(now.setup, can_admit=frozenset(), admit_by_restart=frozenset({"read"}))
        state, wishes = policy.wish(state, replace(now, setup=setup))
        wished += wishes
    return wished


def test_a_limit_that_takes_a_restart_is_cut_at_once_where_that_pays():
    (wish,) = limited_by_restart(8.0)
    assert wish.action.admission == {"read": 200}  # 80 % of the target by Little's law
    assert "it pays" in wish.reason


@pytest.mark.parametrize(
    "case",
    [
        {"seconds": 1.9},  # the target is held
        {"seconds": 3.0},  # a second for each tuple within ten minutes is less than a restart of half a minute costs
        {"seconds": 8.0, "useful_for": 60.0},
        {"seconds": 8.0, "rate": 400.0},  # more arrives than is processed
        {"seconds": 8.0, "tuner": "progress"},
    ],
)
def test_a_restart_that_does_not_pay_is_not_wished_for(case):
    assert limited_by_restart(**case) == []


def test_the_next_restart_waits_until_the_last_one_was_useful():
    assert len(limited_by_restart(8.0, turns=9)) == 1
    assert len(limited_by_restart(8.0, turns=15)) == 2
