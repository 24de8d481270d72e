"""When a run is over, by its reports alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

import foretide as ft
from foretide.apps.experiment import is_over, replay_of, replays_began
from foretide.metrics.batch import BatchReport, EdgeFlow, SourceRange
from foretide.workloads.keyed import Keyed

ROWS = 100


def spout(name):
    return ft.Spout(name, ft.Replay(Keyed(seed=1), ft.Curve.constant(ROWS, seconds=1)))


def bolt(name, *inputs):
    return ft.Bolt(name, lambda frame: frame, list(inputs))


TWO = ft.Topology("two", [spout("a"), spout("b")], [bolt("both", ft.From("a"), ft.From("b"))])
LOOP = ft.Topology(
    "loop",
    [spout("a")],
    [bolt("work", ft.From("a"), ft.From("again", ft.All(), feedback=True)), bolt("again", ft.From("work"))],
)


def batch(number=0, edges=None, **taken):
    sources = tuple(
        SourceRange(5, spout=name, rows=5, end={"spout": name, "row": row, "origin_ms": 0})
        for name, row in taken.items()
    )
    return BatchReport(number, finished=1.0, duration=1.0, input_rows=5, route_version=1, edges=edges, sources=sources)


def over(topology, *reports):
    return is_over(SimpleNamespace(reports=reports, topology=topology), replay_of(topology))


@pytest.mark.parametrize(("a", "b", "is_it"), [(ROWS, ROWS, True), (ROWS, 7, False), (7, ROWS, False)])
def test_a_run_is_over_once_all_spouts_are(a, b, is_it):
    assert over(TWO, batch(a=a, b=b)) is is_it


def test_where_spark_keeps_state_one_more_batch_closes_the_windows():
    last = replace(batch(a=ROWS, b=ROWS), stateful=True)
    assert not over(TWO, last)
    assert over(TWO, last, last)


@pytest.mark.parametrize(
    ("edges", "is_it"),
    [
        ({"again": EdgeFlow(0, 0), "work": EdgeFlow(9, 9)}, True),
        ({"work": EdgeFlow(9, 9)}, True),
        ({"again": EdgeFlow(1, 1)}, False),
        (None, False),
    ],
)
def test_a_loop_is_over_once_nothing_is_sent_back(edges, is_it):
    assert over(LOOP, batch(edges=edges, a=ROWS)) is is_it
    assert not over(LOOP, batch(edges=edges, a=ROWS - 1))


def test_without_a_batch_nothing_is_over():
    assert not over(TWO)
    assert not over(LOOP)


def test_the_replays_of_a_query_are_read_from_its_checkpoint(tmp_path):
    assert replays_began(tmp_path) == {}
    (tmp_path / "offsets").mkdir()
    lines = [
        "v1",
        "{}",
        '{"spout":"a","row":3,"origin_ms":7}',
        '{"logOffset":2}',
        '{"spout":"b","row":4,"origin_ms":8}',
    ]
    (tmp_path / "offsets" / "0").write_text("\n".join(lines), encoding="utf-8")
    assert {name: taken.end["origin_ms"] for name, taken in replays_began(tmp_path).items()} == {"a": 7, "b": 8}
