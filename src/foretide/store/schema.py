"""The tables of the store, for SQLite and PostgreSQL.

Names start with `foretide_`, so that the store can share a PostgreSQL database with others. The primary key of a
sample is its series and time: every query uses this index, and writing a sample again is harmless.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

VERSION = 1
"""Version of these tables. A store of a newer version is refused.

A new table does not change the version: older releases ignore it, and newer ones add it to a store without it.
"""

METADATA = MetaData()

_ROW_ID = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts by itself in SQLite

SCHEMA = Table("foretide_schema", METADATA, Column("version", Integer, primary_key=True, autoincrement=False))

SERIES = Table(
    "foretide_series",
    METADATA,
    Column("id", _ROW_ID, primary_key=True),
    Column("pipeline", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("subject", Text, nullable=False),
    UniqueConstraint("pipeline", "metric", "subject"),
    sqlite_autoincrement=True,  # an id is never used again: other processes may still hold it
)

SAMPLES = Table(
    "foretide_samples",
    METADATA,
    Column("series_id", _ROW_ID, ForeignKey(SERIES.c.id), primary_key=True, autoincrement=False),
    Column("at", Double, primary_key=True),
    Column("value", Double, nullable=False),
    sqlite_with_rowid=False,  # the index is the table: half the space, one tree to write
)

ALARMS = Table(
    "foretide_alarms",
    METADATA,
    Column("id", _ROW_ID, primary_key=True),
    Column("pipeline", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("rule", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("source", Text, nullable=False),
    UniqueConstraint("pipeline", "at", "rule", "subject", "source"),
)

DECISIONS = Table(
    "foretide_decisions",
    METADATA,
    Column("pipeline", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("acted", Boolean, nullable=False),
    Column("json", Text, nullable=False),
    Index("foretide_decisions_at", "at"),
)

SETUPS = Table(
    "foretide_setups",
    METADATA,
    Column("pipeline", Text, primary_key=True),
    Column("at", Double, primary_key=True),
    Column("json", Text, nullable=False),
)

ADDED = (DECISIONS, SETUPS)
"""Tables that an older store may not have."""
