"""Figures of matplotlib, which is an extra: the only place that imports it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from foretide.errors import EnvironmentNotReadyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float = 10, height: float = 4) -> Figure:
    """An empty figure, of a size in inches; EnvironmentNotReadyError if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise EnvironmentNotReadyError("plots require matplotlib: pip install 'foretide[plot]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the path's suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path
