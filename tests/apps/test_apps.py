"""Every application on real Spark: its output is the truth worked out without Spark, with its edge re-split midway."""

from __future__ import annotations

from dataclasses import replace

import pytest

import foretide as ft
from foretide.apps.app import APPS, Load, find_app
from foretide.apps.experiment import is_over, replay_of, verify
from foretide.topology.validate import find_problems
from helpers import wait_for

LOAD = Load(seconds=8, rate=1000, seed=5, paced=False)


def in_batches(topology, rows):
    """The same topology with an admission limit, so that there is a 'midway'."""
    (spout,) = topology.spouts
    return replace(topology, spouts=[replace(spout, source=replace(spout.source, max_rows=rows))])


@pytest.mark.parametrize("name", APPS)
def test_the_output_is_exactly_the_truth(start, name):
    app = find_app(name)
    topology = in_batches(app.build(LOAD), 3000)
    plan = replay_of(topology)
    pipeline = start(topology)
    wait_for(lambda: pipeline.query.lastProgress is not None, pipeline)
    version = pipeline.split(app.edge, app.ratio).version
    wait_for(lambda: is_over(pipeline, plan), pipeline)
    pipeline.stop()
    pipeline.raise_failure()
    verdict = verify(pipeline, plan, app.result, lambda rows: app.truth(rows, LOAD))
    assert verdict.exact
    assert verdict.found_rows > 50
    assert version in {report.route_version for report in pipeline.reports}
    assert not pipeline.alarms


@pytest.mark.parametrize("name", APPS)
def test_every_application_is_a_valid_topology(name):
    assert find_problems(find_app(name).build(Load())) == []


def test_malformed_request_lines_are_kept_in_a_stream_of_their_own(start):
    load = Load(seconds=20, rate=1000, seed=5, paced=False)
    topology = find_app("url-count").build(load)
    pipeline = start(topology)
    wait_for(lambda: is_over(pipeline, replay_of(topology)), pipeline)
    pipeline.stop()
    malformed = pipeline.output("extract.malformed").collect()
    counted = pipeline.output("merge").groupBy().sum("requests").first()[0]
    assert len(malformed) + counted == 20_000
    assert malformed
    assert all("http" not in row.line for row in malformed)


def test_an_unknown_application_is_refused_with_the_known_ones():
    with pytest.raises(ft.errors.PipelineNotFoundError, match="url-count"):
        find_app("nope")
