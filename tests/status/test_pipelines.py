"""What the read model tells of pipelines, from the files that they and people write."""

import os
from pathlib import Path

import pytest

from foretide.control.world.setup import Target
from foretide.control_folder.folder import ControlFolder, ControlStatus, PipelineStatus
from foretide.errors import ControlFolderError, PipelineNotFoundError
from foretide.metrics.batch import EdgeFlow
from foretide.status.pipelines import (
    EdgeState,
    PipelineSummary,
    Running,
    announce,
    find_folder,
    is_running,
    list_pipelines,
    read_routes,
    read_state,
)

BATCH = PipelineStatus(7, 100.0, 30, 1, {"work": EdgeFlow(30, 30, per_task=(10, 20))})
LOOP = ControlStatus(101.0, "advise", ("bypass", "replicas"), Target(2.0))


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path):
    made = ControlFolder(str(tmp_path / "control"))
    made.change_routes(lambda table: table.declare("work", pool=2).declare("later", pool=1))
    return made


def test_a_pipeline_without_a_batch_or_a_loop_has_a_state_too(folder):
    state = read_state(folder)
    assert (state.batch, state.control, state.drained, state.admission) == (None, None, (), {})
    assert not state.controlled


def test_the_state_holds_the_last_batch_the_loop_and_the_orders(folder):
    folder.status.write(BATCH)
    folder.status.write(LOOP)
    folder.orders.drain("b")
    folder.orders.drain("a")
    folder.orders.limit_admission("lines", 5)
    state = read_state(folder)
    assert (state.batch, state.control, state.drained, state.admission) == (BATCH, LOOP, ("a", "b"), {"lines": 5})
    assert state.controlled


def test_routes_have_the_published_shares_and_the_rows_of_the_last_batch(folder):
    assert read_routes(folder).in_force is None
    folder.status.write(BATCH)
    routes = read_routes(folder)
    assert (routes.version, routes.in_force) == (folder.routes().version, BATCH)
    assert routes.edges == {"work": EdgeState(2, (0.5, 0.5), (10, 20)), "later": EdgeState(1, (1.0,), None)}


def test_running_pipelines_are_listed_with_their_last_batch_and_their_loop(folder):
    announce(Running("shop", os.getpid(), folder.location, "store.db"))
    alone = PipelineSummary("shop", os.getpid(), folder.location, "store.db", None, None, ())
    assert list_pipelines() == [alone]
    folder.status.write(BATCH)
    folder.status.write(LOOP)
    (found,) = list_pipelines()
    assert (found.batch, found.mode, found.policies) == (7, "advise", ("bypass", "replicas"))


def test_a_folder_is_found_by_its_path_or_by_the_pipeline(folder):
    with pytest.raises(PipelineNotFoundError, match="--control-folder"):
        find_folder(None, None)
    assert find_folder(None, folder.location).location == folder.location
    announce(Running("shop", os.getpid(), folder.location))
    assert find_folder("shop", None).location == find_folder(None, None).location == folder.location


def test_a_folder_is_the_same_by_a_path_from_the_working_folder(folder, monkeypatch):
    announce(Running("shop", os.getpid(), folder.location))
    monkeypatch.chdir(Path(folder.location).parent)
    for path in (Path(folder.location).name, f"./{Path(folder.location).name}/"):
        assert is_running(find_folder(None, path))


def test_a_folder_that_no_pipeline_has_used_is_refused(tmp_path):
    with pytest.raises(ControlFolderError, match="is not a control folder"):
        find_folder(None, str(tmp_path / "empty"))
