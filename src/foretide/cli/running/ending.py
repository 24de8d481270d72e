"""What is said at the end of a run about its target and its control loop, in lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from foretide.control.decisions.explain import account
from foretide.control.target_record import TargetRecord, past_reasons, standing, verdict
from foretide.formatting import format_duration

if TYPE_CHECKING:
    from foretide.apps.experiment import Verification
    from foretide.cli.console import Console
    from foretide.runtime.loop.controller import Controller


def target_verdict(
    quantile: str,
    seconds: float,
    measured: float | None,
    held: bool | None,
    batches: int = 0,
    missed: int = 0,
    intervals: int = 0,
) -> str:
    """Whether a latency target was held over a whole run. `missed` counts batches, or intervals of one second.

    >>> target_verdict("p99", 1.0, 5.93, False, batches=40, missed=12)
    'target p99 below 1 s: MISSED, measured 5.93 s over all tuples; missed in 12 of 40 batches'
    >>> target_verdict("p99", 0.1, 0.04, True, intervals=60, missed=2)
    'target p99 below 100 ms: held, measured 40 ms over all tuples; missed in 2 of 60 seconds'
    """
    target = f"target {quantile} below {format_duration(seconds)}"
    if measured is None:
        return f"{target}: unknown, no latency was measured"
    parts, unit = (batches, "batches") if batches else (intervals, "seconds")
    share = f"; missed in {missed:,} of {parts:,} {unit}" if parts else ""
    return f"{target}: {'held' if held else 'MISSED'}, measured {format_duration(measured)} over all tuples{share}"


def target_data(record: TargetRecord) -> dict[str, Any] | None:
    """The target as the control loop has judged it, of a run whose rows have no known due time."""
    if record.target.latency is None:
        return None
    return {
        "quantile": record.target.quantile,
        "seconds": record.target.latency,
        "measured": record.measured,
        "held": record.held,
        "measurements": record.measurements,
        "missed": record.missed,
        "missed_seconds": record.missed_seconds,
    }


def control_data(controller: Controller) -> dict[str, Any]:
    """How the target was kept, and what the control loop did and did not do."""
    return {"record": controller.record, "account": account(controller.decisions)}


def target_lines(record: TargetRecord | None, compared: dict[str, Any] | None) -> Iterator[str]:
    """Whether the target was held, for how long it was missed, why, and what would help.

    `compared` is the target beside the latency of all rows, where that is known; `record` is that of a control loop.
    """
    if compared is not None:
        yield target_verdict(**compared)
    if record is None or record.target.latency is None:
        return
    if compared is None:
        yield verdict(record)
    elif record.measurements:
        same = (record.target.quantile, record.target.latency) == (compared["quantile"], compared["seconds"])
        yield f"  at the end, by the control loop: {standing(record) if same else verdict(record)}"
    yield from (f"  {line}" for line in past_reasons(record))


def control_lines(controller: Controller, compared: dict[str, Any] | None = None) -> Iterator[str]:
    """The target, and what the control loop did and did not do."""
    yield from target_lines(controller.record, compared)
    yield from account(controller.decisions)


def show_target(
    console: Console, record: TargetRecord | None, compared: dict[str, Any] | None, name: str | None = None
) -> None:
    """Print the lines on the target, of the run of that name if there are several."""
    held = compared["held"] if compared is not None else None if record is None else record.held
    lines = list(target_lines(record, compared))
    for place, line in enumerate(lines):
        style = "bold red" if held is False and not place else ""
        console.print(f"{name}: {line}" if name and not place else line, highlight=False, soft_wrap=True, style=style)


def show_control(console: Console, controller: Controller, compared: dict[str, Any] | None = None) -> None:
    """Print whether the target was held, why not, and what the control loop did and did not do."""
    show_target(console, controller.record, compared)
    for line in account(controller.decisions):
        console.print(line, highlight=False, soft_wrap=True)


def show_exactness(console: Console, compared: Sequence[Verification | None], exact: str, wrong: str) -> None:
    """Print whether all outputs that could be compared are the expected ones; nothing if none could be."""
    known = [each for each in compared if each is not None]
    if known:
        all_exact = all(each.exact for each in known)
        console.print(exact if all_exact else wrong, style="bold green" if all_exact else "bold red")


def stopped_line(batch: int, verification: Verification | None) -> str:
    """What is said at the end of a run that was stopped before its load was over.

    >>> stopped_line(-1, None)
    'stopped as requested before its first batch; not compared'
    """
    said = "stopped as requested " + ("before its first batch" if batch < 0 else f"after batch {batch}")
    if verification is None:
        return f"{said}; not compared"
    judged = f"{said}; judged by the {verification.handed_out:,} rows that it took"
    waiting = f"; {verification.open_rows:,} results of open windows are not written yet"
    return judged + (waiting if verification.open_rows else "")
