"""Joins of a running query: plans step by step through changes, gaps, restarts, failures and other writers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foretide.control_folder.claim import Claim, admit
from foretide.control_folder.filesystem import LocalFilesystem
from foretide.control_folder.folder import ControlFolder
from foretide.errors import JoinPlanError
from foretide.joins.placement.plan_change import Maxima
from foretide.joins.placement.salts import TAIL, tail_partition
from foretide.joins.placement.spec import JoinBound, JoinSpec
from foretide.joins.placement.timeline import Timeline
from foretide.joins.plan import NO_PLAN, JoinPlan, KeyGrid
from foretide.joins.planning.planner import predict
from foretide.joins.settings import WindowSettings
from foretide.metrics.batch import BatchReport, JoinBatch, JoinSide, StateSize, TaskRun
from foretide.runtime.live_joins import Joins, LiveJoin
from helpers import NO_SPACE, READ_ONLY, FullDisk

SECOND = 1_000_000
HOT = 7
WANTED = JoinPlan({HOT: KeyGrid(((0, 1), (2, 3)))})


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
    join = LiveJoin(folder, "j", windows=WindowSettings(2.0, 2.0), **options)
    for batch in range(batches):
        join.see(report(batch, 0, 100 + 10 * batch))
    return join


def test_a_change_takes_two_steps_and_the_second_waits_for_a_batch_that_read_the_first(folder):
    join = begun(folder)
    assert join.publisher.adopt(WANTED)
    announced = folder.join_plan("j")
    assert set(announced.hard_ends) == {HOT}
    assert announced.hard_ends[HOT] >= 110 * SECOND + 5 * SECOND + 3 * 10 * SECOND
    join.see(report(2, 0, 120))
    assert join.view().pending == WANTED
    join.see(report(3, announced.version, 130))
    assert join.view().pending is None
    assert folder.join_plan("j").hard_ends == {}
    assert join.view().plan == WANTED
    assert not join.publisher.adopt(WANTED), "what is in force is not begun anew"


def test_a_plan_is_in_force_once_a_batch_has_read_it(folder):
    samples = []
    joins = Joins(folder, WindowSettings(2.0, 2.0), put=samples.extend)
    for batch in range(2):
        joins.see(report(batch, 0, 100 + 10 * batch), [])
    joins.adopt("j", WANTED)
    announced = folder.join_plan("j").version
    joins.see(report(2, announced, 120), [])
    published = folder.join_plan("j").version
    assert published > announced
    assert joins.views()["j"].plan == WANTED
    assert joins.in_force() == {"j": NO_PLAN}
    joins.see(report(3, announced, 130), [])  # it had begun before
    assert joins.in_force() == {"j": NO_PLAN}
    joins.see(report(4, published, 140), [])
    assert joins.in_force() == {"j": WANTED}
    assert {(sample.metric, sample.subject) for sample in samples} == {("join_imbalance", "j")}
    assert samples[-1].value == joins.views()["j"].imbalance


def test_what_a_join_holds_is_shown(folder):
    join = begun(folder)
    assert join.view().row_bytes is None
    join.see(report(2, 0, 120, state=StateSize(900, 90_000, 0, 4, 500, 60_000)))
    join.see(report(3, 0, 130))
    view = join.view()
    assert (view.state_rows, view.state_bytes, view.row_bytes) == (500, 60_000, 120.0)


def test_a_key_that_is_not_wanted_any_more_goes_back_to_the_tail(folder):
    join = begun(folder)
    join.publisher.adopt(WANTED)
    join.see(report(2, 1, 120))
    join.publisher.adopt(NO_PLAN)
    join.see(report(3, join.publisher.timeline.version, 130))
    assert join.publisher.timeline.versions(HOT)[-1].rows == TAIL
    assert join.view().plan == NO_PLAN


def test_while_a_change_is_under_way_no_other_begins(folder):
    join = begun(folder)
    join.publisher.adopt(WANTED)
    assert join.view().pending == WANTED
    with pytest.raises(JoinPlanError, match="under way"):
        join.publisher.adopt(NO_PLAN)
    join.publisher.cancel()
    assert folder.join_plan("j").hard_ends == {}
    assert join.view().pending is None


def test_no_change_should_begin_before_the_pace_of_event_time_is_known(folder):
    join = begun(folder, batches=1)
    assert join.view().problem == "too few batches were seen"
    join.see(report(1, 0, 110))
    assert join.view().problem is None


def test_batches_that_nobody_reported_keep_the_plan_from_changing(folder):
    join = begun(folder)
    join.see(report(7, 0, 170))
    assert "batches 2 to 6 of join 'j' were not reported" in join.publisher.problem
    assert join.view().problem == join.publisher.problem
    with pytest.raises(JoinPlanError, match="not reported"):
        join.publisher.adopt(WANTED)


def test_batches_that_nobody_reported_are_read_from_the_state(folder):
    asked = []

    def maxima(name, batch):
        asked.append((name, batch))
        return Maxima(500 * SECOND, 400 * SECOND)

    join = begun(folder, read_maxima=maxima)
    join.see(report(7, 0, 170))
    assert (join.publisher.problem, asked) == (None, [("j", 6)])
    join.publisher.adopt(WANTED)
    assert join.publisher.timeline.hard_ends[HOT] > 500 * SECOND


def test_a_state_that_cannot_be_read_is_told(folder):
    def maxima(name, batch):
        raise OSError(f"no state of {name} at {batch}")

    join = begun(folder, read_maxima=maxima)
    join.see(report(7, 0, 170))
    assert "cannot be read (no state of j at 6)" in join.publisher.problem


def test_a_batch_that_said_nothing_of_a_join_though_it_had_rows_counts_as_missing(folder):
    join = begun(folder)
    join.see(report(2, 0, 120, joins={}))
    join.see(report(3, 0, 130))
    assert "batches 2 to 2" in join.publisher.problem


def test_another_process_goes_on_from_what_was_kept_and_takes_an_unfinished_change_back(folder):
    begun(folder).publisher.adopt(WANTED)
    again = LiveJoin(folder, "j")
    assert folder.join_plan("j").hard_ends == {}
    assert again.view().plan == NO_PLAN
    again.see(report(2, 2, 120))
    again.see(report(3, 2, 130))
    assert again.publisher.problem is None
    assert again.publisher.adopt(WANTED)


def test_a_plan_that_somebody_else_wrote_ends_a_change_that_is_under_way(folder):
    join = begun(folder)
    join.publisher.adopt(WANTED)
    folder.change_join_plan("j", lambda plan: plan.without_hard_ends())
    join.see(report(2, 2, 120))
    assert join.view().pending is None
    assert join.publisher.timeline == folder.join_plan("j")
    assert join.view().plan == NO_PLAN


@pytest.mark.parametrize("damage", [lambda file: file.write_text("{"), lambda file: file.unlink()])
def test_a_plan_that_is_damaged_or_deleted_while_the_query_runs_is_put_back_and_its_checkpoint_knows(
    folder, tmp_path, damage
):
    claim = Claim("id", str(tmp_path / "checkpoint"), {"j": "token"})
    admit(folder, claim, fresh=True)
    join = begun(folder)
    join.publisher.adopt(WANTED)
    damage(tmp_path / "join-j.json")
    join.see(report(2, 1, 120))
    assert folder.join_plan("j") == join.publisher.timeline
    assert join.view().plan == WANTED
    assert '"query":"token"' in (tmp_path / "join-j.json").read_text()
    admit(folder, claim, fresh=False)


def test_joins_of_a_loop_that_was_stopped_leave_the_plans_to_the_next_one(folder):
    stopped = Joins(folder, WindowSettings(2.0, 2.0))
    stopped.see(report(0, 0, 100), [])
    stopped.close()
    join = begun(folder)
    join.publisher.adopt(WANTED)
    announced = folder.join_plan("j")
    stopped.see(report(2, 0, 120), [])
    assert not stopped.died("FORETIDE-PAST-HARD-END key_hash=7 reached=1 hard_end=1")
    assert folder.join_plan("j") == announced


def test_a_plan_that_is_a_folder_is_put_back_and_the_folder_kept(folder, tmp_path):
    join = begun(folder)
    join.publisher.adopt(WANTED)
    (tmp_path / "join-j.json").unlink()
    (tmp_path / "join-j.json").mkdir()
    (tmp_path / "past-j.json").unlink()
    (tmp_path / "past-j.json").mkdir()
    join.see(report(2, 1, 120))
    assert folder.join_plan("j") == join.publisher.timeline
    assert folder.join_past("j").next_batch == 3
    assert (tmp_path / "join-j.json.damaged-1").is_dir()


def test_batches_wait_while_somebody_holds_the_lock_and_are_all_taken_in_later(folder, tmp_path):
    join = begun(folder)
    join.publisher.adopt(WANTED)
    with LocalFilesystem(tmp_path).lock():
        join.see(report(2, 1, 120))
        join.see(report(3, 1, 130))
        assert "cannot be changed at present" in join.publisher.problem
        assert "has locked it" in join.view().problem
        assert join.view().pending == WANTED
        join.close()
    join.see(report(4, 1, 140))
    assert join.publisher.problem is None
    assert folder.join_past("j").next_batch == 5
    assert folder.join_plan("j") == join.publisher.timeline
    assert join.view().pending is None


def test_other_partitions_are_followed_even_if_nobody_can_be_told(folder, tmp_path):
    join = begun(folder)
    with LocalFilesystem(tmp_path).lock():
        join.publisher.set_partitions(8)
    assert join.view().partitions == 8


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
    with pytest.raises(JoinPlanError, match="there is no join 'k'; joins of this query: j"):
        joins.adopt("k", NO_PLAN)


@pytest.mark.parametrize("damage", [lambda file: file.write_text("{"), lambda file: file.unlink()])
def test_a_query_that_died_for_lack_of_its_plan_may_start_again_with_the_last_one(folder, tmp_path, damage):
    joins = Joins(folder, WindowSettings(2.0, 2.0))
    for batch in range(2):
        joins.see(report(batch, 0, 100 + 10 * batch), [])
    joins.adopt("j", WANTED)
    announced = folder.join_plan("j")
    assert not joins.died("FORETIDE-PLAN-UNREADABLE of some other join")
    damage(tmp_path / "join-j.json")
    assert joins.died("whatever Spark says of a file that it cannot read")
    assert folder.join_plan("j") == announced
    assert not joins.died("of something else")


def test_the_view_tells_the_keys_of_the_last_window_and_what_the_plan_makes_of_them(folder):
    join = begun(folder)
    assert join.view().windows == 0
    join.see(report(2, 0, 120))
    view = join.view()
    assert view.windows == 1
    assert {load.key: (load.left, load.right) for load in view.keys} == {HOT: (120, 120), 8: (10, 10)}
    assert sum(load.left for load in view.tail) == 200 - 130
    assert {load.key for load in view.forecast} == {HOT, 8}
    assert view.imbalance > 2
    join.publisher.adopt(WANTED)
    assert join.view().pending == WANTED
    join.see(report(3, 1, 130))
    assert join.view().imbalance < 0.5
    assert join.view().pending is None


def test_windows_may_overlap_and_be_shifted(folder):
    join = LiveJoin(folder, "j", windows=WindowSettings(window=4.0, advance=2.0, offset=1.0))
    rows, counted = [], []
    for batch in range(10):
        join.see(report(batch, 0, 100 + 10 * batch))
        view = join.view()
        rows.append(sum(load.left for load in view.keys) + sum(load.left for load in view.tail))
        counted.append(view.windows)
    assert counted == [0, 0, 0, 0, 1, 2, 2, 3, 3, 4], "as soon as one could be whole, then every 2 seconds past 1"
    assert set(rows[4:]) == {400}, "each of the last 4 seconds"


def test_partitions_follow_what_the_state_really_has(folder):
    join = begun(folder)
    join.see(report(2, 0, 120, state=StateSize(1, 1, 0, 8)))
    assert join.view().partitions == 8
    assert folder.joins()["j"].partitions == 8


def test_the_rows_of_tasks_before_a_repartition_are_not_compared_with_the_partitions_after_it(folder):
    join = begun(folder)
    join.see(report(2, 0, 120, tasks=tasks_of([50] * 4, [0.1] * 4), state=StateSize(1, 1, 0, 4)))
    assert join.view().measured_imbalance is not None
    join.see(report(3, 0, 130, state=StateSize(1, 1, 0, 8)))
    assert join.view().measured_imbalance is None


def tasks_of(rows, seconds):
    names = ("waited_ms", "cpu_ms", "deserialize_ms", "gc_ms", "fetch_wait_ms", "write_ms")
    times = dict.fromkeys(names, 0.0)
    sizes = {"rows_out": 0, "bytes_read": 1, "bytes_written": 0, "spilled_bytes": 0}
    return tuple(
        TaskRun("q", place, None, None, False, "0", "here", run_ms=1000 * took, rows_in=taken, **times, **sizes)
        for place, (taken, took) in enumerate(zip(rows, seconds, strict=True))
    )


def test_joiners_are_judged_by_the_tasks_of_the_join_on_each_executor(folder):
    join, runs = begun(folder), tasks_of([50, 30, 10, 10], [0.1, 0.2, 0.1, 0.1])
    placed = tuple(replace(run, worker=str(run.task // 2), waited_ms=20.0) for run in runs)
    last = report(2, 0, 120, tasks=placed, state=StateSize(1, 1, 0, 4))
    join.see(last)
    found = join.view().joiners
    assert {worker: each.rows for worker, each in found.items()} == {"0": 80, "1": 20}
    assert found["0"].latency == pytest.approx(0.02 + 0.3 / 80)
    assert found["1"].latency == pytest.approx(0.02 + 0.2 / 20)
    assert {each.seconds for each in found.values()} == {last.duration}


def test_what_its_tasks_cost_is_learnt_once_a_window_from_batches_that_are_placed_as_planned(folder):
    default = tail_partition(HOT, 4)
    rows = [35, 35, 35, 35]
    rows[default] += 60 * 2
    seconds = [0.1] * 4
    seconds[default] = 1.0
    join = LiveJoin(folder, "j", windows=WindowSettings(2.0, 2.0))
    changes = {"tasks": tasks_of(rows, seconds), "state": StateSize(400, 0, 0)}
    join.see(report(0, 0, 100, **changes))
    assert join.view().cost is None, "no window is over"
    for batch in (1, 2, 3):
        join.see(report(batch, 0, 100 + 10 * batch, **changes))
    cost = join.view().cost
    work = predict(NO_PLAN, join.view().keys, join.view().tail, lambda key: tail_partition(key, 4), cost).work
    assert work.index(max(work)) == default
    assert max(work) == pytest.approx(2 * 1.0, rel=0.2), "a window has two batches"
    assert join.view().rows == tuple(rows)
    elsewhere = tasks_of(rows[::-1] if default not in (1, 2) else [*rows[2:], *rows[:2]], [9.0] * 4)
    costs = []
    for batch in range(4, 12):
        join.see(report(batch, 0, 100 + 10 * batch, tasks=elsewhere, state=StateSize(400, 0, 0)))
        costs.append(join.view().cost)
    assert len(set(costs[2:])) == 1, "rows that are not where the plan puts them tell nothing"


# ---- a control folder that cannot be written


@pytest.mark.parametrize("error", [NO_SPACE, READ_ONLY])
def test_while_the_folder_cannot_be_written_the_plan_stays_and_batches_count(folder, tmp_path, error):
    disk = FullDisk(tmp_path)
    join = begun(ControlFolder(str(tmp_path), disk))
    join.publisher.adopt(WANTED)
    announced = folder.join_plan("j")
    disk.error = error
    join.see(report(2, 0, 145))  # read the old plan, and came near the hard end, which cannot be moved now
    assert "cannot be written" in join.publisher.problem
    with pytest.raises(JoinPlanError, match="cannot be written"):
        join.publisher.adopt(NO_PLAN)
    join.see(report(3, announced.version, 146))  # confirms the change, but it cannot be finished now
    assert folder.join_plan("j") == announced
    disk.error = None
    join.see(report(4, announced.version, 147))
    assert join.publisher.problem is None
    assert join.view().plan == WANTED
    start = folder.join_plan("j").newest(HOT).start
    assert start > 145 * SECOND + 5 * SECOND, "the batch that read the old plan counts"
    assert folder.join_past("j").next_batch == 5
