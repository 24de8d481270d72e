import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.soak.layout import Layout
from foretide.soak.rows import END_AT, SECONDS_PER_FILE, Feed, end_rows, file_rows


@given(seed=st.integers(0, 2**32), number=st.integers(0, 1000), rows=st.integers(1, 2000), data=st.data())
def test_a_file_follows_from_its_seed_and_number_and_has_as_many_malformed_rows_as_asked(seed, number, rows, data):
    malformed = data.draw(st.integers(0, rows))
    table = file_rows(seed, number, rows, malformed)
    assert table.equals(file_rows(seed, number, rows, malformed))
    assert table["row"].to_pylist() == list(range(number * rows, (number + 1) * rows))
    assert malformed <= table["payload"].null_count <= malformed + rows // 500 + 1


def test_no_row_is_later_than_one_of_the_file_before_and_the_last_rows_close_all_windows():
    times = [np.array(file_rows(5, number, 300)["at"].cast("int64")) / 1e6 for number in range(4)]
    begin = times[0][0] // SECONDS_PER_FILE * SECONDS_PER_FILE
    for number, each in enumerate(times):
        assert begin + number * SECONDS_PER_FILE <= each.min() <= each.max() < begin + (number + 1) * SECONDS_PER_FILE
    assert set(np.array(end_rows()["at"].cast("int64"))) == {END_AT * 1_000_000}


def test_files_appear_in_the_order_of_their_times_and_two_end_the_input(tmp_path):
    feed = Feed(tmp_path / "input", seed=3, rows=10)
    feed.put()
    feed.put(malformed=4)
    assert feed.end() == 4
    files = sorted((tmp_path / "input").glob("*.parquet"))
    stamps = [file.stat().st_mtime for file in files]
    assert stamps == sorted(set(stamps))
    tables = [pq.read_table(file) for file in files]
    assert [table.num_rows for table in tables] == [10, 10, 4, 4]
    assert tables[1]["payload"].to_pylist()[-4:] == [None] * 4
    assert max(tables[2]["row"].to_pylist()) < 0


@pytest.fixture
def layout(tmp_path):
    for name in ("offsets", "commits"):
        (tmp_path / "checkpoint" / name).mkdir(parents=True)
    return Layout(tmp_path)


def test_a_checkpoint_tells_how_far_a_pipeline_got(layout):
    assert (layout.begun_batch(), layout.committed_batch(), layout.files_taken()) == (-1, -1, 0)
    for batch in range(3):
        (layout.checkpoint / "offsets" / str(batch)).write_text(
            f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch}}}'
        )
    (layout.checkpoint / "offsets" / ".3.crc").write_text("")
    assert (layout.begun_batch(), layout.files_taken()) == (2, 0)
    (layout.checkpoint / "commits" / "1").write_text("v1\n{}")
    assert (layout.committed_batch(), layout.files_taken()) == (1, 2)
