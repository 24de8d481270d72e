"""Files that appear under their name all at once: a reader sees the old content or the new one, never a part."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foretide.errors import FileError

MAX_TEXT_BYTES = 16_000_000
READABLE_BY_ALL = 0o644
PRIVATE = 0o600


@contextmanager
def atomic_path(path: Path, mode: int = READABLE_BY_ALL, *, durable: bool = True) -> Iterator[Path]:
    """A temporary file beside `path` to write to; it replaces `path` on success and is removed on an error.

    What is not `durable` may be lost when the machine loses power. It does not wait for the disk, which can take a
    tenth of a second and more while others write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if durable:
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write(path: Path, content: str | bytes, mode: int = READABLE_BY_ALL, *, durable: bool = True) -> None:
    """Replace the content of a file, or create it; see `atomic_path`."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with atomic_path(path, mode, durable=durable) as temporary:
        temporary.write_bytes(data)


def read_text(path: Path, what: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The text of a file that a user named: a regular file of limited size, in UTF-8.

    Args:
        path: The file.
        what: What the file should be, for the message, such as "a model".
        max_bytes: A larger file is refused before it is read in full.

    Raises:
        FileError: The file is missing, not regular, not readable, too large, or not UTF-8.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(path, f"cannot be read as {what}: it is not a regular file")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the name is not valid"
        raise FileError(path, f"cannot be read as {what}: {reason}") from error
    if len(data) > max_bytes:
        raise FileError(path, f"cannot be read as {what}: it is larger than {max_bytes:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(path, f"cannot be read as {what}: byte {error.start + 1:,} is not UTF-8 text") from error
