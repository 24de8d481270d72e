"""How what Foretide costs grows with the size of a query: `python -m benchmarks scaling [--quick]`.

A part alone: `python -m benchmarks.scaling loop [--quick]`; the parts are those of `PARTS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PARTS = ("loop", "keys", "history", "cluster", "tasks", "executors", "pipelines")
"""Without Spark first; the last three run real queries."""

_WITHOUT_SPARK = PARTS[:4]


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - figures without pictures
    """All tables."""
    return tables(PARTS, quick=quick)


def tables(parts: Sequence[str], *, quick: bool) -> dict[str, Any]:
    """The tables of some parts."""
    found: dict[str, Any] = {}
    for part in parts:
        alone = part in _WITHOUT_SPARK
        module = importlib.import_module(f"benchmarks.scaling.{part if alone else 'live'}")
        found |= getattr(module, "figures" if alone else f"by_{part}")(quick=quick)
    return found
