"""Orders of people: checked, held, and written, for the command line and the dashboard alike.

What does not fit is refused before anything is written.
"""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from foretide.control.target_record import describe_target
from foretide.control.world.setup import Target
from foretide.control_folder.facts import PipelineFacts, check_admission, check_place, check_restart
from foretide.control_folder.folder import ControlFolder, ControlStatus
from foretide.control_folder.holds import dead_loop
from foretide.control_folder.orders import (
    HELD_MODE,
    HELD_TARGET,
    HeldOrder,
    LoopMode,
    RestartOrder,
    TargetOrder,
    held_place,
)
from foretide.errors import ActionError, ControlError, ControlFolderError
from foretide.routing.table import RouteTable

RouteChange = Callable[[RouteTable], RouteTable]

_MODE_WORDS = {
    "act": "the control loop acts",
    "advise": "the control loop only advises",
    "pause": "the control loop is paused",
}


def author() -> str:
    """The user and the host of this process."""
    user = "unknown"
    with suppress(OSError, KeyError, ImportError):  # a user without a name, as in some containers
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"


@contextmanager
def holding(folder: ControlFolder, subject: str, words: str, seconds: float | None) -> Iterator[HeldOrder]:
    """Note that a person sets something, so that the control loop leaves it alone; not so if setting it fails."""
    now = time.time()
    order = HeldOrder(author(), now, words, None if seconds is None else now + seconds)
    before = folder.orders.hold(subject, order)
    try:
        yield order
    except BaseException:
        with suppress(ControlFolderError):
            folder.orders.release(subject) if before is None else folder.orders.hold(subject, before)
        raise


def release(folder: ControlFolder, subject: str, *, ordered: bool = False) -> HeldOrder | None:
    """Let the control loop change something again; ActionError if nobody held it, and nothing is `ordered`."""
    found = folder.orders.release(subject)
    if found is None and not ordered:
        now = time.time()
        held = (f"{name}: {each.describe()}" for name, each in folder.orders.held().items() if each.holds(now))
        raise ActionError(f"nobody holds '{subject}' in '{folder.location}'; held: {'; '.join(held) or 'nothing'}")
    return found


def change_route(
    folder: ControlFolder, edge: str, change: RouteChange, words: str, seconds: float | None
) -> tuple[RouteTable, HeldOrder]:
    """Publish a changed route of an edge, and hold it."""
    change(folder.routes())
    with holding(folder, f"edge {edge}", words, seconds) as held:
        return folder.change_routes(change), held


def limit_admission(folder: ControlFolder, spout: str, rows: int | None, seconds: float | None) -> HeldOrder:
    """Set the limit of a spout, None for no limit, and hold it."""
    if rows is not None or spout not in folder.orders.admission():
        check_admission(spout, read_facts(folder))
    words = "no limit" if rows is None else f"{rows:,} rows per batch"
    with holding(folder, f"spout {spout}", words, seconds) as held:
        folder.orders.limit_admission(spout, rows)
    return held


def target_in_force(folder: ControlFolder) -> Target:
    """The target that the control loop holds, or will from its next cycle on."""
    control, held = folder.status.control(), folder.orders.held().get(HELD_TARGET)
    running = Target() if control is None else control.target
    return folder.orders.target().apply(running) if held is None or held.holds(time.time()) else running


def change_target(folder: ControlFolder, order: TargetOrder, seconds: float | None) -> tuple[Target, HeldOrder]:
    """Change the target from the next control cycle on, and hold it."""
    read_loop(folder, "no target would be held")
    target = order.apply(target_in_force(folder))
    with holding(folder, HELD_TARGET, describe_target(target), seconds) as held:
        folder.orders.set_target(order)
    return target, held


def release_target(folder: ControlFolder) -> None:
    """Go back to the target that the control loop began with; ActionError if nobody has set another."""
    release(folder, HELD_TARGET, ordered=folder.orders.target() != TargetOrder())
    folder.orders.release_target()


def change_mode(folder: ControlFolder, mode: LoopMode, seconds: float | None) -> HeldOrder:
    """Let the control loop act, only advise, or do nothing by itself, from its next cycle on."""
    read_loop(folder, "nobody would change its mode")
    with holding(folder, HELD_MODE, _MODE_WORDS[mode], seconds) as held:
        folder.orders.set_mode(mode)
    return held


def release_mode(folder: ControlFolder) -> None:
    """Go back to the mode that the control loop began with; ActionError if nobody has set another."""
    release(folder, HELD_MODE, ordered=folder.orders.mode() is not None)
    folder.orders.set_mode(None)


def drain(folder: ControlFolder, place: str, seconds: float | None) -> HeldOrder:
    """Take a host or worker out of service; ControlError if the pipeline does not have it."""
    check_place(place, read_loop(folder, "nobody would take the host out of service").workers)
    with holding(folder, held_place(place), f"no tasks for {place}", seconds) as held:
        folder.orders.drain(place)
    return held


def undrain(folder: ControlFolder, place: str) -> None:
    """Put a host or worker back into service; ActionError if it is not drained."""
    drained = sorted(folder.orders.drained())
    if place not in drained:
        known = ", ".join(drained) or "none"
        raise ActionError(f"'{place}' is not drained in '{folder.location}'; drained: {known}")
    folder.orders.release(held_place(place))
    folder.orders.drain(place, release=True)


def request_restart(folder: ControlFolder, order: RestartOrder) -> RestartOrder | None:
    """Have the control loop restart the query; an error if nobody would, or the order does not fit the pipeline.

    Returns the order that it replaces, if there is one.
    """
    if read_loop(folder, "nobody would restart it").mode == "advise":
        raise ActionError("the control loop, which would restart the pipeline, only advises (mode 'advise')")
    facts = read_facts(folder)
    check_restart(order, facts)
    _check_change(order, facts)
    return folder.orders.request_restart(order)


def _check_change(order: RestartOrder, facts: PipelineFacts) -> None:
    """Refuse a restart that is to change pools, and would change none."""
    same = [f"'{edge}' has {tasks} tasks" for edge, tasks in order.pools.items() if facts.pools[edge] == tasks]
    if same and len(same) == len(order.pools) and order.state_partitions is None:
        raise ActionError(
            f"the restart would change nothing: {', '.join(same)} already; without --pool it is restarted as it is"
        )


def read_facts(folder: ControlFolder) -> PipelineFacts:
    """What the pipeline is made of."""
    facts = folder.status.facts()
    if facts is None:
        raise ControlFolderError(f"no pipeline has started with the control folder '{folder.location}' yet")
    return facts


def read_loop(folder: ControlFolder, consequence: str) -> ControlStatus:
    """The control loop, which obeys orders."""
    control = folder.status.control()
    if control is None or control.ended:
        state = "is attached to" if control is None else "runs any more for"
        raise ControlError(f"no control loop {state} the pipeline with '{folder.location}': {consequence}")
    dead = dead_loop(folder.location)
    if dead is not None:
        raise ControlError(f"the control loop of {dead} has ended with its process: {consequence}")
    return control
