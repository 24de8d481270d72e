"""Orders of people that hold: who gave them, for how long, and how they are released."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated

from foretide.cli.console import DurationOption, answer
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.orders import HELD_TARGET, HeldOrder
from foretide.dates import local_date
from foretide.errors import ActionError, ControlFolderError

ForOption = Annotated[
    float | None,
    DurationOption("--for", help="How long it holds, such as 10m. Default: until it is released.", show_default=False),
]

_RELEASES = {"edge": "route release", "spout": "admission release", "drained": "drain --release", "target": "target"}


@contextmanager
def holding(folder: ControlFolder, subject: str, words: str, seconds: float | None) -> Iterator[HeldOrder]:
    """Note that a person sets something, so that the control loop leaves it alone; not so if setting it fails."""
    now = time.time()
    order = HeldOrder(_me(), now, words, None if seconds is None else now + seconds)
    before = folder.orders.hold(subject, order)
    try:
        yield order
    except BaseException:
        with suppress(ControlFolderError):
            folder.orders.release(subject) if before is None else folder.orders.hold(subject, before)
        raise


def release(folder: ControlFolder, subject: str, *, as_json: bool) -> None:
    """Let the control loop change something again; an error if nobody held it."""
    found = folder.orders.release(subject)
    if found is None:
        held = "; ".join(describe(folder.orders.held(), time.time())) or "nothing"
        raise ActionError(f"nobody holds '{subject}' in '{folder.location}'; held: {held}")
    text = f"{subject} is released: it stays as it is until the control loop changes it"
    answer({"subject": subject, "released": found}, text, as_json=as_json)


def length(order: HeldOrder) -> str:
    """How long an order holds, for the sentence that confirms it."""
    if order.until is None:
        return "it holds until it is released"
    return f"it holds until {local_date(order.until, '%H:%M:%S')}"


def describe(held: Mapping[str, HeldOrder], now: float) -> Iterator[str]:
    """A line for each order that holds, with the command that releases it."""
    for subject, order in held.items():
        if order.holds(now):
            kind, _, name = subject.partition(" ")
            command = f"{_RELEASES.get(kind, 'route release')} {'release' if subject == HELD_TARGET else name}"
            yield f"{subject}: {order.describe()}; `foretide {command}` ends it"


def _me() -> str:
    """The user and the host of this terminal."""
    user = "unknown"
    with suppress(OSError, KeyError, ImportError):  # a user without a name, as in some containers
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"
