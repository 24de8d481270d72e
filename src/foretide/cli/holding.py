"""Orders of people that hold: for how long, and how they are released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from foretide.cli.console import DurationOption, answer
from foretide.control_folder import by_hand
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.orders import HELD_MODE, HELD_TARGET, HeldOrder
from foretide.dates import local_date

ForOption = Annotated[
    float | None,
    DurationOption("--for", help="How long it holds, such as 10m. Default: until it is released.", show_default=False),
]

_RELEASES = {"edge": "route release", "spout": "admission release", "drained": "drain --release"}
_RELEASES_WHOLE = {HELD_TARGET: "target release", HELD_MODE: "mode release"}


def release(folder: ControlFolder, subject: str, *, as_json: bool) -> None:
    """Let the control loop change something again; an error if nobody held it."""
    found = by_hand.release(folder, subject)
    text = f"{subject} is released: it stays as it is until the control loop changes it"
    answer({"subject": subject, "released": found}, text, as_json=as_json)


def length(order: HeldOrder) -> str:
    """How long an order holds, for the sentence that confirms it."""
    if order.until is None:
        return "it holds until it is released"
    return f"it holds until {local_date(order.until, '%H:%M:%S')}"


def describe(held: Mapping[str, HeldOrder], now: float) -> Iterator[str]:
    """For each order that holds what it is, its origin and the command that releases it, a line each."""
    for subject, order in held.items():
        if order.holds(now):
            kind, _, name = subject.partition(" ")
            command = _RELEASES_WHOLE.get(subject) or f"{_RELEASES.get(kind, 'route release')} {name}"
            yield f"held by a person: {subject}: {order.words}"
            yield f"  {order.origin}"
            yield f"  released by: foretide {command}"
