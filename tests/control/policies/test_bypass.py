"""Bad workers go, the last ones stay, and who was out comes back by probing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.worlds import even, observed, world
from foretide.control.actions.registry import Quarantine, QuarantineHost, Release, ReleaseHost
from foretide.control.policies.bypass import Bypass, BypassSettings
from foretide.control.policies.prediction_error import PredictionError, PredictionErrorSettings
from foretide.control.policies.worker_health import HealthMetric
from foretide.control.step import Control, step
from foretide.control.world.setup import Observed
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.errors import SettingsError
from foretide.metrics.batch import TaskRun
from foretide.metrics.from_batch import SLOWNESS, slowness
from foretide.metrics.running_tasks import RUNNING_SLOWNESS

TIME = "worker_tuple_execution_time_ms"
BYPASS = Bypass(BypassSettings(first_wait=60.0))


def times(**by_worker):
    return {TIME: {name.removeprefix("w"): value for name, value in by_worker.items()}}


HEALTHY = times(w0=1, w1=1.1, w2=0.9, w3=1)
SICK = times(w0=1, w1=4, w2=0.9, w3=1)
SLOW = times(w0=1, w1=1.8, w2=0.9, w3=1)


def actions(wishes):
    return [wish.action for wish in wishes]


def drive(turns, policy=BYPASS, start=1000.0, period=10.0):
    """Turns of (figures, quarantined workers); what was wished in each."""
    state, wished = policy.start(), []
    for turn, (figures, out) in enumerate(turns):
        seen = world(start + period * turn, seen=observed(quarantined=frozenset(out)), **figures)
        state, wishes = policy.wish(state, seen)
        wished.append(actions(wishes))
    return wished


def test_healthy_workers_are_left_alone():
    assert drive([(HEALTHY, "")] * 5) == [[]] * 5


def test_a_bad_worker_goes_at_the_first_look_and_the_reason_says_why():
    _, wishes = BYPASS.wish({}, world(**SICK))
    assert actions(wishes) == [Quarantine("1")]
    assert wishes[0].reason.startswith("its tuple execution time is 4 ms, that of its peers 1 ms")


def test_where_every_worker_waits_for_cores_a_bad_worker_goes_after_four_times_as_many_looks():
    waited, had = dict.fromkeys("0123", 600.0), dict.fromkeys("0123", 30.0)
    crowded = {"worker_cpu_wait_percent": waited, "worker_cpu_user_percent": had}
    assert drive([(SICK | crowded, "")] * 8) == [[]] * 7 + [[Quarantine("1")]]
    assert not any(drive([(SICK | crowded, "")] * 5 + [(HEALTHY | crowded, "")] + [(SICK | crowded, "")] * 5))
    system = {"worker_cpu_system_percent": dict.fromkeys("0123", 0.0)}
    alone = {"worker_cpu_wait_percent": waited | {"1": 3_000.0}}
    assert drive([(SICK | crowded | system | alone, "")]) == [[Quarantine("1")]]  # its own wait tells it at once


def test_a_worker_that_holds_up_the_batch_under_way_goes_before_the_batch_has_ended():
    healthy = {SLOWNESS: {"0": 1.0, "1": 1.0, "2": 1.0, "3": 1.0}}
    late = {RUNNING_SLOWNESS: {"0": 1.0, "1": 6.0, "2": 1.0}}
    _, wishes = BYPASS.wish({}, world(**healthy, **late))
    assert actions(wishes) == [Quarantine("1")]
    assert wishes[0].reason.startswith("its running slowness is 6, that of its peers 1")
    assert wishes[0].within_batch


def test_what_running_tasks_of_an_earlier_batch_showed_counts_no_more():
    seen = world(**{SLOWNESS: {"0": 1.0, "1": 1.0, "2": 1.0, "3": 1.0}})
    old = {(RUNNING_SLOWNESS, worker): (value, seen.at - 5.0) for worker, value in (("0", 1.0), ("1", 6.0))}
    late = replace(seen, snapshot=replace(seen.snapshot, figures={**seen.snapshot.figures, **old}))
    assert BYPASS.wish({}, late)[1] == []


def test_the_last_workers_stay_even_if_they_hold_up_the_batch():
    seen = observed(quarantined=frozenset("023"))
    late = world(seen=seen, **{RUNNING_SLOWNESS: {"0": 1.0, "1": 20.0}})
    _, decision = step(Control((BYPASS,)), Control((BYPASS,)).start(), late)
    assert decision.actions == ()


def test_a_slow_worker_goes_only_if_it_stays_slow():
    assert drive([(SLOW, ""), (HEALTHY, ""), (SLOW, ""), (HEALTHY, ""), (SLOW, "")]) == [[]] * 5
    assert drive([(SLOW, "")] * 2)[-1] == [Quarantine("1")]


def test_a_forecast_is_enough_before_anything_is_measured():
    looks = {
        (TIME, worker): Forecast("net", (ForecastPoint(15.0, 5.0 if worker == "2" else 1.0),)) for worker in "0123"
    }
    _, wishes = BYPASS.wish({}, world(**HEALTHY, forecasts=Forecasts(looks)))
    assert actions(wishes) == [Quarantine("2")]
    assert "its tuple execution time is forecast at 5 ms, that of its peers at 1 ms" in wishes[0].reason
    measured_only = Bypass(BypassSettings(horizon=None))
    assert measured_only.wish({}, world(**HEALTHY, forecasts=Forecasts(looks)))[1] == []


def test_leaving_the_own_forecast_counts_but_not_when_all_have_left_theirs():
    def decide(figures):
        control, state = Control((BYPASS,)), Control((BYPASS,)).start()
        looks = {(TIME, worker): Forecast("net", (ForecastPoint(10.0, 0.5),)) for worker in "0123"}
        for turn in range(8):
            now = figures if turn > 6 else times(w0=0.5, w1=0.5, w2=0.5, w3=0.5)
            seen = world(1000.0 + 10 * turn, **now, forecasts=Forecasts(looks))
            state, decision = step(control, state, seen)
        return decision.actions

    assert decide(times(w0=1, w1=1.3, w2=1, w3=1)) == (Quarantine("1"),)
    assert decide(times(w0=1.3, w1=1.3, w2=1.3, w3=1.3)) == ()


def test_tiny_waits_do_not_count_however_many_times_longer():
    waits = {"worker_inbound_queuing_time_ms": {"0": 1, "1": 40, "2": 1, "3": 1}}
    assert BYPASS.wish({}, world(**waits))[1] == []
    waits["worker_inbound_queuing_time_ms"]["1"] = 900
    assert actions(BYPASS.wish({}, world(**waits))[1]) == [Quarantine("1")]


def run(operator, worker, rows, service_ms):
    return TaskRun(
        operator, 0, operator, None, False, worker, "h", 0.0, service_ms, 0.0, 0.0, 0.0, 0.0, 0.0, rows, rows, 0, 0, 0
    )


def test_slowness_is_the_workers_and_not_that_of_what_it_was_given():
    mixed = [run("light", "0", 1000, 1.0), run("heavy", "1", 1000, 5000.0), run("heavy", "0", 10, 50.0)]
    assert slowness(mixed) == pytest.approx({"0": 1.0, "1": 1.0})
    slow = [run("heavy", "0", 1000, 1000.0), run("heavy", "1", 1000, 5000.0), run("light", "0", 10, 0.0)]
    assert slowness(slow)["1"] / slowness(slow)["0"] == pytest.approx(5200 / 1200)  # both raised by 200 ms
    assert slowness([]) == {}


def test_a_worker_is_let_in_early_if_things_got_much_worse_without_it():
    def seen(at, latency):
        figures = {"latency_p99_ms": {"q": latency}}
        out = world(at, **HEALTHY, **figures)
        return replace(out, observed=replace(out.observed, quarantined=frozenset({"1"})))

    state, wishes = BYPASS.wish({}, seen(1000.0, 2000.0))
    assert wishes == []
    state, wishes = BYPASS.wish(state, seen(1010.0, 5000.0))
    assert wishes == []
    state, wishes = BYPASS.wish(state, seen(1020.0, 9000.0))
    assert actions(wishes) == [Release("1")]
    assert "rose from 2000 to 9000 without it" in wishes[0].reason


def test_a_worker_that_has_just_begun_is_not_judged():
    usual = {SLOWNESS: {**dict.fromkeys("0123", 1.0), "2": 4.0}}
    seen = world(**HEALTHY, **usual)
    young = replace(seen, observed=replace(seen.observed, young=frozenset({"2"})))
    assert BYPASS.wish({}, young)[1] == []
    assert actions(BYPASS.wish({}, seen)[1]) == [Quarantine("2")]


def test_where_slowness_is_known_time_on_a_tuple_is_not_looked_at():
    usual = {SLOWNESS: dict.fromkeys("0123", 1.0)}
    assert BYPASS.wish({}, world(**SICK, **usual))[1] == []
    usual[SLOWNESS]["2"] = 4.0
    assert actions(BYPASS.wish({}, world(**HEALTHY, **usual))[1]) == [Quarantine("2")]


def test_a_lone_worker_has_nobody_to_be_compared_with():
    seen = observed(executors={"0": "h0"})
    assert BYPASS.wish({}, world(seen=seen, **times(w0=99)))[1] == []


@given(st.lists(st.floats(0.001, 1e4), min_size=1, max_size=12), st.floats(0, 1), st.integers(0, 12))
def test_enough_workers_always_stay_in_service(values, keep, out):
    workers = {str(i): f"h{i % 3}" for i in range(len(values))}
    gone = frozenset(list(workers)[:out])
    seen = Observed(executors=workers, quarantined=gone)
    figures = {TIME: {str(i): value for i, value in enumerate(values)}}
    policy = Bypass(BypassSettings(min_in_service=keep))
    _, wishes = policy.wish({}, world(seen=seen, **figures))
    taken = {wish.action.worker for wish in wishes if isinstance(wish.action, Quarantine)}
    assert not taken & gone
    if taken:
        assert len(seen.in_service - taken) >= max(1, keep * len(workers))


def test_the_worst_goes_first_when_only_one_may():
    seen = observed(quarantined=frozenset("3"))
    _, wishes = BYPASS.wish({}, world(seen=seen, **times(w0=1, w1=5, w2=40)))
    assert actions(wishes) == [Quarantine("2")]


def test_who_is_out_is_let_in_to_be_judged_by_what_is_measured():
    waiting = drive([(SICK, ""), *[(HEALTHY, "1")] * 7])
    assert waiting[0] == [Quarantine("1")]
    assert waiting[1:7] == [[]] * 6
    assert waiting[7] == [Release("1")]


def test_a_failed_probe_ends_at_once_and_doubles_the_wait():
    wished = drive([(SICK, ""), *[(HEALTHY, "1")] * 7, (SICK, "")])
    assert wished[8] == [Quarantine("1")]
    state = BYPASS.start()
    out, back = frozenset("1"), frozenset()
    log = []
    for turn in range(60):
        at = 1000.0 + 10 * turn
        quarantined = back if not log else (out if isinstance(log[-1][1], Quarantine) else back)
        figures = SICK if not quarantined else times(w0=1, w2=0.9, w3=1)
        state, wishes = BYPASS.wish(state, world(at, seen=observed(quarantined=quarantined), **figures))
        log += [(at, wish.action) for wish in wishes]
    releases = [at for at, action in log if isinstance(action, Release)]
    quarantines = [at for at, action in log if isinstance(action, Quarantine)]
    waits = [release - quarantine for quarantine, release in zip(quarantines, releases, strict=False)]
    assert waits == sorted(waits)
    assert waits[1] - waits[0] == 60.0
    assert waits[2] - waits[1] == 120.0


def test_on_probation_only_what_was_measured_since_counts():
    state = BYPASS.start()
    for turn, (figures, out) in enumerate([(SICK, ""), *[({}, "1")] * 7]):
        state, wishes = BYPASS.wish(
            state, world(1000.0 + 10 * turn, seen=observed(quarantined=frozenset(out)), **figures)
        )
    assert actions(wishes) == [Release("1")]
    from dataclasses import replace

    from foretide.metrics.snapshot import Snapshot

    seen = world(1080.0, **SICK)
    stale = {key: (value, 1069.0) for key, (value, _) in seen.snapshot.figures.items()}
    state, wishes = BYPASS.wish(state, replace(seen, snapshot=Snapshot(1080.0, "q", stale)))
    assert wishes == []
    assert actions(BYPASS.wish(state, world(1085.0, **SICK))[1]) == [Quarantine("1")]


def test_a_worker_that_does_well_on_probation_is_left_alone():
    wished = drive([(SICK, ""), *[(HEALTHY, "1")] * 7, *[(HEALTHY, "")] * 6])
    assert wished[8:] == [[]] * 6


def test_somebody_elses_quarantine_is_taken_over_but_not_a_persons():
    adopted = drive([(HEALTHY, "3")] * 7)
    assert adopted[-1] == [Release("3")]
    drained = observed(quarantined=frozenset("3"), drained=frozenset({"h1"}))
    state = BYPASS.start()
    for turn in range(9):
        state, wishes = BYPASS.wish(state, world(1000.0 + 10 * turn, seen=drained, **HEALTHY))
        assert wishes == []


def test_without_the_means_nothing_is_wished():
    from dataclasses import replace

    from control.worlds import SETUP

    assert BYPASS.wish({}, world(setup=replace(SETUP, can_quarantine=False), **SICK)) == ({}, [])


@pytest.mark.parametrize("bad", [{"slow": 1.0}, {"bad": 1.2}, {"patience": 0}, {"min_in_service": 2}, {"max_wait": 1}])
def test_settings_of_bypass_out_of_bounds_are_refused(bad):
    with pytest.raises(SettingsError):
        BypassSettings(**bad)
    with pytest.raises(SettingsError):
        HealthMetric(TIME, -1.0)


WAIT = "worker_inbound_queuing_time_ms"


def told(world_, value, *, trusted=True):
    now = {(WAIT, worker): value for worker in "0123"}
    ahead = {series: Forecast("net", (ForecastPoint(10.0, value),)) for series in now}
    return replace(world_, forecast_for_now=now, forecasts=Forecasts(ahead if trusted else {}))


def test_the_papers_rule_empties_the_machine_for_a_while():
    rule = PredictionError(PredictionErrorSettings(threshold=1.0, hold=100))
    figures = {WAIT: {"0": 10, "1": 30, "2": 10, "3": 19}}
    held, wishes = rule.wish(rule.start(), told(world(**figures), 10.0))
    assert actions(wishes) == [QuarantineHost("h0")]
    out = observed(quarantined=frozenset("01"))
    held, wishes = rule.wish(held, told(world(1099.0, seen=out, **figures), 10.0))
    assert wishes == []
    held, wishes = rule.wish(held, told(world(1100.0, seen=out, **figures), 10.0))
    assert actions(wishes) == [ReleaseHost("h0")]


def test_the_papers_rule_for_workers_and_either_side():
    rule = PredictionError(PredictionErrorSettings(threshold=0.5, scope="worker", either_side=True))
    figures = {WAIT: {"0": 10, "1": 10, "2": 10, "3": 2}}
    assert actions(rule.wish(rule.start(), told(world(**figures), 10.0))[1]) == [Quarantine("3")]
    one_sided = PredictionError(PredictionErrorSettings(threshold=0.5, scope="worker"))
    assert one_sided.wish(one_sided.start(), told(world(**figures), 10.0))[1] == []


def test_the_papers_rule_too_keeps_the_last_worker():
    rule = PredictionError(PredictionErrorSettings(threshold=0.5))
    figures = {WAIT: {"0": 99, "1": 99}}
    out = observed(executors={"0": "h0", "1": "h0"}, quarantined=frozenset("1"))
    assert rule.wish(rule.start(), told(world(seen=out, **figures), 10.0))[1] == []


def test_without_a_forecast_the_papers_rule_goes_by_what_is_usual_for_a_worker():
    rule = PredictionError(PredictionErrorSettings(threshold=1.0, hold=100, scope="worker"))
    state = rule.start()
    for second in range(4):
        calm = world(1000.0 + second, **{WAIT: {"0": 10, "1": 10, "2": 40, "3": 10}})
        state, wishes = rule.wish(state, calm)
        assert wishes == []
    for second in range(4, 8):  # a slow batch does not become what is usual
        state, wishes = rule.wish(state, world(1000.0 + second, **{WAIT: {"0": 10, "1": 30, "2": 40, "3": 10}}))
        assert actions(wishes) == [Quarantine("1")]
    assert "is usual" in wishes[0].reason


def test_the_papers_rule_goes_by_what_is_usual_as_long_as_forecasts_are_not_trusted():
    rule = PredictionError(PredictionErrorSettings(threshold=1.0, scope="worker"))
    state, calm = rule.start(), {WAIT: {"0": 10, "1": 10, "2": 10, "3": 10}}
    for second in range(4):
        state, wishes = rule.wish(state, told(world(1000.0 + second, **calm), 2.0, trusted=False))
        assert wishes == []
    slow = world(1004.0, **{WAIT: {"0": 10, "1": 30, "2": 10, "3": 10}})
    _, wishes = rule.wish(state, told(slow, 100.0, trusted=False))
    assert actions(wishes) == [Quarantine("1")]
    assert "is usual" in wishes[0].reason
    assert rule.wish(state, told(slow, 100.0))[1] == []


def test_on_the_only_machine_the_papers_rule_bypasses_the_worker():
    rule = PredictionError(PredictionErrorSettings(threshold=1.0))
    one_host = observed(executors={"0": "h0", "1": "h0"})
    figures = {WAIT: {"0": 10, "1": 30}}
    state, wishes = rule.wish(rule.start(), told(world(seen=one_host, **figures), 10.0))
    assert actions(wishes) == [Quarantine("1")]
    out = observed(executors={"0": "h0", "1": "h0"}, quarantined=frozenset("1"))
    assert actions(rule.wish(state, told(world(1300.0, seen=out, **figures), 10.0))[1]) == [Release("1")]


def test_settings_of_the_papers_rule_out_of_bounds_are_refused():
    with pytest.raises(SettingsError):
        PredictionErrorSettings(hold=-1)
    assert even(1, 2) == (1.0, 0.0)
