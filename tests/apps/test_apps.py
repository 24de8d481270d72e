"""Every application on real Spark: its output is the truth worked out without Spark, with its edge re-split midway."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import foretide as ft
from foretide.apps.app import APPS, NEXMARK, Load, find_app
from foretide.apps.experiment import (
    _closed,
    compared,
    is_over,
    last_committed,
    last_planned,
    replay_of,
    updates_of,
    verify,
    verify_stopped,
)
from foretide.topology.validate import find_problems
from helpers import wait_for

LOAD = Load(seconds=8, rate=1000, seed=5, paced=False)
OWN_TESTS = {f"nexmark-{query}" for query in NEXMARK}


LOADS = {"logo-detection": replace(LOAD, rate=13)}
"""Of applications that do too much work for each row."""


def in_batches(topology, rows):
    """The same topology with an admission limit, so that there is a 'midway'."""
    spouts = [replace(spout, source=replace(spout.source, max_rows=rows)) for spout in topology.spouts]
    return replace(topology, spouts=spouts)


@pytest.mark.parametrize("name", [name for name in APPS if name not in OWN_TESTS])
def test_the_output_is_exactly_the_truth(start, name):
    app, load = find_app(name), LOADS.get(name, LOAD)
    if name == "logo-detection":
        pytest.importorskip("cv2")
    topology = in_batches(app.build(load), round(3 * load.rate))
    plan = replay_of(topology)
    pipeline = start(topology)
    wait_for(lambda: pipeline.query.lastProgress is not None, pipeline)
    version = pipeline.split(app.edge, app.ratio).version
    wait_for(lambda: is_over(pipeline, plan), pipeline)
    pipeline.stop()
    pipeline.raise_failure()
    verdict = verify(pipeline, plan, app.result, lambda rows: app.truth(rows, load), settle=app.settle)
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


def test_the_last_committed_offset_is_read_from_the_checkpoint(tmp_path):
    assert last_committed(tmp_path) is None
    for folder in ("commits", "offsets"):
        (tmp_path / folder).mkdir()
    for batch in (9, 10, 11):
        offset = json.dumps({"spout": "requests", "row": 100 * batch, "origin_ms": 5})
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offset}\n{offset}", encoding="utf-8")
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / name).touch()
    assert last_committed(tmp_path).end["row"] == 1000
    assert last_planned(tmp_path).end["row"] == 1100


def test_after_a_batch_that_was_cut_off_each_result_is_as_before_it_or_as_after_it():
    def counts(zone=None, **words):
        times = pd.to_datetime([0] * len(words), unit="s", utc=bool(zone))
        return pd.DataFrame({"window": times, "word": list(words), "times": list(words.values())})

    committed, planned = counts("UTC", a=1, b=2, c=3), counts("UTC", a=5, b=2, c=9, d=1, e=1)

    def judged(found):
        return compared(6, updates_of(committed, planned, found, ["window", "word"]), found)

    assert judged(counts(a=5, b=2, c=3, d=1)).exact  # a and d were written before the batch was cut off
    assert judged(counts(a=1, b=2, c=3)).exact
    assert judged(counts(a=5, b=2, c=9, d=1, e=1)).exact
    lost, wrong = judged(counts(a=5, c=3)), judged(counts(a=5, b=2, c=4))
    assert (lost.missing, lost.surplus) == (1, 0)
    assert (wrong.missing, wrong.surplus) == (1, 1)


@pytest.mark.parametrize("name", ["url-count", "continuous-queries"])
def test_a_run_that_is_stopped_is_judged_by_the_rows_that_it_took(start, name):
    app = find_app(name)
    topology = in_batches(app.build(LOAD), 500)
    plan = replay_of(topology)
    pipeline = start(topology)
    wait_for(lambda: len(pipeline.reports) >= 4, pipeline)
    pipeline.control_folder.orders.request_stop()
    wait_for(lambda: not pipeline.running, pipeline)
    assert not is_over(pipeline, plan)
    verdict = verify_stopped(pipeline, plan, app.result, lambda rows: app.truth(rows, LOAD))
    assert verdict.exact
    assert 0 < verdict.handed_out < plan.total_rows
    planned = last_planned(Path(pipeline.checkpoint)).end["row"]
    assert verdict.handed_out in {sum(report.input_rows for report in pipeline.reports), planned}
    assert verdict.open_rows > 0 or name != "url-count"
    while not pipeline.reports.pop().input_rows:  # as if the stop had met the last batch before its commit
        pass
    assert verify_stopped(pipeline, plan, app.result, lambda rows: app.truth(rows, LOAD)).exact
    assert not verify(pipeline, plan, app.result, lambda rows: app.truth(rows, LOAD)).exact


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_windows_after_the_last_one_that_was_written_are_open(zone):
    times = pd.to_datetime([0, 60, 120], unit="s", utc=bool(zone))
    expected = pd.DataFrame({"word": ["a", "b", "c"], "window": times})
    assert list(_closed(expected, expected[:2])["word"]) == ["a", "b"]
    naive = pd.DataFrame({"window": pd.to_datetime([60], unit="s")})
    assert list(_closed(expected, naive)["word"]) == ["a", "b"]
    assert _closed(expected, expected[:0]).empty
    assert len(_closed(expected[["word"]], expected[:1])) == 3
