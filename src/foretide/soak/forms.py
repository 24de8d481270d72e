"""The forms of a campaign: what its pipeline is."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

Form = Literal["split", "python", "join"]


def pipeline_of(form: Form) -> Any:
    """The module of a form: its topology, its policies, and what it should commit. It imports Spark."""
    return import_module(f"foretide.soak.{form}_pipeline")
