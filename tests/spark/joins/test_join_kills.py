"""Joins whose executors, driver or query die: what is committed stays that of Spark's own join, row for row."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import foretide as ft
from foretide.control.actions.registry import SetJoinPlan
from foretide.control.decisions.decision import Wish
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.control_folder.folder import ControlFolder
from foretide.joins.placement.salts import TAIL
from foretide.joins.plan import JoinPlan, KeyGrid
from helpers import multiset, rows_taken, wait_for
from joins.placement.reference_cells import version_at
from spark.joins.join_cases import SECOND, Driver, Shape, batches_of, expected, put, put_all, sides
from spark.joins.join_crash_app import CHANGING, IN_FORCE, LAST, STORY, Mode, Run
from spark.joins.join_crashes import committed, doomed, notes, output, plan_read

NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"

pytestmark = pytest.mark.apart


def key_hashes(spark, rows, shape):
    """The hash of each row's key, by the row's id."""
    schema = "case int, k string, n int, id string"
    keyed = spark.createDataFrame([tuple(row.get(name) for name in ("case", "k", "n", "id")) for row in rows], schema)
    return {row["id"]: row["hash"] for row in keyed.select("id", F.hash(*shape.on).alias("hash")).collect()}


# ---- executors and the driver


@dataclass(frozen=True)
class Story:
    """A run that lost an executor twice, and its driver, and was then run again: what went in, and what it noted."""

    folder: Path
    batches: list
    wanted: Counter
    before: list
    after: list

    def noted(self, batch, what):
        return next(each for each in self.before if each["batch"] == batch and what in each)

    def split_rows(self, spark, batch):
        """How many rows of a batch had a place in the grid of a hot key, by the plan that it had read."""
        rows, plan = self.batches[batch], plan_read(self.folder, batch)
        hashes = key_hashes(spark, rows, STORY.shape)
        return sum(version_at(plan, hashes[row["id"]], row["t"]).rows != TAIL for row in rows)


@pytest.fixture(scope="module")
def story(quick, tmp_path_factory):
    folder = tmp_path_factory.mktemp("story")
    batches = put_all(folder / "input", STORY.shape, seed=3)
    with doomed(folder, "story") as alive:
        wanted = expected(quick, folder, STORY.shape)
        wait_for(lambda: not alive() or any(each["batch"] == LAST for each in notes(folder)))
    before = notes(folder)
    assert not committed(folder, LAST), "the driver was to die in the middle of it"
    Run(quick, folder, Mode(STORY.shape)).finish()
    return Story(folder, batches, wanted, before, notes(folder)[len(before) :])


def wanted_by(story, batch):
    """The pairs that a batch has to bring: those of its own rows with all that came before."""
    brought = {row["id"]: place for place, rows in enumerate(story.batches) for row in rows}
    return Counter(
        {
            (*keys, left, left_time, right, right_time): times
            for (*keys, left, left_time, right, right_time), times in story.wanted.items()
            if max(brought[left], brought[right]) == batch
        }
    )


@pytest.mark.soak
@pytest.mark.parametrize(("batch", "changing"), [(IN_FORCE, False), (CHANGING, True)])
def test_an_executor_that_dies_in_the_middle_of_a_batch_changes_no_row_of_it(quick, story, batch, changing):
    ended = story.noted(batch, "ended")
    assert ended["changing"] == changing
    assert ended["failed_tasks"] > 0, "no task of the join was lost"
    assert story.split_rows(quick, batch) > 10, "too few rows were under a plan to say anything"
    wanted, found = wanted_by(story, batch), output(quick, story.folder, batch)
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert wanted.total() > 10


@pytest.mark.soak
def test_a_driver_that_dies_in_the_middle_of_a_batch_under_a_plan_loses_and_doubles_nothing(quick, story):
    assert not story.noted(LAST, "joining")["changing"]
    assert story.split_rows(quick, LAST) > 10, "too few rows were under a plan to say anything"
    assert story.after[0]["batch"] == LAST, "the batch that was cut off is run again"
    assert story.after[-1]["problem"] is None
    found = output(quick, story.folder)
    assert (story.wanted - found, found - story.wanted) == (Counter(), Counter())
    assert story.wanted.total() > 300


# ---- a restart


def test_a_restart_goes_on_exactly_with_rows_that_reach_back_over_several_versions_of_the_plan(quick, tmp_path):
    shape = Shape(rows=250, batches=12, cases=8, late=32.0, delay="40 seconds")
    batches, stop = batches_of(shape, seed=11), 9
    first, then = (dict(list(enumerate(batches))[part]) for part in (slice(stop), slice(stop, None)))
    drivers = []
    for files in (first, then):
        for place, rows in files.items():
            put(tmp_path / "input", place, rows)
        drivers.append(Driver(quick, tmp_path, shape, seed=12))
        plan = drivers[-1].publisher.timeline
        drivers[-1].finish()
    wanted, found = expected(quick, tmp_path, shape), drivers[0].rows + drivers[1].rows
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert drivers[1].publisher.timeline.version > plan.version, "the plan went on changing after the restart"
    early, late = ({row["id"]: row for rows in files.values() for row in rows} for files in (first, then))
    hashes = key_hashes(quick, early.values(), shape)
    across = [early[pair[2]] for pair in drivers[1].rows if pair[2] in early and pair[4] in late]
    ages = Counter(age_at(plan, hashes[row["id"]], row["t"]) for row in across)
    assert sum(pairs > 5 for pairs in ages.values()) >= 3, f"pairs across the restart are of too few versions: {ages}"


def age_at(timeline, key_hash, time):
    """How many versions of a key's plan came before the one at a time."""
    return timeline.versions(key_hash).index(version_at(timeline, key_hash, time))


# ---- a pipeline


@dataclass(frozen=True)
class WhenAsked:
    """Wishes one action from when it is asked to, until it is in force."""

    action: object
    asked: threading.Event
    name: str = "when-asked"

    def start(self):
        return None

    def wish(self, state, world):
        if not self.asked.is_set() or self.action.in_force(world.observed):
            return state, []
        return state, [Wish(self.name, self.action, "the test asks for it")]


@pytest.fixture
def no_data_batches_off(quick):
    before = quick.conf.get(NO_DATA_BATCHES)
    quick.conf.set(NO_DATA_BATCHES, "false")
    yield
    quick.conf.set(NO_DATA_BATCHES, before)


@pytest.mark.usefixtures("no_data_batches_off")
def test_a_pipeline_that_dies_because_event_time_runs_ahead_of_a_change_goes_on_by_itself(quick, start, tmp_path):
    shape = Shape(on=("k",), rows=60, batches=7, late=4.0, delay="30 seconds")  # both sides may be read apart
    jump = 4
    batches = [leapt(rows, place - jump) for place, rows in enumerate(batches_of(shape, seed=13))]
    checkpoint = str(tmp_path / "checkpoint")
    folder = ControlFolder(f"{checkpoint}/foretide")
    monitoring = ft.MonitorSettings(store="", workers_every=0, machines_every=0)
    pipeline = start(topology(tmp_path, shape, folder), checkpoint=checkpoint, monitoring=monitoring)
    hot = [hashed for hashed, _ in Counter(key_hashes(quick, batches[0], shape).values()).most_common(3)]
    action = SetJoinPlan("join", JoinPlan(dict.fromkeys(hot, KeyGrid(((0, 1), (2, 0))))))
    asked = threading.Event()
    settings = ft.Settings(guards=GuardSettings(cooldown=0.0), evaluation=EvaluationSettings(roll_back=False))
    ft.control(pipeline, [WhenAsked(action, asked)], settings=settings)
    for place, rows in enumerate(batches):
        if place == jump:
            asked.set()
            wait_for(lambda: folder.join_plan("join").hard_ends, pipeline)
        put(tmp_path / "input", place, rows)
        taken = sum(map(len, batches[: place + 1]))
        wait_for(lambda rows=taken: rows_taken(pipeline) >= rows or not pipeline.running)
    restarts, plan = pipeline.restarts, folder.join_plan("join")
    pipeline.stop()
    pipeline.raise_failure()
    assert restarts >= 1, "no batch ran into the hard end"
    after = {row["id"]: row["t"] for rows in batches[jump + 1 :] for row in rows}
    hashes = key_hashes(quick, [row for rows in batches[jump + 1 :] for row in rows], shape)
    assert sum(version_at(plan, hashes[row], time).rows != TAIL for row, time in after.items()) > 10
    wanted, found = expected(quick, tmp_path, shape), multiset(pipeline.output("pairs"))
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert wanted.total() > 100
    shutil.rmtree(folder.location)
    with pytest.raises(ft.errors.JoinPlanError, match="which is empty, so pairs would be lost"):
        start(topology(tmp_path, shape, folder), checkpoint=checkpoint, monitoring=monitoring)


def leapt(rows, since):
    """Rows from a leap in event time on: an hour ahead, and then twenty seconds more a batch."""
    ahead = 0 if since < 0 else (3600 + 20 * since) * SECOND
    return [row | {"t": row["t"] + ahead} for row in rows]


def topology(folder, shape, control):
    def load(spark):
        return ft.join(
            *sides(spark, folder / "input", shape), list(shape.on), shape.bound, control_folder=control.location
        )

    return ft.Topology(
        "pairs", [ft.Spout("joined", ft.Stream(load))], [ft.Bolt("pairs", lambda pairs: pairs, [ft.From("joined")])]
    )
