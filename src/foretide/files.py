"""Files that appear under their name all at once: a reader sees the old content or the new one, never a part."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READABLE_BY_ALL = 0o644


@contextmanager
def atomic_path(path: Path, mode: int = READABLE_BY_ALL) -> Iterator[Path]:
    """A temporary file beside `path` to write to; it replaces `path` on success and is removed on an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write(path: Path, content: str | bytes, mode: int = READABLE_BY_ALL) -> None:
    """Replace the content of a file, or create it."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with atomic_path(path, mode) as temporary:
        temporary.write_bytes(data)
