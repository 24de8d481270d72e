"""Small files that are replaced all at once, on a local disk or in an object store.

A local disk does it by renaming over the old file; an object store by a PUT, which is atomic by itself.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlparse

from filelock import FileLock, Timeout

from foretide.errors import ControlFolderError
from foretide.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_LOCK_SECONDS = 30.0
_LOCK_POLL_SECONDS = 0.01


class Filesystem(Protocol):
    """What the control folder needs of a file system."""

    def read(self, name: str) -> str | None:
        """The text of a file, or None if it does not exist."""

    def write(self, name: str, text: str) -> None:
        """Replace the text of a file all at once."""

    def lock(self) -> AbstractContextManager[None]:
        """Exclude other writers while a text is read, changed and written."""

    def url(self, name: str) -> str:
        """The address under which Spark reads the file."""


class LocalFilesystem:
    """A folder on a local (or mounted) disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> str | None:
        try:
            return (self._folder / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        atomic_write(self._folder / name, text)  # readable by all: executors may run as another user

    @contextmanager
    def lock(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._folder / ".lock", timeout=_LOCK_SECONDS, poll_interval=_LOCK_POLL_SECONDS)
        try:
            lock.acquire()
        except Timeout:
            raise ControlFolderError(
                f"'{self._folder}' was locked for {_LOCK_SECONDS:g} s: the pipeline, its control loop or another "
                "foretide command is changing it, or hangs"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def url(self, name: str) -> str:
        return f"file://{(self._folder / name).absolute()}"  # as it is: Hadoop takes %20 for three letters


class ObjectStoreFilesystem:
    """A folder in an object store or HDFS, through Arrow's file systems.

    There is no lock: of two writers at the same time the last one wins, as the store decides.
    """

    def __init__(self, url: str, filesystem: Any = None, base: str | None = None) -> None:
        from pyarrow import fs  # noqa: PLC0415 - needed for stores only

        self._url = url.rstrip("/")
        if filesystem is None:
            filesystem, base = fs.FileSystem.from_uri(self._url.replace("s3a://", "s3://", 1))
        self._filesystem: Any = filesystem
        self._base = str(base).rstrip("/")

    def read(self, name: str) -> str | None:
        try:
            with self._filesystem.open_input_stream(f"{self._base}/{name}") as stream:
                return str(stream.read(), "utf-8", "replace")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        content = text.encode("utf-8")  # what is opened is published, so nothing may fail after it
        with self._filesystem.open_output_stream(f"{self._base}/{name}") as stream:
            stream.write(content)

    @contextmanager
    def lock(self) -> Iterator[None]:
        yield

    def url(self, name: str) -> str:
        return f"{self._url}/{name}"


def local_path(location: str) -> Path | None:
    """The path of a local folder, None for one in a store.

    >>> local_path("file:/data/out"), local_path("s3a://bucket/out")
    (PosixPath('/data/out'), None)
    """
    if urlparse(location).scheme in ("", "file"):
        return Path(re.sub("^file:(//[^/]*)?", "", location))
    return None


def absolute(location: str) -> str:
    """The location, independent of the working directory."""
    path = local_path(location)
    return location if path is None else str(path.absolute())


def make_folder(location: str) -> None:
    """Create a folder, on a disk or in a store, unless it exists."""
    path = local_path(location)
    if path is not None:
        path.mkdir(parents=True, exist_ok=True)
        return
    from pyarrow import fs  # noqa: PLC0415 - needed for stores only

    filesystem, base = fs.FileSystem.from_uri(location.replace("s3a://", "s3://", 1))
    filesystem.create_dir(base, recursive=True)


def open_filesystem(location: str) -> Filesystem:
    """The folder at a path or URL.

    >>> open_filesystem("/data/checkpoint/foretide").url("routes.json")
    'file:///data/checkpoint/foretide/routes.json'
    """
    path = local_path(location)
    if path is not None:
        return LocalFilesystem(path)
    try:
        return ObjectStoreFilesystem(location)
    except (OSError, ValueError) as error:
        raise ControlFolderError(f"cannot open the control folder '{location}': {error}") from error
