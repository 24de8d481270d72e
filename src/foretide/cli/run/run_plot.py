"""Draws a run: rows and latency over time, and how an edge was split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from foretide.errors import EnvironmentNotReadyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretide.cli.run.view import BatchRow


def draw_run(samples: Sequence[BatchRow], path: Path, edge: str) -> None:
    """Write a picture of the run; the ending of the path says which kind."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise EnvironmentNotReadyError("drawing needs matplotlib: pip install 'foretide[plot]'") from None
    full = [sample for sample in samples if sample.rows and sample.p99 is not None]
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    load, delay, split = figure.subplots(3, 1, sharex=True)
    times = [sample.due for sample in full]
    load.plot(times, [sample.rows / 1000 for sample in full], color="tab:blue", marker=".")
    load.set_ylabel("rows a batch, thousands")
    delay.plot(times, [sample.p99 for sample in full], color="tab:red", label="p99")
    delay.plot(times, [sample.p50 for sample in full], color="tab:orange", label="p50")
    delay.set_ylabel("tuple latency, s")
    delay.set_ylim(bottom=0)
    delay.legend(loc="upper right")
    known = [(sample.due, sample.per_task) for sample in full if sample.per_task and sum(sample.per_task)]
    shares = [[rows / sum(tasks) for rows in tasks] for _, tasks in known]
    split.stackplot(
        [due for due, _ in known],
        list(zip(*shares, strict=True)),
        labels=[f"task {task}" for task in range(len(shares[0]) if shares else 0)],
        step="post",
    )
    split.set_ylabel(f"split of '{edge}'")
    split.set_xlabel("seconds of replay")
    split.set_ylim(0, 1)
    split.legend(loc="upper right")
    figure.savefig(path, dpi=130)
