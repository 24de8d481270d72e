"""Older samples at coarser steps: what stays, that nothing is missed, and how much space it takes."""

import math
import sqlite3
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foretide.metrics.metric import Sample
from foretide.metrics.steps import DEFAULT_STEPS, Step, begin
from foretide.store.compaction import Part
from foretide.store.metric_store import MetricStore
from foretide.store.upkeep import WriterSettings
from foretide.store.writer import StoreWriter

HOUR, DAY = 3600.0, 86_400.0
NOW = 1_750_000_000.0 - 1_750_000_000.0 % DAY
VALUES = st.floats(-1e6, 1e6)
BY_EXAMPLE = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sample(at, value=1.0, subject="worker-1"):
    return Sample("cpu", subject, at, value)


def compact(store, part):
    """All pieces; returns their number."""
    pieces = 0
    while part is not None:
        part, pieces = store.compact(part), pieces + 1
    return pieces


@BY_EXAMPLE
@given(
    samples=st.lists(st.builds(sample, st.floats(0, 1000), VALUES, st.sampled_from("abc")), max_size=60),
    since=st.floats(0, 500),
    until=st.floats(500, 1000),
    rows=st.integers(1, 9),
)
def test_of_each_step_the_last_sample_stays_with_the_figures_of_all(store, monkeypatch, samples, since, until, rows):
    monkeypatch.setattr("foretide.store.compaction.ROWS_AT_ONCE", rows)
    store.delete_before("p", math.inf)
    store.write("p", samples)
    written = store.read("p")
    groups = {}
    for one in written:
        inside = since <= one.at < until
        groups.setdefault((one.subject, begin(one.at, 100.0) if inside else one.at, inside), []).append(one)
    compact(store, Part("p", 100.0, since, until))
    left = {(one.subject, one.at): one for one in store.read_steps("p")}
    assert left.keys() == {(group[-1].subject, group[-1].at) for group in groups.values()}
    for group in groups.values():
        kept, values = left[group[-1].subject, group[-1].at], [one.value for one in group]
        assert (kept.value, kept.count, kept.low, kept.high) == (values[-1], len(values), min(values), max(values))
        assert kept.mean == pytest.approx(math.fsum(values) / len(values), rel=1e-9, abs=1e-6)


def test_coarser_steps_of_finer_ones_are_the_same_as_of_all_samples(store):
    samples = [sample(at * 7.0, math.sin(at)) for at in range(1000)]
    store.write("p", samples)
    store.write("q", samples)
    compact(store, Part("p", 60.0, -math.inf, 7000.0))
    for pipeline in ("p", "q"):
        compact(store, Part(pipeline, 300.0, -math.inf, 7000.0))
    ours, theirs = store.read_steps("p"), store.read_steps("q")
    assert len(ours) == 24
    assert [(one.at, one.value, one.count, one.low, one.high) for one in ours] == [
        (one.at, one.value, one.count, one.low, one.high) for one in theirs
    ]
    assert [one.mean for one in ours] == pytest.approx([one.mean for one in theirs])


def test_a_piece_is_bounded_and_compacting_again_changes_nothing(store, monkeypatch):
    monkeypatch.setattr("foretide.store.compaction.ROWS_AT_ONCE", 50)
    store.write("p", [sample(float(at), float(at), f"w{number}") for number in range(8) for at in range(100)])
    part = Part("p", 10.0, -math.inf, 100.0)
    assert compact(store, part) >= 16
    kept = store.read_steps("p")
    assert len(kept) == 80
    compact(store, part)
    assert store.read_steps("p") == kept


def test_deleting_takes_the_figures_of_steps_along(store, location):
    store.write("p", [sample(float(at)) for at in range(100)])
    compact(store, Part("p", 10.0, -math.inf, 100.0))
    assert store.delete_before("p", 50.0) == 5
    assert [one.count for one in store.read_steps("p")] == [10] * 5
    assert store.delete_before("p", math.inf) == 5
    assert store.series("p") == store.read_steps("p") == []
    store.write("p", [sample(59.0)])
    assert [one.count for one in store.read_steps("p")] == [1]


class Machine:
    """A pipeline beside which a writer works, with a clock that is moved by hand."""

    def __init__(self, location, **kept):
        self.now, self.steady = NOW, 0.0
        kept = WriterSettings(retention_seconds=7 * DAY, steps=DEFAULT_STEPS, **kept)
        clocks = {"clock": lambda: self.now, "steady_clock": lambda: self.steady}
        self.writer = StoreWriter(partial(MetricStore.open, location), "p", kept, **clocks)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.writer.close()

    def run(self, seconds, samples):
        """Let time pass, write samples, and let the writer do all that is due."""
        self.now, self.steady = self.now + seconds, self.steady + seconds
        self.writer.put(samples)
        while self.writer.turn() == 0.0:
            pass
        assert self.writer.problem is None


def test_beside_a_pipeline_samples_become_coarser_with_age_and_the_newest_stay(location):
    with Machine(location) as machine:
        for _ in range(int(1.5 * DAY / 1800)):
            begins = machine.now
            machine.run(1800.0, [sample(begins + seconds, seconds) for seconds in range(0, 1800, 10)])
    with MetricStore.open(location) as store:
        found = store.read("p")
        ages = [machine.now - one.at for one in found]
        steps = [(machine.now - earlier.at, later.at - earlier.at) for earlier, later in pairwise(found)]
        assert sum(age <= HOUR for age in ages) == 360
        assert {step for age, step in steps if age < HOUR} == {10.0}
        assert {step for age, step in steps if 1.1 * HOUR < age < 23 * HOUR} == {60.0}
        assert {step for age, step in steps if age > 1.1 * DAY} == {300.0}
        assert sum(one.count for one in store.read_steps("p")) == 1.5 * DAY / 10
        assert store.latest("p") == [found[-1]]


def test_late_samples_of_a_compacted_period_are_compacted_too(tmp_path):
    with Machine(tmp_path / "m.db") as machine:
        machine.run(0.0, [sample(NOW - 3 * HOUR + at) for at in range(60)])
        machine.run(700.0, [sample(NOW - 2.5 * HOUR + at) for at in range(60)])
        machine.run(700.0, [sample(machine.now)])
    with MetricStore.open(tmp_path / "m.db") as store:
        assert [one.count for one in store.read_steps("p")] == [60, 60, 1]


def test_a_clock_that_jumps_ahead_coarsens_nothing(location):
    recent = [sample(NOW - 600 + at) for at in range(600)]
    with Machine(location) as machine:
        machine.run(0.0, recent)
        machine.now += 10 * DAY
        machine.run(700.0, [sample(machine.now)])
    with MetricStore.open(location) as store:
        assert store.read("p")[:-1] == recent


def test_the_file_becomes_smaller_when_much_of_it_is_free(tmp_path):
    path = tmp_path / "m.db"
    with MetricStore.open(path) as store:
        store.write("p", [sample(float(at), at / 7, f"w{number}") for number in range(20) for at in range(5000)])
    before = path.stat().st_size
    coarse = WriterSettings(steps=(Step(1.0, 500.0),))
    with StoreWriter(partial(MetricStore.open, path), "p", coarse, steady_clock=lambda: 0.0) as writer:
        while writer.turn() == 0.0:
            pass
        assert writer.problem is None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert Path(path).stat().st_size < before / 2


def test_a_week_of_a_series_takes_no_more_than_its_steps(tmp_path):
    path, hours, names = tmp_path / "m.db", 8 * 24, ["a", "b"]
    with Machine(path) as machine:
        for _ in range(0, hours, 6):
            begins = machine.now
            spread = [begins + seconds for seconds in range(0, 6 * 3600, 30)]
            machine.run(6 * HOUR, [sample(at, at % 97 / 7, name) for at in spread for name in names])
        machine.run(700.0, [])
    with MetricStore.open(path) as store:
        kept = len(store.read("p", subjects=["a"]))
    most = HOUR / 30 + (DAY - HOUR + 3600) / 60 + 6 * DAY / 300
    assert most / 2 < kept <= most
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert path.stat().st_size < 120 * kept * len(names)
