import os

import pyarrow as pa
import pytest
from pyarrow import parquet

from foretide.errors import WorkloadError
from foretide.spark.sources.replay_plan import file_table
from foretide.topology.sources import FileRows


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def test_each_format_is_read_in_the_order_of_the_file(tmp_path):
    table = pa.table({"word": ["a", "b", "c"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    files = [
        FileRows(str(tmp_path / "t.parquet")),
        FileRows(write(tmp_path / "t.csv", "word\na\nb\nc\n"), "csv"),
        FileRows(write(tmp_path / "t.json", '{"word": "a"}\n{"word": "b"}\n{"word": "c"}\n'), "json"),
    ]
    for rows in files:
        assert file_table(rows).to_pydict() == {"word": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\n\nb\n", ["a", "", "b"]),
        ("", []),
        ("one\x0cline\x1cwith\u2028odd\x85letters\n", ["one\x0cline\x1cwith\u2028odd\x85letters"]),
    ],
)
def test_a_text_is_cut_at_line_ends_and_nowhere_else(tmp_path, text, lines):
    table = file_table(FileRows(write(tmp_path / "t.txt", text), "text"))
    assert table.schema == pa.schema([("line", pa.string())])
    assert table["line"].to_pylist() == lines


def test_a_file_is_read_once_and_again_when_it_has_changed(tmp_path):
    rows = FileRows(write(tmp_path / "t.txt", "old\n"), "text")
    first = file_table(rows)
    assert file_table(rows) is first
    write(tmp_path / "t.txt", "new\n")
    os.utime(tmp_path / "t.txt", ns=(1, 1))
    assert file_table(rows)["line"].to_pylist() == ["new"]


def test_a_file_that_is_gone_is_named_with_what_to_do(tmp_path):
    path = str(tmp_path / "gone.parquet")
    with pytest.raises(WorkloadError, match="put it back") as raised:
        file_table(FileRows(path))
    assert path in str(raised.value)


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_file_of_another_format_is_named_with_the_format(tmp_path, kind):
    path = write(tmp_path / "t.txt", "not what it says\n")
    with pytest.raises(WorkloadError, match=f"is not readable as {kind}") as raised:
        file_table(FileRows(path, kind))
    assert path in str(raised.value)


def test_a_text_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(WorkloadError, match="is not readable as text"):
        file_table(FileRows(str(tmp_path / "t.txt"), "text"))


def test_an_unknown_format_is_answered_with_the_known_ones(tmp_path):
    path = write(tmp_path / "t.xls", "")
    with pytest.raises(WorkloadError, match="'xls' cannot be replayed; use one of parquet, csv, json, text"):
        file_table(FileRows(path, "xls"))
