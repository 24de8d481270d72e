"""Opens the database at a path or URL: driver, settings of each connection, tables, version."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from foretide.errors import StoreError
from foretide.secrets import HIDDEN, masked, masked_url
from foretide.store.queries import ADDED, METADATA, SCHEMA, VERSION

LOCK_SECONDS = 5
"""Time-out for the lock of another writer, and for a connection."""

_CREATION_LOCK = 0x666F7265  # any number that all processes of Foretide share

_SQLITE_SETTINGS = (
    "synchronous = NORMAL",
    "foreign_keys = ON",
    "wal_autocheckpoint = 8000",  # samples of many series touch many pages: moving them home less often writes less
    "journal_size_limit = 33554432",
)

_PRIVATE = 0o600
_PAGES = ("freelist_count", "page_count")
_MIN_FREE_PAGES = 64
_MIN_FREE_SHARE = 0.1

_HINTS = {
    "disk is full": "free some space, or keep metrics for a shorter time",
    "No space left": "free some space, or keep metrics for a shorter time",
    "database is locked": "another program holds it; retry when that one is done",
    "file is not a database": "it is not an SQLite file, or is damaged; move it away, and a new one is created",
    "malformed": "the file is damaged; move it away, and a new one is created",
    "unable to open database file": "check that the path is a file in a writable folder",
    "readonly": "check that the file and its folder are writable",
}


@contextmanager
def store_errors(doing: str, url: URL) -> Iterator[None]:
    """Turn errors of the database into a StoreError that says what failed, where, and what may help."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError, UnicodeDecodeError) as error:
        message = f"cannot {doing} '{shown(url)}': {_reason(error)}"
        raise StoreError(message.replace(str(url.password), HIDDEN) if url.password else message) from error


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):  # SQLite's own message quotes what is damaged
        return "the file is damaged; move it away, and a new one is created"
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    message = masked(" ".join(str(cause).split()) or type(cause).__name__)
    hints = [hint for sign, hint in _HINTS.items() if sign in message]
    return f"{message} ({hints[0]})" if hints else message


def shown(url: URL) -> str:
    """The address without its secrets."""
    return str(url.database) if url.get_backend_name() == "sqlite" else masked_url(url.render_as_string())


def database_url(location: str | Path) -> URL:
    """The URL of the database at a path or URL; StoreError if it cannot be one.

    >>> database_url("metrics.db").render_as_string()
    'sqlite:///metrics.db'
    >>> database_url("postgresql://host/metrics").drivername
    'postgresql+psycopg'
    """
    if isinstance(location, Path) or "://" not in location:
        return _sqlite_file(URL.create("sqlite", database=str(location)))
    scheme = location.partition("://")[0]
    try:
        url = make_url(location)
    except (ArgumentError, ValueError):  # which may quote a part of the password
        hint = "check its port, and write special characters of a password as %40 for @, %3A for : and %2F for /"
        raise StoreError(f"the URL of the store, which starts with '{scheme}://', is not valid; {hint}") from None
    if scheme == "sqlite":
        return _sqlite_file(url)
    if scheme in {"postgresql", "postgres", "postgresql+psycopg"}:
        return url.set(drivername="postgresql+psycopg")
    raise StoreError(f"'{scheme}://' is not supported; give a path, sqlite:///file or postgresql://host/database")


def _sqlite_file(url: URL) -> URL:
    if url.database in {None, "", ":memory:"}:
        raise StoreError("a store in memory cannot be read by other processes; give a path such as metrics.db")
    if set(url.query) - {"timeout"} or not _is_seconds(url.query.get("timeout", "1")):
        raise StoreError("the URL of an SQLite store takes no option but a number of seconds, such as ?timeout=5")
    return url.set(database=str(Path(str(url.database)).expanduser()))


def _is_seconds(value: object) -> bool:
    try:
        return math.isfinite(float(str(value)))
    except ValueError:
        return False


def open_database(url: URL, *, create: bool = True) -> Engine:
    """Connect, and create the tables that are missing.

    Without `create`, the store is opened for reading only, and refused if it does not exist.
    """
    with store_errors("open the store", url):
        engine = _engine(url, create=create)
        try:
            _prepare(engine, url, create=create)
        except BaseException:
            engine.dispose()
            raise
        return engine


def writing(engine: Engine) -> Engine:
    """The same database, for transactions that write."""
    return engine.execution_options(foretide_writes=True)


def file_of(url: URL) -> Path | None:
    """The file of an SQLite store, whatever the working folder will be; None for a server."""
    return Path(str(url.database)).absolute() if url.get_backend_name() == "sqlite" else None


def file_identity(path: Path | None) -> tuple[int, int] | None:
    """Device and inode of a file; None if there is none."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def give_back_space(engine: Engine, pages: int) -> bool:
    """Give pages of an SQLite file back if a good part of it is free; False if it is not. Servers do so themselves."""
    if engine.dialect.name != "sqlite":
        return False
    with writing(engine).begin() as connection:
        free, total = (int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in _PAGES)
        if free < max(_MIN_FREE_PAGES, _MIN_FREE_SHARE * total):
            return False
        driver: Any = connection.connection.driver_connection  # SQLAlchemy would not step through to the end
        driver.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
        left = int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())
    return left < free


def _engine(url: URL, *, create: bool) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url, create=create)
    limits = {"connect_timeout": LOCK_SECONDS, "tcp_user_timeout": 1000 * LOCK_SECONDS}
    wanted = {name: value for name, value in limits.items() if name not in url.query}
    try:
        engine = create_engine(url, connect_args=wanted, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreError("a store in PostgreSQL requires an extra: pip install 'foretide[postgres]'") from error
    event.listen(engine, "connect", _set_up_postgres)
    return engine


def _sqlite_engine(url: URL, *, create: bool) -> Engine:
    path = Path(str(url.database))
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
        _create_private(path)
    elif not path.exists():
        raise StoreError(f"there is no store at '{path}'; a pipeline that writes its metrics there creates it")
    seconds = float(str(url.query.get("timeout", LOCK_SECONDS)))
    if create:
        engine = create_engine(url.set(query={}), connect_args={"timeout": seconds})
        event.listen(engine, "connect", _set_up_sqlite)
    else:
        engine = create_engine(url.set(query={}), creator=partial(_connect_to_read, path, seconds))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_private(path: Path) -> None:
    """Create the file, if it does not exist, for its owner alone; SQLite makes those beside it likewise."""
    with suppress(FileExistsError):
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE)
        os.fchmod(handle, _PRIVATE)
        os.close(handle)


def _connect_to_read(path: Path, seconds: float) -> sqlite3.Connection:
    """A connection that cannot write.

    Where nobody writes, and this user may not create the files that a reader of a WAL database shares with writers,
    SQLite has to be told that the file does not change.
    """
    connect = partial(sqlite3.connect, uri=True, timeout=seconds, isolation_level=None, check_same_thread=False)
    address = f"file:{quote(str(path.absolute()))}"
    connection = connect(f"{address}?mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except sqlite3.OperationalError as error:
        connection.close()
        if not any(sign in str(error) for sign in ("unable to open", "readonly")):
            raise
        connection = connect(f"{address}?mode=ro&immutable=1")
    for table in ADDED:  # an older store has no such table: its reader finds an empty one
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table.name]).fetchone():
            connection.execute(f"CREATE TEMP TABLE {table.name} ({', '.join(table.columns.keys())})")
    return connection


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    """Concurrent readers and a writer (WAL). A commit survives kill -9, and the file survives a power cut."""
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; that of an older one cannot be changed
    _switch_to_wal(connection)
    for setting in _SQLITE_SETTINGS:
        connection.execute(f"PRAGMA {setting}")


def _switch_to_wal(connection: Any) -> None:
    """SQLite itself does not wait if another process is doing the same."""
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    """Take the write lock first: a transaction that reads and then writes could not wait for it later."""
    writes = connection.get_execution_options().get("foretide_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _set_up_postgres(connection: Any, _record: Any) -> None:
    """Waiting for a lock has a time-out."""
    connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
    connection.commit()


def _prepare(engine: Engine, url: URL, *, create: bool) -> None:
    with engine.connect() as connection:
        found = _version(connection)
        lacks = found == VERSION and not all(inspect(connection).has_table(table.name) for table in ADDED)
    if found is None:
        if not create:
            raise StoreError(
                f"there is no store in '{shown(url)}'; a pipeline that writes its metrics there creates it"
            )
        with writing(engine).begin() as connection:
            found = _create(connection)
    if found != VERSION:
        remedy = "update Foretide, or use another store" if found > VERSION else "use another store"
        raise StoreError(
            f"the store '{shown(url)}' has version {found}, this release requires version {VERSION}: {remedy}"
        )
    if lacks and (create or url.get_backend_name() != "sqlite"):  # a reader without the permission does without them
        with suppress(*(() if create else (DBAPIError,))), writing(engine).begin() as connection:
            _create(connection)


def _version(connection: Connection) -> int | None:
    if not inspect(connection).has_table(SCHEMA.name):
        return None
    return connection.scalar(select(SCHEMA.c.version))


def _create(connection: Connection) -> int:
    """Create the tables that are missing, one process at a time (SQLite ensures that itself); returns the version."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _CREATION_LOCK})
    found = _version(connection)
    if found in (None, VERSION):
        METADATA.create_all(connection)
    if found is None:
        connection.execute(SCHEMA.insert(), {"version": VERSION})
    return found or VERSION
