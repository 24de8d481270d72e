"""Advice follows from measured values: by hand, and its shares and signs whatever was measured."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.metrics.batch import BatchReport, JoinBatch, JoinSide, StateSize, TaskRun
from foretide.planning.advice import LOCALITY_WAIT, STATE_PROVIDER, STATELESS_AQE, QueryEnvironment, advise
from foretide.planning.stage_costs import MeasuredQuery, StageCost, measure, stage_cost

TASK = TaskRun("count", 0, None, None, False, "1", "here", 0, 10, 5, 0, 0, 0, 0, 10, 1, 100, 0, 0, shuffled=True)


def tasks(took, rows=None, cores=2, gap=0, **others):
    """Tasks that begin one after another on the cores, with a gap before the next one."""
    free, runs = [0.0] * cores, []
    for number, (run, own) in enumerate(zip(took, rows or [10] * len(took), strict=True)):
        core = free.index(min(free))
        runs.append(replace(TASK, task=number, waited_ms=free[core], run_ms=run, rows_in=own, **others))
        free[core] += run + gap
    return tuple(runs)


def report(batch, runs, rows=100, duration=1.0, **others):
    return BatchReport(batch, 100.0 + batch, duration, rows, None, None, tasks=runs, **others)


def reports(runs, count=10, **others):
    return [report(batch, runs, **others) for batch in range(count)]


def only(subject, measured, environment=None):
    found = [each for each in advise(measured, environment or QueryEnvironment()) if each.subject == subject]
    assert len(found) == 1
    return found[0]


def subjects(measured, environment=None):
    return {each.subject for each in advise(measured, environment or QueryEnvironment())}


SHUFFLED = StageCost("count", 200, 8, 0.42, 3.4, 0.03, 0.016, shuffled=True)


def test_too_many_shuffle_partitions_by_hand():
    """Each of 200 tasks costs 16 ms of a core: on 8 cores 0.4 s a batch, and 16 of them 0.032 s."""
    found = only("shuffle partitions", MeasuredQuery((1.0,) * 6, (10,) * 6, (SHUFFLED,)))
    assert found.sentence == "200 shuffle partitions on 8 cores cost 400 ms a batch: 16 would save 368 ms"
    assert found.seconds == pytest.approx(0.368)
    assert found.share == pytest.approx(0.368)
    assert found.how == "set spark.sql.shuffle.partitions=16 before the query is started"


def test_how_partitions_are_changed_depends_on_state_and_settings():
    stateful = MeasuredQuery((1.0,), (10,), (SHUFFLED,), state_bytes=10)
    assert "a checkpoint keeps its number of state partitions" in only("shuffle partitions", stateful).how
    plain = MeasuredQuery((1.0,), (10,), (SHUFFLED,))
    off = QueryEnvironment(settings={STATELESS_AQE: "false"})
    assert only("shuffle partitions", plain, off).how.endswith(f"or let Spark choose by {STATELESS_AQE}=true")


def test_large_partitions_are_not_made_larger():
    large = replace(SHUFFLED, bytes=200 * 128 * 2**20)
    assert subjects(MeasuredQuery((1.0,), (10,), (large,))) == set()


def test_too_few_shuffle_partitions_leave_cores_idle():
    few = StageCost("count", 2, 8, 1.0, 2.0, 1.0, 0.0, shuffled=True)
    found = only("shuffle partitions", MeasuredQuery((1.5,), (10,), (few,)))
    assert found.seconds == pytest.approx(0.75)  # 2 core-seconds on 2 cores against 8
    assert "leave cores idle: 16 would save 750 ms a batch" in found.sentence


def test_an_edge_spreads_what_few_tasks_do():
    narrow = StageCost("source", 1, 8, 4.0, 4.0, 4.0, 0.0)
    measured = MeasuredQuery((4.5,), (10,), (narrow,))
    found = only("edge", measured, QueryEnvironment(python=True))
    assert found.seconds == pytest.approx(3.5)
    assert "'source' does a Python operator in 1 task on 8 cores, 4 s of a batch" in found.sentence
    assert subjects(MeasuredQuery((4.5,), (10,), (replace(narrow, routed=True),))) == set()
    assert subjects(MeasuredQuery((4.5,), (10,), (replace(narrow, tasks=8, longest=0.5, span=0.5),))) == set()


def test_a_hot_key_is_named_where_it_is_known():
    skewed = StageCost("join", 16, 8, 2.0, 4.0, 2.0, 0.0, largest_share=0.41, shuffled=True)
    hot = MeasuredQuery((2.5,), (10,), (skewed,), hot_keys={"rides": ("DE", 0.41)})
    found = only("skewed keys", hot)
    assert found.seconds == pytest.approx(1.5)
    assert "one of 16 tasks has 41 % of the rows and takes 2 s; key 'DE' has 41 % of the rows" in found.sentence
    assert "ft.join" not in found.sentence + found.how
    assert "`hot_keys`" in found.how
    counted = MeasuredQuery((2.5,), (10,), (replace(skewed, operator="aggregate"),))
    assert "key '" not in only("skewed keys", counted).sentence


def test_a_skewed_join_of_spark_is_advised_to_become_one_that_counts_keys():
    skewed = StageCost("join", 16, 8, 2.0, 4.0, 2.0, 0.0, largest_share=0.41, shuffled=True)
    plain = only("skewed keys", MeasuredQuery((2.5,), (10,), (skewed,)))
    assert "one of 16 tasks has 41 % of the rows and takes 2 s: ft.join, which names the hot keys" in plain.sentence
    assert "Spark does not count the keys of its joins" in plain.how


def test_no_key_is_named_where_it_may_be_that_of_another_join():
    skewed = StageCost("join-2", 16, 8, 2.0, 4.0, 2.0, 0.0, largest_share=0.41, shuffled=True)
    even = StageCost("join", 16, 8, 0.5, 4.0, 0.25, 0.0, largest_share=0.07, shuffled=True)
    found = only("skewed keys", MeasuredQuery((2.5,), (10,), (even, skewed), hot_keys={"rides": ("DE", 0.41)}))
    assert "DE" not in found.sentence
    assert "where the join is Spark's own, ft.join(left, right, ...)" in found.how


def test_a_locality_wait_is_seen_by_late_starts_on_several_executors():
    late = StageCost("count", 4, 4, 3.2, 0.8, 0.2, 0.0, last_start=3.0, shuffled=True)
    measured = MeasuredQuery((3.5,), (10,), (late,))
    found = only("locality wait", measured, QueryEnvironment(executors=2, settings={LOCALITY_WAIT: "3s"}))
    assert found.seconds == pytest.approx(3.0)
    assert "locality wait" not in subjects(measured, QueryEnvironment(executors=1))
    assert "locality wait" not in subjects(measured, QueryEnvironment(executors=2, settings={LOCALITY_WAIT: "0"}))


def test_batches_that_grow_need_a_limit_unless_they_have_one():
    growing = MeasuredQuery((1.0, 1.0, 2.0, 3.0, 4.0, 6.0), (100, 100, 300, 400, 500, 700), ())
    found = only("admission", growing, QueryEnvironment(unlimited=("maxOffsetsPerTrigger",)))
    assert found.seconds == pytest.approx(4.0)
    assert "grown from 100 to 600 rows and from 1 s to 5 s" in found.sentence
    assert subjects(growing) == set()


def test_rows_should_not_wait_for_a_trigger_that_a_target_does_not_allow():
    measured = MeasuredQuery((1.0,) * 6, (10,) * 6, ())
    found = only("trigger", measured, QueryEnvironment(trigger=10.0))
    assert found.seconds == pytest.approx(8.75)
    assert found.how == '.trigger(processingTime="1250 milliseconds")'
    assert subjects(measured, QueryEnvironment(trigger=10.0, latency_target=11.0)) == set()
    assert only("trigger", measured, QueryEnvironment(trigger=10.0, latency_target=5.0)).seconds == pytest.approx(6.0)


def test_state_on_the_heap_is_named_when_it_fills_it():
    measured = MeasuredQuery((1.0,), (10,), (replace(SHUFFLED, tasks=16),), state_bytes=600, gc=1.6)
    environment = QueryEnvironment(settings={STATE_PROVIDER: "...HDFSBackedStateStoreProvider"}, heap_bytes=1000.0)
    assert only("state store", measured, environment).seconds == pytest.approx(0.2)
    assert "state takes 60 %" in only("state store", replace(measured, gc=0.0), environment).sentence
    rocks = replace(environment, settings={STATE_PROVIDER: "...RocksDBStateStoreProvider"})
    assert "state store" not in subjects(measured, rocks)


# ---- what is measured


def test_the_fixed_cost_of_a_task_is_told_from_its_work():
    """40 tasks of 20 ms without rows and two with, 5 ms apart on two cores."""
    runs = tasks([20] * 40 + [120, 220], [0] * 40 + [100, 200], gap=5)
    cost = stage_cost("count", runs, 2, shuffled=True)
    assert cost.task_cost == pytest.approx(0.025, rel=0.05)
    assert cost.largest_share == pytest.approx(2 / 3)
    assert cost.seconds(42) == pytest.approx(cost.busy / 2, rel=0.2)


def test_the_work_of_rows_is_told_by_the_line_through_all_tasks():
    cost = stage_cost("count", tasks([30, 50, 70, 110], [10, 20, 30, 50]), 4, shuffled=True)
    assert cost.task_cost == pytest.approx(0.010)
    assert cost.work == pytest.approx(0.220)


def test_batches_of_the_warm_up_and_without_rows_tell_nothing():
    runs = tasks([20] * 8, [0, 0, 0, 5, 5, 5, 5, 5])
    assert measure(reports(runs, 6), 2) is None
    assert measure(reports(runs, rows=0), 2) is None
    assert measure([replace(each, tasks=None) for each in reports(runs)], 2) is None
    found = measure(reports(runs, state=StateSize(1, 700, 0)), 2)
    assert [(stage.operator, stage.tasks, stage.shuffled) for stage in found.stages] == [("count", 8, True)]
    assert found.state_bytes == 700


def test_the_most_frequent_key_of_a_join_is_found_by_name():
    left = JoinSide(100, None, {1: 41, 2: 9}, {1: "DE", 2: "FR"})
    join = JoinBatch(1, left, JoinSide(50, None, {3: 40}))
    assert measure(reports(tasks([20] * 4), joins={"rides": join}), 2).hot_keys == {"rides": ("DE", 0.41)}


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 10_000)), min_size=1, max_size=40),
    st.integers(1, 16),
    st.booleans(),
)
def test_no_advice_promises_more_than_there_is(pairs, cores, shuffled):
    took, rows = [run for run, _ in pairs], [given for _, given in pairs]
    runs = tasks(took, rows, cores, shuffled=shuffled)
    length = sum(took) / 1000 + 0.5
    measured = measure(reports(runs, duration=length), cores)
    for each in advise(measured, QueryEnvironment(executors=2, trigger=3 * length)):
        if each.subject != "trigger":
            assert 0 < each.seconds <= length
        assert 0 < each.share <= 1
