"""What may have happened to a file: it is something else, cut, forbidden, or one of its values is odd."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

Damage = Callable[[Path], None]
NUMBERS = [
    *("0", "-1", "1", "2", "-0", "nan", "inf", "-inf", "1e308", "1e400", "5e-324", "0.5", "1e20", "1_000", "0x10"),
    *("1,5", "9" * 20, "9" * 30, "1" + "0" * 400, "9" * 5000, str(2**31), str(2**63), str(-(2**63))),
]
ODD_VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 1e308, 10**30, 10**400, float("nan"), float("inf"), "", "x", "none", "1", "\x1b[2J"),
    *("[/]", "\udcff", "\0", "n" * 5000, [], [1], {}, {"a": {"b": 1}}, "http://[::1/x", "../../outside", [[[]]]),
]


def write(path: Path, content: bytes) -> None:
    if path.is_symlink() or path.is_dir():
        remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for each in path.rglob("*"):
            if each.is_dir() and not each.is_symlink():
                each.chmod(0o700)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def replacements(*, links: bool = True) -> list[Damage]:
    """A file that is something else. SQLite writes beside what a link leads to, so a store is no link to a device."""
    contents = [
        *(b"", b"{", b"null", b"[]", b"5", b'"x"', b"{}", b"\xff\xfe\x00", b"[" * 100_000, b'{"a":' * 100_000),
        *("caf\u00e9".encode("latin-1"), "{}".encode("utf-16"), bytes(range(256)), b"\x00" * 100, b"a = [" * 20_000),
        b"9" * 5000,
    ]
    return [
        *(partial(write, content=content) for content in contents),
        *(partial(_link, target=target) for target in ["loop", *(["/proc/self/mem", "/dev/null"] if links else [])]),
        *(_make_folder, _forbid, remove, _cut),
    ]


def _make_folder(path: Path) -> None:
    remove(path)
    path.mkdir(parents=True)


def _link(path: Path, target: str) -> None:
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path.name if target == "loop" else target)


def _forbid(path: Path) -> None:
    if path.exists():
        path.chmod(0)


def _cut(path: Path) -> None:
    if path.exists():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def json_changes(rng: random.Random, count: int) -> list[Damage]:
    """A field that is gone, or of another type."""
    values = [*ODD_VALUES, ...]
    return [partial(_change_field, place=rng.random(), value=rng.choice(values)) for _ in range(count)]


def _change_field(path: Path, place: float, value: Any) -> None:
    data = json.loads(path.read_text()) if path.exists() else {}
    fields = list(_fields_of(data))
    if not fields:
        return write(path, json.dumps(value if value is not ... else {"x": 1}).encode())
    holder, key = fields[int(place * len(fields))]
    if value is ...:
        del holder[key]
    else:
        holder[key] = value
    return write(path, json.dumps(data).encode())


def _fields_of(data: Any) -> Iterator[tuple[Any, Any]]:
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in [*pairs]:
        yield data, key
        yield from _fields_of(value)


def entries() -> list[Damage]:
    """Entries of the list of running pipelines, each with one odd value."""
    good = {"name": "odd", "pid": os.getpid(), "control_folder": "/nowhere", "store": None}
    return [partial(write, content=json.dumps(good | {name: value}).encode()) for name in good for value in ODD_VALUES]


def bytes_changed(rng: random.Random, count: int) -> list[Damage]:
    return [partial(_spoil, seed=rng.random()) for _ in range(count)]


def _spoil(path: Path, seed: float) -> None:
    rng = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(200):
        data[rng.randrange(len(data))] = rng.randrange(256)
    path.write_bytes(data)


def rows_changed(rng: random.Random) -> list[Damage]:
    values = ("text", b"\xff\x00", float("inf"), float("-inf"), 1e308, -1, None, "", "\x1b[2J", 2**62)
    return [partial(_change_row, value=value, seed=rng.random()) for value in values for _ in range(3)]


def _change_row(path: Path, value: Any, seed: float) -> None:
    rng = random.Random(seed)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in rng.sample(tables, k=min(3, len(tables))):
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            with contextlib.suppress(sqlite3.Error):
                database.execute(f"UPDATE {table} SET {rng.choice(columns)} = ?", (value,))


def words_changed(rng: random.Random, count: int) -> list[Damage]:
    """A number or word of a text that is another one."""
    words = [*NUMBERS, "", "x", '"[/]"', "\x00", "[[", "never"]
    return [partial(_change_word, word=rng.choice(words), seed=rng.random()) for _ in range(count)]


def _change_word(path: Path, word: str, seed: float) -> None:
    text = path.read_text()
    found = random.Random(seed).choice(list(re.finditer(r"[\w.]+", text)))
    path.write_text(text[: found.start()] + word + text[found.end() :])
