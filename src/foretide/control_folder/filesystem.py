"""Small files that are replaced all at once, on a local disk or in an object store.

A local disk does it by renaming over the old file; an object store by a PUT, which is atomic by itself.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import sys
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock, Timeout

from foretide.errors import ControlFolderError, DamagedFileError
from foretide.files import PRIVATE, READABLE_BY_ALL, atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

LOCK_SECONDS = 5.0
"""How long a command, or a call from Python, waits for others who change the folder."""

HURRIED_LOCK_SECONDS = 0.5
"""How long the thread waits that follows a query: it tries again after the next batch."""

_LOCK, _LOCK_HOLDER = ".lock", ".lock-holder"
_LOCK_POLL_SECONDS = 0.01
_PRIVATE_FOLDER = 0o700
_SCHEME = re.compile("([A-Za-z][A-Za-z0-9+.-]*):")
_DAMAGE = (IsADirectoryError, NotADirectoryError, PermissionError, ValueError)


class Filesystem(Protocol):
    """What the control folder needs of a file system."""

    def read(self, name: str) -> str | None:
        """The text of a file, or None if it does not exist.

        Raises:
            DamagedFileError: It cannot be read as it is: it is a folder, not UTF-8, or forbidden.
            ControlFolderError: It cannot be read at present.
        """

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        """Replace the text of a file all at once; ControlFolderError if that fails.

        With `durable`, it is on the disk afterwards, and not lost when the machine loses power.
        """

    def lock(self, seconds: float = LOCK_SECONDS) -> AbstractContextManager[None]:
        """Exclude other writers while a text is read, changed and written; ControlFolderError if others go on."""

    def url(self, name: str) -> str:
        """The address under which Spark reads the file."""


class LocalFilesystem:
    """A folder on a local (or mounted) disk.

    A private one is created for its owner only. Its files can be read by those who can read the folder: whoever needs
    more, as executors of another user do, creates the folder beforehand.
    """

    def __init__(self, folder: Path, *, private: bool = True) -> None:
        self._folder, self._private = folder, private

    def read(self, name: str) -> str | None:
        path = self._folder / name
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a folder, or a pipe, which would be waited for
                raise DamagedFileError(f"'{path}' cannot be read: it is not a file")
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except _DAMAGE as error:
            raise DamagedFileError(f"'{path}' cannot be read: {_reason(error)}") from error
        except OSError as error:
            raise ControlFolderError(f"'{path}' cannot be read: {_reason(error)}") from error

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        path, content = self._folder / name, text.encode("utf-8")
        try:
            self.create()
            if path.is_dir() and not path.is_symlink():
                _move_aside(path)
            atomic_write(path, content, self._mode(), durable=durable)
        except (OSError, ValueError) as error:
            raise ControlFolderError(f"'{path}' cannot be written: {_reason(error)}") from error

    @contextmanager
    def lock(self, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        lock = FileLock(self._folder / _LOCK, timeout=seconds, poll_interval=_LOCK_POLL_SECONDS, mode=PRIVATE)
        holder = self._folder / _LOCK_HOLDER
        try:
            self.create()
            lock.acquire()
        except Timeout:
            raise ControlFolderError(
                f"'{self._folder}' was not changed: {_holder(holder, self._folder / _LOCK)} has locked it for more "
                f"than {seconds:g} s; wait until it has finished, or end it if it hangs"
            ) from None
        except (OSError, ValueError) as error:
            raise ControlFolderError(f"'{self._folder}' cannot be locked: {_reason(error)}") from error
        try:
            with suppress(OSError):  # it is only for messages
                holder.touch(PRIVATE)
                holder.write_text(f"process {os.getpid()} on {socket.gethostname()} ({Path(sys.argv[0]).name})")
            yield
        finally:
            with suppress(OSError):
                holder.unlink()
            lock.release()

    def url(self, name: str) -> str:
        return f"file://{(self._folder / name).absolute()}"  # as it is: Hadoop takes %20 for three letters

    def create(self) -> None:
        """Create the folder unless it exists."""
        if not self._folder.is_dir():
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            self._folder.mkdir(mode=_PRIVATE_FOLDER if self._private else 0o777, exist_ok=True)

    def _mode(self) -> int:
        return PRIVATE | (self._folder.stat().st_mode & 0o044) if self._private else READABLE_BY_ALL


def _move_aside(path: Path) -> None:
    """Give a folder that is in the place of a file another name; what is in it stays."""
    free = (path.with_name(f"{path.name}.damaged-{number}") for number in count(1))
    path.rename(next(name for name in free if not name.exists()))


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _holder(note: Path, lock: Path) -> str:
    """Who holds a lock: as they noted, or as the kernel knows."""
    with suppress(OSError, ValueError):
        return note.read_text(encoding="utf-8").strip() or "another process"
    with suppress(OSError, ValueError, IndexError):
        inode = str(lock.stat().st_ino)
        for entry in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
            fields = entry.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode and int(fields[4]) > 0:
                return f"process {fields[4]}"
    return "another process"


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
                return str(stream.read(), "utf-8")
        except FileNotFoundError:
            return None
        except _DAMAGE as error:
            raise DamagedFileError(f"'{self.url(name)}' cannot be read: {_reason(error)}") from error
        except OSError as error:
            raise ControlFolderError(f"'{self.url(name)}' cannot be read: {_reason(error)}") from error

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        del durable  # a store has what it has taken
        content = text.encode("utf-8")  # what is opened is published, so nothing may fail after it
        try:
            with self._filesystem.open_output_stream(f"{self._base}/{name}") as stream:
                stream.write(content)
        except (OSError, ValueError) as error:
            raise ControlFolderError(f"'{self.url(name)}' cannot be written: {_reason(error)}") from error

    @contextmanager
    def lock(self, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        del seconds
        yield

    def url(self, name: str) -> str:
        return f"{self._url}/{name}"


def local_path(location: str) -> Path | None:
    """The path of a local folder, None for one in a store.

    >>> local_path("file:/data/out"), local_path("s3a://bucket/out")
    (PosixPath('/data/out'), None)
    """
    scheme = _SCHEME.match(location)
    if scheme is None or scheme[1].lower() == "file":
        return Path(re.sub("^file:(//[^/]*)?", "", location, flags=re.IGNORECASE))
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


def open_filesystem(location: str, *, private: bool = False) -> Filesystem:
    """The folder at a path or URL; a private one on a disk is for its owner only.

    >>> open_filesystem("/data/checkpoint/foretide").url("routes.json")
    'file:///data/checkpoint/foretide/routes.json'
    """
    path = local_path(location)
    if path is not None:
        return LocalFilesystem(path, private=private)
    try:
        return ObjectStoreFilesystem(location)
    except (OSError, ValueError, NotImplementedError) as error:
        raise ControlFolderError(f"cannot open the control folder '{location}': {error}") from error
