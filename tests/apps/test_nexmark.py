"""Nexmark's queries on Spark alone and under control: both give the rows that are worked out in pandas."""

from __future__ import annotations

import pytest

import foretide as ft
from foretide.apps.app import NEXMARK, Load, find_app
from foretide.apps.experiment import compared, is_over, replay_of, verify
from foretide.apps.nexmark.files import read_events, stream_of, write_files
from foretide.apps.nexmark.queries import QUERIES
from foretide.apps.nexmark.truth import TRUTHS
from foretide.apps.nexmark.ways import Controlled, Plain
from foretide.control_folder.folder import ControlFolder
from foretide.workloads.nexmark import NexmarkEvents
from helpers import wait_for

MADE = NexmarkEvents(seed=11, rate=100.0, people=40)
SIZES = (3000, 2000, 1000)
LEAST_ROWS = {"q2": 10, "q3": 8, "q4": 25, "q5": 30, "q7": 6}
CONTROLLED = ["q3", "q4", "q5", "q7", "q8", "q11", "q12"]
LOAD = Load(seconds=6, rate=500, seed=5, paced=False)


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nexmark") / "events"
    write_files(folder, MADE, SIZES)
    return folder


def started(spark, events, folder, name, ways):
    result = QUERIES[name](stream_of(spark, events), MADE, ways)
    writer = result.writeStream.format("parquet").option("path", str(folder / "output"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def judged(spark, events, folder, name, query):
    """Run a query to its end, and compare its output."""
    query.processAllAvailable()
    query.stop()
    expected = TRUTHS[name](read_events(events))
    found = spark.read.parquet(str(folder / "output")).toPandas()
    assert list(found.columns) == list(expected.columns)
    assert len(expected) >= LEAST_ROWS.get(name, 50)
    return compared(sum(SIZES), expected, found)


@pytest.mark.parametrize("name", QUERIES)
def test_plain_spark_gives_the_rows_of_the_truth(spark, events, tmp_path, name):
    query = started(spark, events, tmp_path, name, Plain())
    assert judged(spark, events, tmp_path, name, query).exact


@pytest.mark.parametrize("name", CONTROLLED)
def test_a_controlled_query_gives_the_same_rows(spark, events, tmp_path, name):
    folder = ControlFolder(str(tmp_path / "checkpoint" / "foretide"))
    query = started(spark, events, tmp_path, name, Controlled(folder.location, pool=3))
    controller = ft.control(query, ["replicas", "hot_keys"])
    if folder.joins():
        assert list(folder.joins()) == ["join"]
    else:
        folder.change_routes(lambda table: table.split("bids", (1.0, 5.0, 0.0)))
    assert judged(spark, events, tmp_path, name, query).exact
    controller.stop()


def test_every_query_has_a_truth_and_a_name():
    assert list(QUERIES) == list(TRUTHS)
    assert set(NEXMARK) == QUERIES.keys() - {"q3", "q4", "q8"}


@pytest.mark.parametrize("name", ["nexmark-q1", "nexmark-q5"])
def test_an_application_gives_the_rows_of_the_truth(start, name):
    app = find_app(name)
    topology = app.build(LOAD)
    plan = replay_of(topology)
    pipeline = start(topology)
    pipeline.split(app.edge, app.ratio)
    wait_for(lambda: is_over(pipeline, plan), pipeline)
    pipeline.stop()
    pipeline.raise_failure()
    verdict = verify(pipeline, plan, app.result, lambda rows: app.truth(rows, LOAD))
    assert verdict.exact
    assert verdict.found_rows > 10
    assert not pipeline.alarms


def test_an_unknown_query_is_refused_with_the_known_ones():
    for name in ("nexmark-q6", "nexmark-q4", "nexmark-"):
        with pytest.raises(ft.errors.PipelineNotFoundError, match="nexmark-q5"):
            find_app(name)
