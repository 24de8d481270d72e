"""Files of a folder on any file system that Spark knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class HadoopFolder:
    """A folder, read and changed through Spark's own file systems. Names are relative to it."""

    def __init__(self, spark: Any, location: str) -> None:
        self._jvm = spark._jvm  # noqa: SLF001 - PySpark has no files of its own
        path = self._path(location)
        self._files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
        self._root = self._files.makeQualified(path).toString()

    def names(self, folder: str = "") -> list[str]:
        """What is in a folder; nothing if it does not exist."""
        path = self._at(folder)
        if not self._files.exists(path):
            return []
        return [entry.getPath().getName() for entry in self._files.listStatus(path)]

    def numbers(self, folder: str) -> list[int]:
        """The entries of a log: files that are called by their number, in order."""
        return sorted(int(name) for name in self.names(folder) if name.isdecimal())

    def below(self, folder: str) -> Iterator[str]:
        """All files in a folder and in the folders in it."""
        path = self._at(folder)
        if self._files.exists(path):
            found = self._files.listFiles(path, True)  # noqa: FBT003 - Java has no names for arguments
            while found.hasNext():
                yield found.next().getPath().toString().removeprefix(f"{self._root}/")

    def read(self, name: str) -> str:
        """The text of a file; empty if it does not exist."""
        path = self._at(name)
        if not self._files.exists(path):
            return ""
        stream = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def delete(self, name: str) -> None:
        """Delete a file, with its checksum if it has one."""
        self._files.delete(self._at(name), False)  # noqa: FBT003

    def _at(self, name: str) -> Any:
        return self._path(f"{self._root}/{name}" if name else self._root)

    def _path(self, location: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(location)
