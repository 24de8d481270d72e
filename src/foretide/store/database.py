"""Opens the database at a path or URL: driver, settings of each connection, tables, version."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from foretide.errors import StoreError
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
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot {doing} '{shown(url)}': {_reason(error)}") from error


def _reason(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    message = " ".join(str(cause).split()) or type(cause).__name__
    hints = [hint for sign, hint in _HINTS.items() if sign in message]
    return f"{message} ({hints[0]})" if hints else message


def shown(url: URL) -> str:
    """The address without its password."""
    return url.database or "" if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


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
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"the URL of the store, which starts with '{scheme}://', is not valid: {error}") from error
    if scheme == "sqlite":
        return _sqlite_file(url)
    if scheme in {"postgresql", "postgres", "postgresql+psycopg"}:
        return url.set(drivername="postgresql+psycopg")
    raise StoreError(f"'{scheme}://' is not supported; give a path, sqlite:///file or postgresql://host/database")


def _sqlite_file(url: URL) -> URL:
    if url.database in {None, "", ":memory:"}:
        raise StoreError("a store in memory cannot be read by other processes; give a path such as metrics.db")
    return url.set(database=str(Path(str(url.database)).expanduser()))


def open_database(url: URL, *, create: bool = True) -> Engine:
    """Connect, and create the tables that are missing; without `create`, a store that does not exist is refused."""
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
    elif not path.exists():
        raise StoreError(f"there is no store at '{path}'; a pipeline that writes its metrics there creates it")
    engine = create_engine(url, connect_args={"timeout": LOCK_SECONDS} if "timeout" not in url.query else {})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    """Concurrent readers and a writer (WAL). A commit survives kill -9, and the file survives a power cut."""
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
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
    if lacks:  # a reader without the permission does without them
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
