"""A target that is missed is said: what was measured, for how long, why, and what would help."""

from dataclasses import replace

from control.worlds import WORKERS, loaded, observed, world
from foretide.control.actions.registry import SetReplicas
from foretide.control.decisions.decision import Decision, Intervention, Wish, from_json, to_json
from foretide.control.decisions.explain import account, explain
from foretide.control.step import Control, step
from foretide.control.target_record import TargetRecord, past_reasons, reasons, remedies, verdict
from foretide.control.world.setup import Target

TARGET = Target(2.0)
NOTHING = Decision(1, 1000.0, "q")


def after(record, at, seconds, **values):
    return record.after(world(at, target=TARGET, latency_p99_ms=1000 * seconds, **values), NOTHING)


def test_time_and_measurements_above_the_target_are_counted():
    record = TargetRecord()
    for at, seconds in [(100, 1.0), (110, 3.0), (120, 4.0), (130, 1.5)]:
        record = after(record, at, seconds)
    assert (record.measurements, record.missed, record.worst) == (4, 2, 4.0)
    assert (record.seconds, record.missed_seconds) == (30.0, 20.0)
    assert record.held
    assert "held, measured 1.5 s; missed in 2 of 4 measurements, 67 % of 30 s" in verdict(record)
    assert "held for 15 s, measured 1.8 s; missed in 2 of 5 measurements" in verdict(after(record, 145, 1.8))
    assert list(reasons(record)) == []


def test_a_miss_names_its_length_a_likely_cause_and_a_remedy():
    record = after(TargetRecord(), 100, 3.0)
    record = after(record, 112, 3.5, worker_slowness={"0": 4.0, "1": 1.0, "2": 1.0})
    assert record.held is False
    assert "MISSED for 12 s, measured 3.5 s" in verdict(record)
    lines = list(reasons(record))
    assert lines[0].startswith("likely cause: worker 0, which takes 4.0 times as long")
    assert lines[1].startswith("what would help: ")


def test_a_lack_of_cores_is_no_slow_worker_and_other_work_is_named():
    waited, had = dict.fromkeys(WORKERS, 900.0), dict.fromkeys(WORKERS, 90.0)
    record = after(TargetRecord(), 100, 3.0, worker_cpu_wait_percent=waited, worker_cpu_user_percent=had)
    assert record.cause == "a lack of free cores: every worker waits for one 10 times as long as it has one"
    assert record.remedies[0] == "less other work on the machines of the executors, or more cores"


def test_the_same_measurement_counts_once_and_a_silence_does_not_count():
    seen = world(100.0, target=TARGET, latency_p99_ms=3000)
    record = TargetRecord().after(seen, NOTHING)
    assert record.after(seen, NOTHING).measurements == 1
    assert after(record, 10_000, 3.0).seconds == 0.0


def test_another_target_begins_a_record_of_its_own():
    record = after(TargetRecord(), 100, 3.0)
    changed = record.after(world(110.0, target=Target(5.0), latency_p99_ms=3000), NOTHING)
    assert (changed.target, changed.measurements, changed.missed) == (Target(5.0), 1, 0)


def test_warm_up_is_labelled_and_not_judged():
    young = observed(young=frozenset(WORKERS))
    record = after(TargetRecord(), 100, 9.0, seen=young)
    assert (record.measurements, record.warming_up) == (0, True)
    assert "warming up" in verdict(record)
    assert record.held is None
    assert list(reasons(record)) == []
    assert after(record, 110, 1.0).missed == 0


def test_without_a_target_or_a_measurement_nothing_is_claimed():
    assert TargetRecord().after(world(latency_p99_ms=9000), NOTHING).held is None
    assert verdict(TargetRecord()) == "no latency target"
    unknown = TargetRecord().after(world(target=TARGET), NOTHING)
    assert unknown.held is None
    assert "unknown, no latency was measured yet" in verdict(unknown)


def test_remedies_name_what_a_guard_stopped_and_a_pool_that_is_used_up():
    stopped = Intervention("cooldown", "replicas", SetReplicas("parse", 6), None, "the last change was 2 s ago")
    seen = loaded(capacity={"parse": 0.97}, target=TARGET, seen=observed(parse=16), batch_duration_ms=4000)
    found = list(remedies(seen, replace(NOTHING, guards=(stopped,))))
    assert "which guard 'cooldown' stops for now: the last change was 2 s ago" in found[0]
    assert "`foretide restart --pool parse=32`" in found[1]
    assert found[2].startswith("fewer rows a batch")
    record = TargetRecord().after(seen, NOTHING)
    assert record.cause == "operator 'parse', whose busiest replica is busy 97% of the time"
    plain = loaded(target=TARGET, batch_duration_ms=4000, input_rows=12_000)
    assert TargetRecord().after(plain, NOTHING).cause == "a batch of 12,000 rows takes 4 s, longer than the target"


def test_a_decision_says_whether_the_target_was_held():
    control = Control()
    _, decision = step(control, control.start(), world(target=Target(2.0, quantile="p95"), latency_p95_ms=2500))
    assert (decision.measured, decision.target_held) == (2.5, False)
    assert next(explain(decision)).text == "p95 latency below 2 s: missed, measured 2.5 s"
    assert from_json(Decision, to_json(decision)) == decision


def test_the_account_says_what_was_done_and_what_was_not():
    done = Wish("bypass", SetReplicas("parse", 3), "slow")
    stopped = Intervention("hysteresis", "replicas", SetReplicas("parse", 2), None, "not watched for 300 s")
    acted = replace(NOTHING, chosen=(done,))
    lines = account([acted, acted, replace(NOTHING, guards=(stopped,), problems=("no figure",))])
    assert lines[0] == "changes by the control loop: 2 (bypass 2)"
    assert lines[1].startswith("stopped by hysteresis: 1 (replicas 1); last ")
    assert lines[2] == "problem: no figure"
    assert account([]) == ["changes by the control loop: none"]


def test_that_a_target_is_out_of_reach_is_shown_as_long_as_it_is_missed():
    said = "policy 'processors': p99 latency of 2 s is out of reach: 3 executors cannot keep up with 500 rows/s"
    missed = world(100.0, target=TARGET, latency_p99_ms=3000)
    record = TargetRecord().after(missed, replace(NOTHING, problems=(said,)))
    assert record.remedies[0] == said
    assert list(reasons(record))[1] == said  # no help, but why there is none
    assert after(record, 110, 4.0).remedies[0] == said
    held = after(record, 120, 1.0)
    assert list(reasons(held)) == []
    assert list(past_reasons(held))[1] == said  # at the end of a run it is still said why it was missed
    assert said not in after(held, 130, 3.0).remedies  # another miss may have other reasons


def test_the_cause_and_the_remedies_of_the_last_miss_are_kept():
    slow = {"0": 4.0, "1": 1.0, "2": 1.0}
    record = after(after(TargetRecord(), 100, 3.0, worker_slowness=slow), 110, 1.0)
    assert record.held
    assert list(reasons(record)) == []
    lines = list(past_reasons(record))
    assert lines[0].startswith("likely cause of the last miss: worker 0, which takes 4.0 times as long")
    assert lines[1].startswith("what would have helped: ")
    again = after(record, 120, 3.0)
    assert list(past_reasons(again)) == list(reasons(again))
    assert next(reasons(again)) == "likely cause: not known; no worker, edge or operator stands out"
    assert list(past_reasons(after(TargetRecord(), 100, 1.0))) == []
