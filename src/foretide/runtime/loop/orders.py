"""What people request of a running loop from any terminal: targets, drained hosts, restarts."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from foretide.control.actions.registry import Action, Quarantine, QuarantineHost, Release, ReleaseHost, Restart
from foretide.control.world.setup import Target
from foretide.errors import ForetideError

if TYPE_CHECKING:
    from foretide.control.world.observed import Observed
    from foretide.control_folder.folder import ControlFolder

_TARGET_FIELDS = frozenset(field.name for field in fields(Target))


class Orders:
    """Reads requests from the control folder. An invalid one is described in `problem` and has no effect."""

    def __init__(self, control_folder: ControlFolder, since: float) -> None:
        self._control_folder, self._since = control_folder, since
        self._drained_before: frozenset[str] = frozenset()
        self.problem: str | None = None

    def target(self, initial: Target) -> Target:
        """The initial target with what people have changed."""
        changes = {name: value for name, value in self._control_folder.target().items() if name in _TARGET_FIELDS}
        try:
            target = replace(initial, **changes) if changes else initial
        except (ForetideError, TypeError) as error:
            self.problem = f"the requested target is invalid ({error}); the initial one is held"
            return initial
        self.problem = None
        return target

    def actions(self, observed: Observed) -> tuple[Action, ...]:
        """What was requested and is not in force."""
        drained = observed.drained
        wanted: list[Action] = [_take_out(place, observed) for place in sorted(drained)]
        wanted += [_let_in(place, observed) for place in sorted(self._drained_before - drained)]
        still_out = {place for place in self._drained_before if not _let_in(place, observed).in_force(observed)}
        self._drained_before = drained | still_out
        restart = self._restart(self._control_folder.wanted_restart(), observed)
        wanted += [] if restart is None else [restart]
        return tuple(action for action in wanted if not action.in_force(observed))

    def _restart(self, requested: dict[str, Any], observed: Observed) -> Restart | None:
        """The restart that was requested since this loop started, unless the query was restarted since."""
        at = requested.get("at")
        if not isinstance(at, int | float) or at < self._since or observed.started > at:
            return None
        try:
            return Restart(
                str(requested.get("reason") or "requested"),
                requested.get("state_partitions"),
                dict(requested.get("pools") or {}),
                after=float(at),
            )
        except (ForetideError, TypeError, ValueError) as error:
            self.problem = f"the requested restart is invalid: {error}"
            return None


def _take_out(place: str, observed: Observed) -> Quarantine | QuarantineHost:
    return Quarantine(place) if place in observed.executors else QuarantineHost(place)


def _let_in(place: str, observed: Observed) -> Release | ReleaseHost:
    return Release(place) if place in observed.executors else ReleaseHost(place)
