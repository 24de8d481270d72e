"""Text files that users name: what cannot be read is refused with the file and the reason."""

import os
from pathlib import Path

import pytest

from foretide.errors import FileError
from foretide.files import read_text


@pytest.mark.parametrize("content", ["a = 1\n", "\ufeffa = 1\n", "name = 'Zürich'\n", ""])
def test_utf8_is_read_with_or_without_a_byte_order_mark(tmp_path, content):
    (tmp_path / "m.toml").write_text(content, encoding="utf-8")
    assert read_text(tmp_path / "m.toml", "a model") == content.removeprefix("\ufeff")


def test_a_file_of_the_largest_size_is_read(tmp_path):
    (tmp_path / "m.toml").write_bytes(b"x" * 10)
    assert read_text(tmp_path / "m.toml", "a model", 10) == "x" * 10


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a = 1".encode("utf-16"), "byte 1 is not UTF-8"),
        ("name = 'Zürich'".encode("latin-1"), "byte 10 is not UTF-8"),
        (bytes(range(156, 256)), "not UTF-8"),
        (b"x" * 101, "larger than 100 bytes"),
    ],
)
def test_other_content_is_refused(tmp_path, content, reason):
    (tmp_path / "m.toml").write_bytes(content)
    with pytest.raises(FileError, match=f"m.toml' cannot be read as a model.*{reason}"):
        read_text(tmp_path / "m.toml", "a model", 100)


@pytest.mark.parametrize("name", ["/dev/zero", "/proc/self/mem", "pipe", "folder", "missing", "m" * 300, "a\0b"])
def test_what_is_no_readable_regular_file_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match="cannot be read as a model"):
        read_text(tmp_path / Path(name), "a model")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path):
    (tmp_path / "m.toml").touch(mode=0)
    with pytest.raises(FileError, match="Permission denied"):
        read_text(tmp_path / "m.toml", "a model")
