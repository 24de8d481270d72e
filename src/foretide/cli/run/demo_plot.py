"""Draws the demonstration: latency of both runs, one beside the other, with what happened and what was decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.errors import EnvironmentNotReadyError

if TYPE_CHECKING:
    from foretide.cli.run.demo import Run, Script

_COLOURS = ("tab:red", "tab:green")


def draw_demo(runs: list[Run], script: Script, path: Path) -> None:
    """Write the picture; the ending of the path says which kind."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise EnvironmentNotReadyError("drawing needs matplotlib: pip install 'foretide[plot]'") from None
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    load, delay = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    for run, colour in zip(runs, _COLOURS, strict=True):
        full = [sample for sample in run.samples if sample.rows and sample.p99 is not None]
        delay.plot([s.ended for s in full], [s.p99 for s in full], color=colour, marker=".", label=f"p99, {run.name}")
        load.plot([s.ended for s in full], [s.rate / 1000 for s in full], color=colour, label=f"worked off, {run.name}")
    _forecast(load, runs[-1])
    for axes in (load, delay):
        axes.axvspan(script.slow_at, script.seconds, color="tab:red", alpha=0.06)
        axes.axvspan(script.surge_at, script.seconds, color="tab:orange", alpha=0.10)
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
    top = delay.get_ylim()[1]
    delay.text(script.slow_at, top * 0.6, " executor 0 slowed", color="tab:red", fontsize=9)
    delay.text(script.surge_at, top * 0.6, " load surges", color="tab:orange", fontsize=9)
    for at, _ in runs[-1].decisions:
        delay.axvline(at, color="tab:green", linestyle=":", linewidth=1)
    load.set_ylabel("rows/s, thousands")
    delay.set_ylabel("tuple latency (p99), s")
    delay.set_xlabel("seconds of replay (dotted: a decision)")
    figure.savefig(path, dpi=130)


def _forecast(axes: Any, run: Run) -> None:
    if run.foreseen:
        times, values = zip(*run.foreseen, strict=True)
        axes.plot(times, [value / 1000 for value in values], "k:", linewidth=1, label="load foreseen 10 s earlier")
