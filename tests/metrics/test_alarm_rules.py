"""Rules: when an alarm is raised, that it is raised once, and when it is over."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import AlarmRuleError
from foretide.metrics.alarm_rules import DEFAULT_RULES, AlarmRule, AlarmState, judge
from foretide.metrics.snapshot import Snapshot

FULL = AlarmRule("full", "capacity", above=0.9, meaning="A replica is full.")


def seen(at, figures=None, forecasts=None, age=0.0):
    """A snapshot of figures that are all of the same age."""
    known = {key: (value, at - age) for key, value in (figures or {}).items()}
    return Snapshot(at, "app", known, forecasts or {})


def capacity(value, at=0.0, operator="count"):
    return seen(at, {("capacity", operator): value})


def course(snapshots, *rules):
    """What is raised and what is over, one after the other, by the names of the subjects."""
    watch, told = AlarmState(), []
    for snapshot in snapshots:
        watch, new, over = judge(watch, snapshot, rules)
        told.append(([alarm.subject for alarm in new], [alarm.subject for alarm in over]))
    return told


def raised(snapshot, *rules):
    return {alarm.subject for alarm in judge(AlarmState(), snapshot, rules)[1]}


# ---- what is compared


def test_above_means_more_than_the_value():
    assert raised(capacity(0.91), FULL) == {"count"}
    assert raised(capacity(0.9), FULL) == set()


def test_below_means_less_than_the_value():
    slow = AlarmRule("slow", "processed_rows_per_second", below=100)
    assert raised(seen(0, {("processed_rows_per_second", "app"): 99.0}), slow) == {"app"}
    assert raised(seen(0, {("processed_rows_per_second", "app"): 100.0}), slow) == set()


def test_peers_are_the_others_and_their_median_counts():
    rule = AlarmRule("slow", "worker_tuple_execution_time_ms", times_peers=2.0)
    times = {"1": 4.1, "2": 1.0, "3": 2.0, "4": 90.0}  # the peers of 1 are at 1, 2 and 90: median 2
    workers = {("worker_tuple_execution_time_ms", worker): time for worker, time in times.items()}
    assert raised(seen(0, workers), rule) == {"1", "4"}
    workers["worker_tuple_execution_time_ms", "1"] = 4.0
    assert raised(seen(0, workers), rule) == {"4"}


def test_a_rule_for_one_subject_still_compares_it_with_its_peers():
    rule = AlarmRule("slow", "worker_tuple_execution_time_ms", times_peers=2.0, subject="1")
    times = {
        ("worker_tuple_execution_time_ms", worker): time for worker, time in {"1": 9.0, "2": 1.0, "3": 99.0}.items()
    }
    assert raised(seen(0, times), rule) == set()  # 9 < 2 * 50
    times["worker_tuple_execution_time_ms", "3"] = 1.0
    assert raised(seen(0, times), rule) == {"1"}


def test_one_alone_has_no_peers():
    rule = AlarmRule("slow", "worker_tuple_execution_time_ms", times_peers=2.0)
    assert raised(seen(0, {("worker_tuple_execution_time_ms", "driver"): 1e9}), rule) == set()


def test_another_metric_of_the_same_subject_may_be_the_limit():
    rule = AlarmRule("behind", "input_rows_per_second", above_metric="processed_rows_per_second")
    figures = {("input_rows_per_second", "app"): 10.0, ("processed_rows_per_second", "app"): 9.0}
    assert raised(seen(0, figures), rule) == {"app"}
    assert raised(seen(0, {**figures, ("processed_rows_per_second", "app"): 10.0}), rule) == set()
    assert raised(seen(0, {("input_rows_per_second", "app"): 10.0}), rule) == set()  # the limit is not known


def test_only_the_subject_that_is_named_counts():
    rule = replace(FULL, subject="parse")
    both = seen(0, {("capacity", "parse"): 0.95, ("capacity", "count"): 0.99})
    assert raised(both, rule) == {"parse"}
    assert raised(both, FULL) == {"parse", "count"}


def test_an_old_figure_raises_nothing():
    figures = {("capacity", "count"): 0.95}
    assert raised(seen(1000, figures, age=120.0), FULL) == {"count"}
    assert raised(seen(1000, figures, age=120.1), FULL) == set()


def test_what_is_not_known_raises_nothing():
    assert raised(seen(0), FULL, *DEFAULT_RULES) == set()


# ---- forecasts


def test_a_rule_on_the_forecast_looks_at_nothing_measured():
    rule = replace(FULL, forecast=True)
    assert raised(capacity(0.99), rule) == set()
    assert raised(seen(0, {}, {("capacity", "count"): 0.95}), rule) == {"count"}
    assert raised(seen(0, {}, {("capacity", "count"): 0.95}), FULL) == set()


def test_a_forecast_is_compared_with_a_measured_limit():
    rule = AlarmRule("ahead", "input_rows_per_second", above_metric="sustainable_rows_per_second", forecast=True)
    limit = {("sustainable_rows_per_second", "app"): 100.0}
    assert raised(seen(0, limit, {("input_rows_per_second", "app"): 101.0}), rule) == {"app"}
    assert raised(seen(0, limit, {("input_rows_per_second", "app"): 99.0}), rule) == set()


def test_an_alarm_on_a_forecast_says_that_it_is_foreseen():
    rule = replace(FULL, forecast=True)
    _, [alarm], _ = judge(AlarmState(), seen(0, {}, {("capacity", "count"): 0.95}), (rule,))
    assert alarm.message == "A replica is full. capacity of 'count' is forecast at 95%."


# ---- once, for how long, and over


def test_an_alarm_is_raised_once_and_over_once():
    steps = [capacity(value, at) for at, value in enumerate([0.5, 0.95, 0.97, 0.99, 0.5, 0.5, 0.95])]
    none, count = [], ["count"]
    assert course(steps, FULL) == [
        (none, none),
        (count, none),
        (none, none),
        (none, none),
        (none, count),
        (none, none),
        (count, none),
    ]


def test_an_alarm_whose_figure_is_gone_is_over():
    assert course([capacity(0.95), seen(1)], FULL) == [(["count"], []), ([], ["count"])]


def test_a_rule_must_hold_all_the_time_that_it_asks_for():
    lasting = replace(FULL, lasting=10)
    assert course([capacity(0.95, at) for at in (0, 5, 9.9, 10, 11)], lasting)[2:] == [
        ([], []),
        (["count"], []),
        ([], []),
    ]
    broken = [capacity(0.95, 0), capacity(0.5, 5), capacity(0.95, 6), capacity(0.95, 15.9), capacity(0.95, 16)]
    assert [new for new, _ in course(broken, lasting)] == [[], [], [], [], ["count"]]


def test_an_alarm_says_since_when_and_what_it_saw():
    lasting = replace(FULL, lasting=10)
    watch, _, _ = judge(AlarmState(), capacity(0.95, 100), (lasting,))
    watch, [alarm], _ = judge(watch, capacity(0.98, 112), (lasting,))
    assert (alarm.since, alarm.at, alarm.value, alarm.rule) == (100, 112, 0.98, lasting)
    watch, _, _ = judge(watch, capacity(0.99, 120), (lasting,))
    assert list(watch.raised.values()) == [alarm]


def test_subjects_are_judged_each_for_itself():
    first = seen(0, {("capacity", "parse"): 0.95, ("capacity", "count"): 0.5})
    second = seen(1, {("capacity", "parse"): 0.5, ("capacity", "count"): 0.95})
    assert course([first, second], FULL) == [(["parse"], []), (["count"], ["parse"])]


def test_judging_changes_nothing_that_it_was_given():
    before = AlarmState()
    after, _, _ = judge(before, capacity(0.95), (FULL,))
    assert before == AlarmState()
    judge(after, capacity(0.1, 1), (FULL,))
    assert list(after.raised) == [("full", "count")]


def test_a_clock_that_jumps_back_raises_nothing_early_and_nothing_twice():
    lasting = replace(FULL, lasting=10)
    jumping = [capacity(0.95, at) for at in (1000, 1005, 400, 405, 409, 410, 300, 301)]
    assert [new for new, _ in course(jumping, lasting)] == [[], [], [], [], [], ["count"], [], []]
    assert all(over == [] for _, over in course(jumping, lasting))


# ---- growing

GROWING = AlarmRule("growing", "total_lag", growing=0.2, lasting=30)


def lag(values, every=10, start=0):
    return [seen(start + every * i, {("total_lag", "app"): float(value)}) for i, value in enumerate(values)]


def raised_at(snapshots, rule=GROWING):
    return [i for i, (new, _) in enumerate(course(snapshots, rule)) if new]


def test_growth_is_told_only_after_the_whole_time():
    # at 30 s: four values, a third of them is one; 100 -> 130 is more than a fifth
    assert raised_at(lag([100, 110, 120, 130])) == [3]
    assert raised_at(lag([100, 110, 120])) == []


def test_growth_by_no_more_than_the_share_is_none():
    assert raised_at(lag([100, 110, 115, 120])) == []
    assert raised_at(lag([100, 110, 115, 120.1])) == [3]


def test_growth_looks_at_a_third_at_each_end_so_one_odd_value_does_not_count():
    # seven values in 30 s: two at each end. (100 + 100) / 2 against (100 + 130) / 2 = 115
    assert raised_at(lag([100, 100, 100, 100, 100, 100, 130], every=5)) == []
    assert raised_at(lag([100, 100, 100, 100, 100, 115, 130], every=5)) == [6]


def test_growth_from_nothing_counts_and_a_lag_that_is_worked_off_does_not():
    assert raised_at(lag([0, 5, 9, 12])) == [3]
    assert raised_at(lag([0, 0, 0, 0])) == []
    assert raised_at(lag([9, 6, 3, 0])) == []


def test_growth_that_has_ended_is_over():
    told = course(lag([100, 110, 120, 130, 130, 130, 130]), GROWING)
    assert told[3] == (["app"], [])
    assert [over for _, over in told].count(["app"]) == 1


def test_growth_forgets_what_lies_before_the_time_it_looks_at():
    watch = AlarmState()
    for snapshot in lag(range(100)):
        watch, _, _ = judge(watch, snapshot, (GROWING,))
    assert [at for at, _ in watch.history["growing", "app"]] == [960, 970, 980, 990]


def test_growth_starts_anew_when_the_clock_jumps_back():
    jumped = [*lag([100, 110, 120], start=1000), *lag([130, 140, 150, 250], start=0)]
    assert raised_at(jumped) == [6]


# ---- invalid rules


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "exactly one of above, below, times_peers, above_metric and growing"),
        ({"above": 1, "below": 2}, "exactly one of"),
        ({"growing": 0.1, "above_metric": "utilization", "lasting": 5}, "exactly one of"),
        ({"above": 1, "metric": "capasity"}, "'capasity' is not in the catalogue"),
        ({"above_metric": "limit"}, "'limit' is not in the catalogue"),
        ({"above_metric": "batch"}, "'batch' is not of the level operator"),
        ({"above": math.nan}, "must be a finite number"),
        ({"below": math.inf}, "must be a finite number"),
        ({"times_peers": 0}, "times_peers must be above 0, .* got 0"),
        ({"times_peers": 2, "metric": "total_lag"}, "has no peers"),
        ({"growing": -0.5, "lasting": 5}, "growing must be 0 or more, .* got -0.5"),
        ({"growing": 0.5}, "lasting must be 0 or more seconds, .* got 0"),
        ({"above": 1, "lasting": -1}, "lasting must be 0 or more seconds, .* got -1"),
        ({"above": 1, "lasting": math.nan}, "lasting must be 0 or more seconds, .* got nan"),
        ({"above": 1, "lasting": math.inf}, "lasting must be 0 or more seconds, .* got inf"),
        ({"above": 1, "severity": "fatal"}, "severity must be one of warning, critical, got 'fatal'"),
        ({"above": 1, "name": ""}, "no name"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_name(wrong, message):
    with pytest.raises(AlarmRuleError, match=f"rule '{wrong.get('name', 'mine')}': .*{message}"):
        AlarmRule(**{"name": "mine", "metric": "capacity", **wrong})


# ---- the rules that are on by themselves

EACH = {
    "lag-growing": lag([100, 150, 200, 250]),
    "near-capacity": [capacity(0.95, at) for at in (0, 30)],
    "overload-ahead": [
        seen(0, {("sustainable_rows_per_second", "app"): 9.0}, {("input_rows_per_second", "app"): 10.0})
    ],
    "slow-worker": [seen(at, {("worker_slowness", "1"): 5.0, ("worker_slowness", "2"): 2.0}) for at in (0, 15)],
    "tuples-failed": [seen(0, {("failed", "parse"): 1.0})],
    "skewed-edge": [seen(at, {("skew", "count"): 3.5}) for at in (0, 60)],
    "imbalanced-join": [seen(at, {("join_imbalance", "clicks"): 3.5}) for at in (0, 60)],
    "tasks-retried": [seen(0, {("retried_tasks", "app"): 1.0})],
}


@pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.name)
def test_each_rule_that_is_on_by_itself_can_raise_its_alarm_and_no_other(rule):
    watch, told = AlarmState(), []
    for snapshot in EACH[rule.name]:
        watch, new, _ = judge(watch, snapshot, DEFAULT_RULES)
        told += new
    assert [alarm.rule for alarm in told] == [rule]
    assert rule.meaning.endswith(".")
    assert told[0].message.startswith(rule.meaning)


def test_the_rules_that_are_on_by_themselves_have_names_of_their_own():
    assert len({rule.name for rule in DEFAULT_RULES}) == len(DEFAULT_RULES) == len(EACH)


def test_a_rule_without_a_meaning_has_a_message_all_the_same():
    _, [alarm], _ = judge(AlarmState(), capacity(0.95), (replace(FULL, meaning=""),))
    assert alarm.message == (
        "capacity of 'count' is 95%. Likely source: operator 'count', whose busiest replica is busy 95% of the time."
    )


# ---- whatever comes

STEPS = st.lists(
    st.tuples(st.integers(0, 100), st.dictionaries(st.sampled_from(["parse", "count"]), st.floats(0, 2))), max_size=20
)


@settings(deadline=None, max_examples=50)
@given(STEPS, st.integers(0, 20))
def test_new_and_over_alternate_for_every_subject_whatever_the_clock_does(steps, lasting):
    rule, watch, up = replace(FULL, lasting=lasting), AlarmState(), set()
    for at, values in steps:
        watch, new, over = judge(
            watch, seen(at, {("capacity", name): value for name, value in values.items()}), (rule,)
        )
        raised_now, over_now = {alarm.subject for alarm in new}, {alarm.subject for alarm in over}
        assert not raised_now & up
        assert over_now <= up
        up = (up | raised_now) - over_now
        assert up == {alarm.subject for alarm in watch.raised.values()}
        assert up <= {name for name, value in values.items() if value > 0.9}
