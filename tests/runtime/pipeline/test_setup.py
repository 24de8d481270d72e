"""What can be done to a query is worked out once after every start. A pipeline without Spark: it is never started."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from foretide.control_folder.folder import ControlFolder
from foretide.metrics.batch import BatchReport, StateSize
from foretide.runtime.pipeline.query import Query
from foretide.runtime.pipeline.submit import Pipeline
from foretide.settings.run import RunSettings
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import Fields
from foretide.topology.shape import PlanShape
from foretide.topology.sinks import Parquet
from foretide.topology.sources import Rate

TOPOLOGY = Topology(
    "q",
    [Spout("read", Rate(1))],
    [
        Bolt("work", lambda df: df, [From("read")], pool=3),
        Bolt("count", lambda df: df, [From("work", Fields("key"))]),
    ],
)


class Executors:
    """Those of local mode."""

    cores, range, can_quarantine = 2, None, False


EXECUTORS = Executors()


class Conf:
    """Spark's settings, counting how often they are asked for."""

    def __init__(self):
        self.asked = 0

    def get(self, _):
        self.asked += 1
        return "7"


class Unstarted(Query):
    """A query as it is before its start, compiled as far as the setup needs it."""

    def _compile(self, topology):
        self.control_folder.change_routes(lambda table: table.declare("work", topology.component("work").pool_size))
        return SimpleNamespace(shape=PlanShape(behind={"work": "count"}))

    def state_obstacle(self):
        return "its state is kept in memory"


@pytest.fixture
def pipeline(tmp_path):
    spark = SimpleNamespace(conf=Conf(), sparkContext=SimpleNamespace(defaultParallelism=2))
    folder, settings = ControlFolder(str(tmp_path)), RunSettings(monitoring=None)
    query = Unstarted(spark, TOPOLOGY, Parquet(str(tmp_path / "out")), str(tmp_path / "ck"), settings, folder)
    return Pipeline(query)


def ended(pipeline, number, state=None):
    pipeline.follower.publish(BatchReport(number, float(number), 0.1, 10, 1, {}, state=state))


def pools(setup):
    return {operator.name: operator.pool for operator in setup.operators}


def test_the_setup_of_a_pipeline_is_made_once_a_start(pipeline):
    first = pipeline.setup(EXECUTORS)
    assert pools(first) == {"read": 2, "work": 3, "count": 7}
    assert first.by_edge.keys() == {"work"}
    for number in range(3):
        ended(pipeline, number)
        assert pipeline.setup(EXECUTORS) is first
    assert pipeline.spark.conf.asked == 1


def test_a_start_with_other_pools_is_another_setup(pipeline):
    before = pipeline.setup(EXECUTORS)
    pipeline.follower.query.resize({"work": 5})
    assert pipeline.setup(EXECUTORS) is before  # until it runs like that
    pipeline.follower.query.started += 1
    assert pipeline.setup(EXECUTORS).by_name["work"] == replace(before.by_name["work"], pool=5)


def test_partitions_of_state_are_those_that_a_batch_shows(pipeline):
    assert pools(pipeline.setup(EXECUTORS))["count"] == 7
    ended(pipeline, 0, StateSize(1, 1, 0, partitions=4))
    shown = pipeline.setup(EXECUTORS)
    assert pools(shown)["count"] == 4
    ended(pipeline, 1, StateSize(2, 2, 0, partitions=4))
    assert pipeline.setup(EXECUTORS) is shown
