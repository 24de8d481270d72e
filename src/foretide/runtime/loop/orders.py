"""What people have ordered, as the control loop obeys it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from foretide.control.actions.registry import Action, Quarantine, QuarantineHost, Release, ReleaseHost, Restart
from foretide.control.world.setup import Observed, Target
from foretide.control_folder.facts import check_restart
from foretide.control_folder.orders import (
    HELD_MODE,
    HELD_TARGET,
    HeldOrder,
    LoopMode,
    RestartOrder,
    TargetOrder,
    held_place,
)
from foretide.errors import ActionError, ControlFolderError, DamagedFileError, ForetideError

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretide.control_folder.folder import ControlFolder

Value = TypeVar("Value")
Last = TypeVar("Last")


class Orders:
    """Reads orders from the control folder.

    A file that cannot be read changes nothing: what was read last stays in force, and `problems` says so. A restart is
    taken up once, whatever the clocks of terminals say, and refused for good if it does not fit the pipeline.

    Attributes:
        last_drained: The drained hosts and workers as they were read last, by this loop or an earlier one.
    """

    def __init__(self, control_folder: ControlFolder, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = control_folder, clock
        self._held: dict[str, HeldOrder] = {}
        self._problems: dict[str, str] = {}
        self._target = TargetOrder()
        self._mode: LoopMode | None = None
        self.last_drained = self._earlier_drained()
        self._drained_before: frozenset[str] = frozenset()
        self._taken_up: str | None = None

    @property
    def problems(self) -> list[str]:
        """What cannot be read or obeyed at present."""
        return list(self._problems.values())

    def drained(self) -> frozenset[str]:
        """Hosts and workers that are to be out of service."""
        read = self._read("drained hosts", self._folder.orders.drained, self.last_drained)
        self.last_drained = frozenset(place for place in read if not self._has_ended(held_place(place)))
        return self.last_drained

    def _has_ended(self, subject: str) -> bool:
        """Whether an order was given for a time that is over."""
        order = self._held.get(subject)
        return order is not None and not order.holds(self._clock())

    def held(self) -> dict[str, HeldOrder]:
        """What people hold at this moment, by subject."""
        self._held = self._read("orders that hold", self._folder.orders.held, self._held)
        now = self._clock()
        return {subject: order for subject, order in self._held.items() if order.holds(now)}

    def check_admission(self) -> None:
        """Say so if the limits cannot be read; the spouts, which read them, then keep theirs."""
        self._read("admission limits", self._folder.orders.admission, None)

    def target(self, initial: Target) -> Target:
        """The initial target with what people have changed."""
        self._target = self._read("target", self._folder.orders.target, self._target)
        if self._has_ended(HELD_TARGET):
            return initial
        try:
            target = self._target.apply(initial)
        except ForetideError as error:
            self._problems["wrong target"] = f"the requested target is invalid ({error}); the initial one is held"
            return initial
        self._problems.pop("wrong target", None)
        return target

    def mode(self, initial: LoopMode) -> LoopMode:
        """What the loop is to do: the initial mode, or what people have changed it to."""
        self._mode = self._read("mode of the control loop", self._folder.orders.mode, self._mode)
        return initial if self._mode is None or self._has_ended(HELD_MODE) else self._mode

    def actions(self, observed: Observed) -> tuple[Action, ...]:
        """What was requested and is not in force."""
        drained = observed.drained
        wanted: list[Action] = [_take_out(place, observed) for place in sorted(drained)]
        wanted += [_let_in(place, observed) for place in sorted(self._drained_before - drained)]
        still_out = {place for place in self._drained_before if not _let_in(place, observed).in_force(observed)}
        self._drained_before = drained | still_out
        restart = self._restart()
        wanted += [] if restart is None else [restart]
        return tuple(action for action in wanted if not action.in_force(observed))

    def _restart(self) -> Restart | None:
        """The restart that was requested and not taken up yet."""
        order = self._read("requested restart", self._folder.orders.restart, None)
        if order is None or order.id == self._taken_up:
            return None
        self._problems.pop("refused restart", None)
        try:
            if order.id == self._folder.orders.last_restarted():
                self._taken_up = order.id
                return None
            self._check(order)
            return Restart(order.reason, order.state_partitions, order.pools, order.id, order.admission)
        except (DamagedFileError, ActionError) as error:
            self._refuse(order, error)
        except ControlFolderError as error:  # a store that does not answer now
            self._problems["refused restart"] = f"the requested restart waits: {error}"
        return None

    def _refuse(self, order: RestartOrder, reason: ForetideError) -> None:
        """Refuse an order for good, after a start of the driver, too."""
        self._problems["refused restart"] = f"the requested restart is refused: {reason}"
        self._taken_up = order.id
        with suppress(ControlFolderError):
            self._folder.orders.note_restarted(order.id)

    def _check(self, order: RestartOrder) -> None:
        facts = self._folder.status.facts()
        if facts is None:
            raise ActionError("the pipeline has not said what it is made of; start it again")
        check_restart(order, facts)

    def _read(self, what: str, read: Callable[[], Value], last: Last) -> Value | Last:
        """What a file holds, or what it held last."""
        try:
            value = read()
        except ControlFolderError as error:
            self._problems[what] = f"{what}: {error}; until then those that were read last stay in force"
            return last
        self._problems.pop(what, None)
        return value

    def _earlier_drained(self) -> frozenset[str]:
        """What an earlier loop kept out of service, for the case that the orders cannot be read."""
        status = self._read("earlier loop", self._folder.status.control, None)
        self._problems.pop("earlier loop", None)
        return frozenset() if status is None else frozenset(status.drained)


def _take_out(place: str, observed: Observed) -> Quarantine | QuarantineHost:
    return Quarantine(place) if place in observed.executors else QuarantineHost(place)


def _let_in(place: str, observed: Observed) -> Release | ReleaseHost:
    return Release(place) if place in observed.executors else ReleaseHost(place)
