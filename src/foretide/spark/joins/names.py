"""Names that a join gives to columns of its own."""

from __future__ import annotations

RESERVED = "_ft_"
"""No column of a user may begin like this."""

VERSIONS = f"{RESERVED}versions"
SALT = f"{RESERVED}salt_"
"""Columns of salts begin like this; the join's name follows, by which its state is found."""
