"""The keeper of a join's plan: step by step through changes, gaps, restarts, failures and other writers."""

from __future__ import annotations

import pytest

from foretide.control_folder.folder import ControlFolder
from foretide.errors import JoinPlanError
from foretide.joins.placement.cells import JoinBound
from foretide.joins.placement.plan_change import Maxima
from foretide.joins.placement.salts import tail_partition
from foretide.joins.placement.spec import JoinSpec
from foretide.joins.placement.timeline import TAIL, Timeline
from foretide.joins.plan import NO_PLAN
from foretide.joins.planning.planner import predict
from foretide.joins.settings import WindowSettings
from foretide.metrics.batch import BatchReport, JoinBatch, JoinSide, StateSize, TaskRun
from foretide.runtime.joins.joins import Joins
from foretide.runtime.joins.publisher import JoinPlanPublisher

SECOND = 1_000_000
HOT = 7
WANTED = {HOT: ((0, 1), (2, 3))}


@pytest.fixture
def folder(tmp_path):
    made = ControlFolder(str(tmp_path))
    made.declare_join("j", JoinSpec(JoinBound(5 * SECOND, 5 * SECOND), 4))
    made.change_join_plan("j", lambda _: Timeline())
    return made


def report(batch, plan, latest, **changes):
    side = JoinSide(100, latest * SECOND, {HOT: 60, 8: 5})
    given = {"joins": {"j": JoinBatch(plan, side, side)}, "watermark": float(latest - 10)} | changes
    return BatchReport(batch, 1000.0 + batch, 0.5, 200, None, None, **given)


def begun(folder, batches=2, **options):
    keeper = JoinPlanPublisher(folder, "j", windows=WindowSettings(2.0, 2.0), **options)
    for batch in range(batches):
        keeper.see(report(batch, 0, 100 + 10 * batch))
    return keeper


def test_a_change_takes_two_steps_and_the_second_waits_for_a_batch_that_read_the_first(folder):
    keeper = begun(folder)
    assert keeper.adopt(WANTED)
    announced = folder.join_plan("j")
    assert set(announced.hard_ends) == {HOT}
    assert announced.hard_ends[HOT] >= 110 * SECOND + 5 * SECOND + 3 * 10 * SECOND
    keeper.see(report(2, 0, 120))
    assert keeper.changing
    keeper.see(report(3, announced.version, 130))
    assert not keeper.changing
    assert folder.join_plan("j").hard_ends == {}
    assert keeper.grids() == WANTED
    assert not keeper.adopt(WANTED), "what is in force is not begun anew"


def test_a_key_that_is_not_wanted_any_more_goes_back_to_the_tail(folder):
    keeper = begun(folder)
    keeper.adopt(WANTED)
    keeper.see(report(2, 1, 120))
    keeper.adopt({})
    keeper.see(report(3, keeper.timeline.version, 130))
    assert keeper.timeline.versions(HOT)[-1].rows == TAIL
    assert keeper.grids() == {}


def test_while_a_change_is_under_way_no_other_begins(folder):
    keeper = begun(folder)
    keeper.adopt(WANTED)
    assert not keeper.ready
    with pytest.raises(JoinPlanError, match="under way"):
        keeper.adopt({})
    keeper.cancel()
    assert folder.join_plan("j").hard_ends == {}
    assert keeper.ready


def test_batches_that_nobody_reported_keep_the_plan_from_changing(folder):
    keeper = begun(folder)
    keeper.see(report(7, 0, 170))
    assert "batches 2 to 6 of join 'j' were not reported" in keeper.problem
    assert keeper.view().problem == keeper.problem
    with pytest.raises(JoinPlanError, match="not reported"):
        keeper.adopt(WANTED)


def test_batches_that_nobody_reported_are_read_from_the_state(folder):
    asked = []

    def maxima(name, batch):
        asked.append((name, batch))
        return Maxima(500 * SECOND, 400 * SECOND)

    keeper = begun(folder, maxima=maxima)
    keeper.see(report(7, 0, 170))
    assert (keeper.problem, asked) == (None, [("j", 6)])
    keeper.adopt(WANTED)
    assert keeper.timeline.hard_ends[HOT] > 500 * SECOND


def test_a_state_that_cannot_be_read_is_told(folder):
    def maxima(name, batch):
        raise OSError(f"no state of {name} at {batch}")

    keeper = begun(folder, maxima=maxima)
    keeper.see(report(7, 0, 170))
    assert "cannot be read (no state of j at 6)" in keeper.problem


def test_a_batch_that_said_nothing_of_a_join_though_it_had_rows_counts_as_missing(folder):
    keeper = begun(folder)
    keeper.see(report(2, 0, 120, joins={}))
    keeper.see(report(3, 0, 130))
    assert "batches 2 to 2" in keeper.problem


def test_another_process_goes_on_from_what_was_kept_and_takes_an_unfinished_change_back(folder):
    begun(folder).adopt(WANTED)
    again = JoinPlanPublisher(folder, "j")
    assert folder.join_plan("j").hard_ends == {}
    assert again.plan().grids == {}
    again.see(report(2, 2, 120))
    again.see(report(3, 2, 130))
    assert again.problem is None
    assert again.adopt(WANTED)


def test_a_plan_that_somebody_else_wrote_ends_a_change_that_is_under_way(folder):
    keeper = begun(folder)
    keeper.adopt(WANTED)
    folder.change_join_plan("j", lambda plan: plan.without_hard_ends())
    keeper.see(report(2, 2, 120))
    assert not keeper.changing
    assert keeper.timeline == folder.join_plan("j")
    assert keeper.grids() == {}


def test_a_damaged_plan_is_put_back(folder, tmp_path):
    keeper = begun(folder)
    keeper.adopt(WANTED)
    (tmp_path / "join-j.json").write_text("{")
    keeper.see(report(2, 1, 120))
    assert folder.join_plan("j") == keeper.timeline
    assert keeper.grids() == WANTED


def test_a_batch_that_failed_at_the_hard_end_moves_it_ahead(folder):
    joins = Joins(folder, WindowSettings(2.0, 2.0))
    for batch in range(2):
        joins.see(report(batch, 0, 100 + 10 * batch), [])
    joins.adopt("j", WANTED)
    before = folder.join_plan("j").hard_ends[HOT]
    assert not joins.died("out of memory")
    assert joins.died(f"FORETIDE-PAST-HARD-END key_hash=7 reached={900 * SECOND} hard_end={before}")
    assert folder.join_plan("j").hard_ends[HOT] > 900 * SECOND
    joins.close()
    assert folder.join_plan("j").hard_ends == {}
    with pytest.raises(JoinPlanError, match="there is no join 'k'; there are j"):
        joins.adopt("k", {})


def test_the_view_tells_the_keys_of_the_last_window_and_what_the_plan_makes_of_them(folder):
    keeper = begun(folder)
    assert keeper.view().windows == 0
    keeper.see(report(2, 0, 120))
    view = keeper.view()
    assert view.windows == 1
    assert {load.key: (load.left, load.right) for load in view.keys} == {HOT: (120, 120), 8: (10, 10)}
    assert sum(load.left for load in view.tail) == 200 - 130
    assert {load.key for load in view.foreseen} == {HOT, 8}
    assert view.imbalance > 2
    keeper.adopt(WANTED)
    assert set(keeper.view().pending.grids) == {HOT}
    keeper.see(report(3, 1, 130))
    assert keeper.view().imbalance < 0.5
    assert keeper.view().pending is None


def test_windows_may_overlap_and_be_shifted(folder):
    keeper = JoinPlanPublisher(folder, "j", windows=WindowSettings(window=4.0, advance=2.0, offset=1.0))
    rows, counted = [], []
    for batch in range(10):
        keeper.see(report(batch, 0, 100 + 10 * batch))
        view = keeper.view()
        rows.append(sum(load.left for load in view.keys) + sum(load.left for load in view.tail))
        counted.append(view.windows)
    assert counted == [0, 0, 0, 0, 1, 2, 2, 3, 3, 4], "as soon as one could be whole, then every 2 seconds past 1"
    assert set(rows[4:]) == {400}, "each of the last 4 seconds"


def test_partitions_follow_what_the_state_really_has(folder):
    keeper = begun(folder)
    keeper.see(report(2, 0, 120, state=StateSize(1, 1, 0, 8)))
    assert keeper.view().partitions == 8
    assert folder.joins()["j"].partitions == 8


def tasks_of(rows, seconds):
    names = ("waited_ms", "cpu_ms", "deserialize_ms", "gc_ms", "fetch_wait_ms", "write_ms")
    times = dict.fromkeys(names, 0.0)
    sizes = {"rows_out": 0, "bytes_read": 1, "bytes_written": 0, "spilled_bytes": 0}
    return tuple(
        TaskRun("q", place, None, None, False, "0", "here", run_ms=1000 * took, rows_in=taken, **times, **sizes)
        for place, (taken, took) in enumerate(zip(rows, seconds, strict=True))
    )


def test_what_its_tasks_cost_is_learnt_once_a_window_from_batches_that_are_placed_as_planned(folder):
    home = tail_partition(HOT, 4)
    rows = [35, 35, 35, 35]
    rows[home] += 60 * 2
    seconds = [0.1] * 4
    seconds[home] = 1.0
    keeper = JoinPlanPublisher(folder, "j", windows=WindowSettings(2.0, 2.0))
    changes = {"tasks": tasks_of(rows, seconds), "state": StateSize(400, 0, 0)}
    keeper.see(report(0, 0, 100, **changes))
    assert keeper.view().cost is None, "no window is over"
    for batch in (1, 2, 3):
        keeper.see(report(batch, 0, 100 + 10 * batch, **changes))
    cost = keeper.view().cost
    work = predict(NO_PLAN, keeper.view().keys, keeper.view().tail, lambda key: tail_partition(key, 4), cost).work
    assert work.index(max(work)) == home
    assert max(work) == pytest.approx(2 * 1.0, rel=0.2), "a window has two batches"
    assert keeper.view().rows == tuple(rows)
    elsewhere = tasks_of(rows[::-1] if home not in (1, 2) else [*rows[2:], *rows[:2]], [9.0] * 4)
    costs = []
    for batch in range(4, 12):
        keeper.see(report(batch, 0, 100 + 10 * batch, tasks=elsewhere, state=StateSize(400, 0, 0)))
        costs.append(keeper.view().cost)
    assert len(set(costs[2:])) == 1, "rows that are not where the plan puts them tell nothing"
