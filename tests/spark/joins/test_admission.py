"""A join runs with the control folder that belongs to its query and with the plan of its state, or it does not run."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.joins.placement.salts import salt_grid
from foretide.joins.plan import KeyGrid
from helpers import wait_for
from spark.joins.join_cases import BEGIN, PARTITIONS, Shape, batches_of, expected, put, sides, start
from spark.joins.test_join_kills import key_hashes

SHAPE = Shape(on=("k",), rows=80, batches=2, late=4.0, delay="30 seconds")
GRID = KeyGrid(((0, 1), (2, 0)))


def joined(spark, folder, moved_to=None):
    both = sides(spark, folder / "input", SHAPE)
    control = str((moved_to or folder) / "control")
    return ft.join(*both, list(SHAPE.on), SHAPE.bound, partitions=PARTITIONS, control_folder=control)


@dataclass(frozen=True)
class Stopped:
    """A join that was stopped after a batch under a plan that splits its hot keys."""

    folder: Path
    rows: list


@pytest.fixture(scope="module")
def stopped(quick, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    batches = batches_of(SHAPE, seed=21)
    put(folder / "input", 0, batches[0])
    frame, control = joined(quick, folder), ControlFolder(str(folder / "control"))
    hot = [key for key, _ in Counter(key_hashes(quick, batches[0], SHAPE).values()).most_common(3)]
    grids = {key: salt_grid(key, GRID, PARTITIONS, frozenset()) for key in hot}
    control.change_join_plan("join", lambda plan: plan.continued(grids, BEGIN))
    query, rows = start(frame, folder)
    query.awaitTermination()
    for number, later in enumerate(batches[1:], 1):
        put(folder / "input", number, later)
    return Stopped(folder, rows)


def test_a_join_goes_on_exactly_where_its_folder_and_checkpoint_were_moved_to_together(quick, stopped, tmp_path):
    shutil.copytree(stopped.folder / "control", tmp_path / "control")
    shutil.copytree(stopped.folder / "checkpoint", tmp_path / "checkpoint")
    query, rows = start(joined(quick, stopped.folder, tmp_path), tmp_path)
    query.awaitTermination()
    wanted, found = expected(quick, stopped.folder, SHAPE), Counter(stopped.rows) + Counter(rows)
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert len(rows) > 10


EMPTY = json.dumps({"format": 1, "version": 9, "plan": []})
DAMAGE = {
    "folder lost": lambda folder: shutil.rmtree(folder / "control"),
    "plan emptied": lambda folder: (folder / "control" / "join-join.json").write_text(EMPTY),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_join_whose_plan_does_not_fit_its_state_is_refused_before_its_first_batch(quick, stopped, tmp_path, name):
    shutil.copytree(stopped.folder, tmp_path, dirs_exist_ok=True)
    DAMAGE[name](tmp_path)
    offsets = set((tmp_path / "checkpoint" / "offsets").iterdir())
    query, rows = start(joined(quick, tmp_path), tmp_path)
    with pytest.raises(StreamingQueryException, match=r"FORETIDE-REFUSED: join 'join': the state in checkpoint"):
        query.awaitTermination()
    assert not rows
    assert set((tmp_path / "checkpoint" / "offsets").iterdir()) == offsets


def test_a_second_query_on_a_control_folder_is_refused_and_the_first_goes_on(quick, tmp_path):
    batches = batches_of(SHAPE, seed=22)
    put(tmp_path / "input", 0, batches[0])
    frame = joined(quick, tmp_path)
    first = frame.writeStream.format("noop").queryName("first").option("checkpointLocation", str(tmp_path / "first"))
    first = first.start()
    try:
        with pytest.raises(ft.errors.JoinError, match="is used by query 'first'"):
            joined(quick, tmp_path)
        second, rows = start(frame, tmp_path)  # the same DataFrame, so what is checked is the start
        with pytest.raises(StreamingQueryException, match=r"FORETIDE-REFUSED: the control folder .* by query 'first'"):
            second.awaitTermination()
        assert not rows
        put(tmp_path / "input", 1, batches[1])
        wait_for(lambda: not first.isActive or sum(p.numInputRows > 0 for p in first.recentProgress) >= 2)
        assert first.isActive
    finally:
        first.stop()
    third, rows = start(joined(quick, tmp_path), tmp_path)  # no key was ever split by that folder
    third.awaitTermination()
    assert rows
