"""The control folder of a query with edges only, to which a control loop is attached."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.holds import check_driver, running_query, take
from foretide.errors import ControlFolderError
from foretide.runtime.pipeline.followed import FollowedQuery


class Streaming:
    """A StreamingQuery as far as it is asked here."""

    def __init__(self, name, query, run):
        self.name, self.id, self.runId, self.isActive = name, query, run, True


@pytest.fixture
def folder(tmp_path):
    return ControlFolder(str(tmp_path / "control"))


def followed(folder, *query):
    made = FollowedQuery(Streaming(*query), folder, None)
    made.start()
    return made


def test_another_query_is_refused_while_the_first_runs_and_may_have_the_folder_afterwards(folder):
    first = followed(folder, "orders", "a", "run-1")
    assert running_query(folder.location).query == "orders"
    with pytest.raises(ControlFolderError, match=r"is used by query 'orders'.* folder of its own"):
        check_driver(folder.location, "b")
    with pytest.raises(ControlFolderError, match="is used by query 'orders'"):
        followed(folder, "others", "b", "run-2")
    with pytest.raises(ControlFolderError, match="is used by query 'orders'"):
        take(folder.location, "driver", "pipeline")
    assert folder.status.facts().name == "orders"
    first.handle.isActive = False
    second = followed(folder, "others", "b", "run-3")  # its checkpoint may have been deleted, so its id is new
    assert folder.status.facts().name == "others"
    second.follower._end()
    take(folder.location, "driver", "pipeline").release()


def test_a_query_that_was_started_again_has_its_folder_still(folder):
    first = followed(folder, "orders", "a", "run-1")
    again = followed(folder, "orders", "a", "run-2")
    first.follower._end()
    assert running_query(folder.location).query == "orders", "that was the run before"
    again.follower._end()
    assert running_query(folder.location) is None


def test_a_query_whose_spark_has_gone_does_not_keep_its_folder(folder):
    class Gone(SimpleNamespace):
        @property
        def isActive(self):  # noqa: N802 - the name is Spark's
            raise ConnectionError

    made = FollowedQuery(Gone(name="orders", id="a", runId="run-1"), folder, None)
    made.start()
    assert running_query(folder.location) is None
    take(folder.location, "driver", "others").release()
