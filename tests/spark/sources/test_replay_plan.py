import threading
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from foretide.control_folder.folder import ControlFolder
from foretide.errors import WorkloadError
from foretide.spark.sources.replay import ReplayReader, claim
from foretide.spark.sources.replay_plan import ReplayPlan
from foretide.topology.sources import FileRows, Replay
from foretide.workloads.curve import Curve
from foretide.workloads.requests import RequestLines

ORIGIN = 1_700_000_000.0
CURVE = Curve.steps([(2, 50), (1, 0), (3, 100)])
ROWS = 400


def plan(curve=CURVE, rows=None, **options):
    return ReplayPlan(Replay(rows or RequestLines(1), curve, **options))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.parquet"
    parquet.write_table(pa.table({"word": [f"w{n}" for n in range(30)]}), path, row_group_size=7)
    return FileRows(str(path))


def seconds(column):
    return np.array(column.cast(pa.int64()).to_pylist()) / 1e6


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, ROWS + 1), max_size=6), st.sampled_from([None, 60.0]), st.sampled_from([None, 86400.0]))
def test_rows_are_the_same_however_they_are_cut(cuts, flush, event_seconds):
    made = plan(flush=flush, event_seconds=event_seconds)
    total = made.total_rows
    bounds = [0, *sorted(min(cut, total) for cut in cuts), total]
    parts = [made.rows(first, last, ORIGIN) for first, last in pairwise(bounds)]
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([made.rows(0, total, ORIGIN)])


def test_rows_carry_their_number_their_due_time_and_their_event_time():
    made = plan(event_seconds=60.0).rows(98, 102, ORIGIN)
    assert made.schema.names == ["line", "row", "due", "event_time"]
    assert made["row"].to_pylist() == [98, 99, 100, 101]
    assert seconds(made["due"]) - ORIGIN == pytest.approx([1.98, 2.0, 3.01, 3.02], abs=1e-5)
    assert seconds(made["event_time"]) - ORIGIN == pytest.approx([19.8, 20.0, 30.1, 30.2], abs=1e-5)
    assert made["line"].to_pylist() == RequestLines(1).rows(98, 102)["line"].to_pylist()


def test_event_time_is_the_due_time_unless_it_is_stretched():
    made = plan().rows(0, ROWS, ORIGIN)
    assert made["event_time"] == made["due"]


@settings(deadline=None)
@given(st.floats(0, 7))
def test_a_row_is_available_from_its_due_time_on_and_not_before(elapsed):
    made = plan(flush=60.0)
    due = made.due_seconds(0, made.total_rows)
    assert made.available(elapsed, 0) == sum(due <= elapsed)


def test_all_rows_are_available_at_the_end_and_none_after_it():
    assert plan().available(6.0, 0) == plan().available(1e6, 0) == plan().total_rows == ROWS


def test_an_endless_replay_never_runs_out():
    endless = plan(Curve.constant(10))
    assert (endless.payload_rows, endless.total_rows) == (None, None)
    assert endless.available(100.0, 0) == 1000
    assert endless.rows(10**6, 10**6 + 3, ORIGIN).num_rows == 3


def test_unpaced_rows_do_not_wait():
    assert plan(paced=False, flush=1.0).available(0.0, 0) == ROWS + 1
    assert plan(Curve.constant(10), paced=False).available(0.0, 500) > 500


def test_the_flush_is_one_last_row_without_payload_far_enough_ahead():
    made = plan(flush=60.0, event_seconds=12.0)
    assert made.total_rows == ROWS + 1
    assert made.payload_rows == ROWS
    last = made.rows(ROWS - 1, ROWS + 1, ORIGIN)
    assert last["row"].to_pylist() == [ROWS - 1, ROWS]
    assert last["line"].null_count == 1
    assert last["line"].to_pylist()[1] is None
    assert seconds(last["due"])[1] - ORIGIN == pytest.approx(6.0)
    assert seconds(last["event_time"])[1] - ORIGIN == pytest.approx(12.0 + 60.0)


def test_the_flush_alone_can_be_read():
    assert plan(flush=60.0).rows(ROWS, ROWS + 1, ORIGIN)["line"].to_pylist() == [None]


# ---- files


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 31), max_size=4))
def test_rows_of_a_file_come_in_its_order_however_they_are_cut(tmp_path_factory, cuts):
    path = tmp_path_factory.getbasetemp() / "in-order.parquet"
    if not path.exists():
        parquet.write_table(pa.table({"word": [f"w{n}" for n in range(30)]}), path, row_group_size=7)
    made = plan(rows=FileRows(str(path)), flush=5.0)
    parts = [made.rows(first, last, ORIGIN) for first, last in pairwise([0, *sorted(cuts), 31])]
    assert [word for part in parts for word in part["word"].to_pylist()] == [*(f"w{n}" for n in range(30)), None]
    assert [row for part in parts for row in part["row"].to_pylist()] == list(range(31))


def test_the_shorter_of_file_and_curve_ends_the_replay(file):
    assert plan(rows=file).total_rows == 30
    assert plan(Curve.constant(10, 2), rows=file).total_rows == 20
    assert plan(Curve.constant(10), rows=file).total_rows == 30
    assert plan(Curve.constant(10), rows=file).available(1e6, 0) == 30


@pytest.mark.parametrize("curve", [Curve.constant(10), Curve.constant(10, 100)])
def test_the_flush_of_a_file_that_ends_before_its_curve_is_due_as_the_row_after_the_last(file, curve):
    made = plan(curve, rows=file, flush=60.0)
    assert made.due_seconds(28, 31) == pytest.approx([2.9, 3.0, 3.1])
    assert [made.available(elapsed, 0) for elapsed in (3.05, 3.15)] == [30, 31]
    assert seconds(made.rows(30, 31, ORIGIN)["event_time"]) - ORIGIN == pytest.approx([63.1])


def test_an_empty_file_gives_its_flush(tmp_path):
    parquet.write_table(pa.table({"word": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    made = plan(rows=FileRows(str(tmp_path / "empty.parquet")), flush=1.0)
    assert made.total_rows == 1
    assert made.rows(0, 1, ORIGIN)["word"].to_pylist() == [None]


def test_a_file_with_columns_of_the_replays_own_is_refused(tmp_path):
    parquet.write_table(pa.table({"row": [1], "due": [2], "fine": [3]}), tmp_path / "taken.parquet")
    with pytest.raises(WorkloadError, match="due, row"):
        _ = plan(rows=FileRows(str(tmp_path / "taken.parquet"))).schema


# ---- as text


@pytest.mark.parametrize(
    "options",
    [{}, {"event_seconds": 60.5, "flush": 3.0, "paced": False, "partitions": 7, "max_rows": 11}],
)
@pytest.mark.parametrize("curve", [CURVE, Curve.constant(0.1)])
def test_a_plan_comes_back_from_text_as_it_was(file, curve, options):
    for rows in (RequestLines(7, urls=5, malformed=0.25), file):
        made = plan(curve, rows=rows, **options)
        assert ReplayPlan.from_json(made.to_json()) == made


# ---- what Spark drives


@pytest.fixture
def reader_for(tmp_path):
    def make(once_only=None, **options):
        return ReplayReader(plan(**options).to_json(), "lines", str(tmp_path / "control"), once_only)

    return make


def offset(row, origin=ORIGIN):
    return {"spout": "lines", "row": row, "origin_ms": int(origin * 1000)}


@settings(deadline=None, max_examples=30)
@given(st.integers(0, ROWS), st.integers(0, ROWS), st.integers(1, 9))
def test_partitions_cover_a_range_exactly_once(first, count, partitions):
    reader = ReplayReader(plan(partitions=partitions).to_json(), "lines", "nowhere", None)
    last = min(first + count, ROWS)
    parts = reader.partitions(offset(first), offset(last))
    assert [row for part in parts for row in range(part.first, part.last)] == list(range(first, last))
    assert len(parts) <= partitions
    sizes = [part.last - part.first for part in parts]
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_what_is_read_is_the_range_with_the_origin_of_the_offset(reader_for):
    reader = reader_for(partitions=3)
    parts = reader.partitions(offset(10), offset(50))
    read = [batch for part in parts for batch in reader.read(part)]
    assert pa.Table.from_batches(read).combine_chunks() == pa.Table.from_batches([plan().rows(10, 50, ORIGIN)])


def test_the_latest_offset_goes_as_far_as_the_limit_in_the_control_folder_allows(reader_for, tmp_path):
    reader = reader_for(max_rows=100)
    assert reader.latestOffset(offset(0), None)["row"] == 100
    assert reader.reportLatestOffset()["row"] == ROWS
    folder = ControlFolder(str(tmp_path / "control"))
    folder.orders.limit_admission("lines", 7)
    folder.orders.limit_admission("others", 1)
    assert reader.latestOffset(offset(100), None) == offset(107)
    folder.orders.limit_admission("lines", None)
    assert reader.latestOffset(offset(350), None)["row"] == ROWS


def test_limits_that_cannot_be_read_stay_as_they_were_read_last(reader_for, tmp_path):
    reader = reader_for(max_rows=100)
    ControlFolder(str(tmp_path / "control")).orders.limit_admission("lines", 7)
    assert reader.latestOffset(offset(0), None) == offset(7)
    file = tmp_path / "control" / "admission.json"
    for damage in ("{", '{"lines": ' + "[" * 100_000, '{"lines": -1}'):
        file.write_text(damage)
        assert reader.latestOffset(offset(7), None) == offset(14)
    file.unlink()
    file.mkdir()
    assert reader.latestOffset(offset(14), None) == offset(21)
    assert reader_for(max_rows=100).latestOffset(offset(0), None) == offset(100)


def test_an_offset_never_goes_back_even_when_the_clock_does(reader_for):
    ahead = offset(200, origin=4e9)
    assert reader_for().latestOffset(ahead, None) == ahead


# ---- at most once


@pytest.mark.parametrize(("first", "last"), [(10, 20), (5, 11), (19, 25), (12, 13), (0, 100)])
def test_rows_that_overlap_a_claim_are_refused(tmp_path, first, last):
    assert claim(tmp_path / "claims", 10, 20)
    assert not claim(tmp_path / "claims", first, last)


def test_ranges_that_only_touch_are_granted(tmp_path):
    assert [claim(tmp_path, *rows) for rows in ((10, 20), (0, 10), (20, 30))] == [True] * 3


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=10))
def test_no_row_is_ever_granted_twice(tmp_path_factory, wanted):
    folder = tmp_path_factory.mktemp("claims")
    granted = [range(first, first + count) for first, count in wanted if claim(folder, first, first + count)]
    rows = [row for part in granted for row in part]
    assert len(rows) == len(set(rows))
    assert bool(granted) == bool(wanted)


def test_of_many_attempts_at_the_same_time_one_is_granted(tmp_path):
    granted, begin = [], threading.Barrier(8)

    def attempt():
        begin.wait()
        granted.append(claim(tmp_path, 0, 10))

    attempts = [threading.Thread(target=attempt) for _ in range(8)]
    for each in attempts:
        each.start()
    for each in attempts:
        each.join()
    assert sorted(granted) == [False] * 7 + [True]


def test_a_second_attempt_at_a_range_reads_nothing_and_old_claims_are_forgotten(reader_for, tmp_path):
    reader = reader_for(once_only=str(tmp_path / "claims"), partitions=2)
    parts = reader.partitions(offset(0), offset(50))
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == 50
    assert [list(reader.read(part)) for part in parts] == [[], []]
    reader.commit(offset(50))
    assert [marker.name for marker in (tmp_path / "claims").iterdir()] == ["25-50"]
