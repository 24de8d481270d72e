"""Parquet files, read back by Arrow."""

import math
import os
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from foretide.errors import StoreError
from foretide.metrics import catalogue
from foretide.metrics.metric import Level, Metric, Sample
from foretide.store import export
from foretide.store.compaction import Part
from foretide.store.export import export_samples, export_steps
from foretide.store.metric_store import MetricStore

KNOWN = {
    "test.cpu": Metric("test.cpu", "percent", Level.WORKER, "CPU"),
    "test.heap": Metric("test.heap", "bytes", Level.WORKER, "heap"),
    "test.disk": Metric("test.disk", "bytes", Level.MACHINE, "disk"),
}


@pytest.fixture(autouse=True)
def small_catalogue(monkeypatch):
    """Metrics of these tests, whatever the catalogue holds."""
    monkeypatch.setattr(export, "CATALOGUE", {**catalogue.CATALOGUE, **KNOWN})


def cpu(at, value, subject="w1", metric="test.cpu"):
    return Sample(metric, subject, at, value)


def test_the_long_format_has_a_row_for_each_sample(store, tmp_path):
    store.write("p", [cpu(2.5, 20.0), cpu(1.25, 10.0), cpu(1.0, 5.0, "host", "test.disk"), cpu(1.0, 7.0, "x", "odd")])
    store.write("q", [cpu(1.0, 99.0)])
    path = tmp_path / "new" / "samples.parquet"
    assert export_samples(store, "p", path) == 4
    rows = [tuple(row.values()) for row in parquet.read_table(path).to_pylist()]
    assert sorted(rows) == [
        (1.0, "machine", "test.disk", "host", 5.0, 1, 5.0, 5.0, 5.0),
        (1.0, "unknown", "odd", "x", 7.0, 1, 7.0, 7.0, 7.0),
        (1.25, "worker", "test.cpu", "w1", 10.0, 1, 10.0, 10.0, 10.0),
        (2.5, "worker", "test.cpu", "w1", 20.0, 1, 20.0, 20.0, 20.0),
    ]
    names = ["at", "level", "metric", "subject", "value", "count", "mean", "low", "high"]
    assert parquet.read_schema(path).names == names


def test_an_older_sample_is_exported_with_the_figures_of_those_that_it_stands_for(store, tmp_path):
    store.write("p", [cpu(1.0, 10.0), cpu(2.0, 40.0), cpu(3.0, 25.0)])
    assert store.compact(Part("p", 60.0, 0.0, 60.0)) is None
    assert export_samples(store, "p", tmp_path / "samples.parquet") == 1
    (row,) = parquet.read_table(tmp_path / "samples.parquet").to_pylist()
    assert tuple(row.values()) == (3.0, "worker", "test.cpu", "w1", 25.0, 3, 25.0, 10.0, 40.0)
    assert export_steps(store, "p", tmp_path / "steps.parquet", level=Level.WORKER, step=60.0) == 1


@pytest.mark.parametrize("way", ["itself", "a link", "a relative path", "its WAL"])
def test_an_export_never_replaces_the_store(tmp_path, monkeypatch, way):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "link").symlink_to("m.db")
    target = {"itself": tmp_path / "m.db", "a link": "link", "a relative path": "below/../m.db", "its WAL": "m.db-wal"}
    with MetricStore.open(tmp_path / "m.db") as store:
        store.write("p", [cpu(1.0, 1.0)])
        for export in (export_samples, partial(export_steps, level=Level.WORKER, step=1.0)):
            with pytest.raises(StoreError, match="it is the store itself"):
                export(store, "p", target[way])
        assert store.read("p") == [cpu(1.0, 1.0)]


def test_an_export_replaces_parquet_files_and_nothing_else(tmp_path):
    notes, folder, pipe = tmp_path / "notes.txt", tmp_path / "folder", tmp_path / "pipe"
    notes.write_text("PARAGRAPH of mine")
    folder.mkdir()
    os.mkfifo(pipe)
    (tmp_path / "loop").symlink_to("loop")
    with MetricStore.open(tmp_path / "m.db") as store:
        store.write("p", [cpu(1.0, 1.0)])
        for target, words in (
            (notes, "is not a Parquet file"),
            (folder, "not a regular file"),
            (pipe, "not a regular file"),
            ("/dev/full", "not a regular file"),
            (tmp_path / "loop", "cannot export"),
            (os.fsdecode(b"\xff.parquet"), "not a valid path"),
            ("nul\0", "not a valid path"),
        ):
            with pytest.raises(StoreError, match=words) as refused:
                export_samples(store, "p", target)
            str(refused.value).encode()
        assert notes.read_text() == "PARAGRAPH of mine"
        real = tmp_path / "real.parquet"
        (tmp_path / "to-real").symlink_to("real.parquet")
        for target in (real, tmp_path / "to-real", real):
            assert export_samples(store, "p", target) == 1
        assert (tmp_path / "to-real").is_symlink()
        assert parquet.read_table(real).num_rows == 1


def test_an_export_may_be_larger_than_a_chunk(store, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "CHUNK", 7)
    samples = [cpu(float(at), float(at * at), f"w{at % 3}") for at in range(100)]
    store.write("p", samples)
    assert export_samples(store, "p", tmp_path / "long.parquet") == 100
    table = parquet.read_table(tmp_path / "long.parquet")
    assert sorted(zip(table["at"].to_pylist(), table["value"].to_pylist(), strict=True)) == [
        (one.at, one.value) for one in samples
    ]
    assert parquet.ParquetFile(tmp_path / "long.parquet").num_row_groups > 10
    assert export_steps(store, "p", tmp_path / "wide.parquet", level=Level.WORKER, step=1.0) == 100


def test_the_time_can_be_limited_in_both_formats(store, tmp_path):
    store.write("p", [cpu(float(at), 1.0) for at in range(10)])
    assert export_samples(store, "p", tmp_path / "long.parquet", since=2.0, until=5.0) == 3
    assert export_steps(store, "p", tmp_path / "w.parquet", level=Level.WORKER, step=1.0, since=2.0, until=5.0) == 3
    assert parquet.read_table(tmp_path / "w.parquet")["at"].to_pylist() == [2.0, 3.0, 4.0]
    assert export_samples(store, "p", tmp_path / "none.parquet", since=100.0) == 0
    assert parquet.read_table(tmp_path / "none.parquet").num_rows == 0


def test_the_table_of_steps_has_the_last_value_of_each_metric_in_each_step(store, tmp_path):
    store.write(
        "p",
        [
            cpu(10.0, 1.0),
            cpu(14.9, 2.0),
            cpu(12.0, 100.0, metric="test.heap"),
            cpu(15.0, 3.0),
            cpu(31.0, 4.0, metric="test.heap"),
            cpu(11.0, 7.0, "w2"),
            cpu(11.0, 9.0, "host", "test.disk"),
        ],
    )
    path = tmp_path / "steps.parquet"
    assert export_steps(store, "p", path, level=Level.WORKER, step=5.0) == 4
    table = parquet.read_table(path)
    assert table.schema.names == ["subject", "at", "test.cpu", "test.heap"]
    assert sorted(tuple(row.values()) for row in table.to_pylist()) == [
        ("w1", 10.0, 2.0, 100.0),
        ("w1", 15.0, 3.0, None),
        ("w1", 30.0, None, 4.0),
        ("w2", 10.0, 7.0, None),
    ]
    assert table.schema.field("test.heap").type == pa.float64()


@given(
    st.lists(
        st.builds(
            cpu,
            st.floats(0, 50),
            st.floats(-9, 9),
            st.sampled_from(["w1", "w2"]),
            st.sampled_from(["test.cpu", "test.heap"]),
        ),
        max_size=40,
        unique_by=lambda one: (one.subject, one.metric, one.at),
    ),
    st.sampled_from([0.5, 1.0, 7.0]),
)
def test_steps_are_those_of_a_plain_pivot(samples, step):
    expected = {}
    for one in sorted(samples, key=lambda one: one.at):
        row = expected.setdefault((one.subject, math.floor(one.at / step) * step), {})
        row[one.metric] = one.value
    by_subject = sorted(samples, key=lambda one: (one.subject, one.at))
    rows = list(export._steps(iter(by_subject), ["test.cpu", "test.heap"], step))
    assert rows == [(*key, expected[key].get("test.cpu"), expected[key].get("test.heap")) for key in sorted(expected)]


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "out" / "samples.parquet"
    with MetricStore.open(tmp_path / "m.db") as store:
        store.write("p", [cpu(1.0, 1.0), cpu(1.0, 1.0, "w2")])
        export_samples(store, "p", path)
        before = path.read_bytes()
        chunks = iter([list(each) for each in store.scan("p")][:1])

        def breaks_off(*_arguments, **_options):
            yield from chunks
            raise StoreError("the server is gone")

        monkeypatch.setattr(store, "scan", breaks_off)
        with pytest.raises(StoreError, match="the server is gone"):
            export_samples(store, "p", path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_place_that_takes_no_file_is_named(store, tmp_path):
    store.write("p", [cpu(1.0, 1.0)])
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot export to .*file/out.parquet"):
        export_samples(store, "p", tmp_path / "file" / "out.parquet")


def test_what_is_not_there_is_not_exported(store, tmp_path):
    store.write("p", [cpu(1.0, 1.0)])
    path = tmp_path / "none.parquet"
    with pytest.raises(StoreError, match="no samples of 'other'; it has some of 'p'"):
        export_samples(store, "other", path)
    with pytest.raises(StoreError, match="no samples of 'p' at the level 'machine'"):
        export_steps(store, "p", path, level=Level.MACHINE, step=5.0)
    with pytest.raises(StoreError, match="step must be greater than 0 s, got 0"):
        export_steps(store, "p", path, level=Level.WORKER, step=0)
    assert not path.exists()
