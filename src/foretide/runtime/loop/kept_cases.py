"""What the policy `bypass` remembers of bad workers over restarts of the driver, in the control folder."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from foretide.control.policies.bypass import Bypass
from foretide.errors import ControlFolderError

if TYPE_CHECKING:
    from foretide.control.policies.worker_cases import WorkerCase
    from foretide.control.step import Control, ControlState
    from foretide.control.world.world import World
    from foretide.control_folder.folder import ControlFolder


class KeptCases:
    """Bad workers of this driver and of earlier ones."""

    def __init__(self, control_folder: ControlFolder) -> None:
        self._folder = control_folder
        self._cases: tuple[WorkerCase, ...] | None = None

    def recall(self, control: Control, state: ControlState, world: World) -> ControlState:
        """The state with what an earlier driver has seen, before the first cycle that knows executors."""
        if self._cases is not None or not world.observed.executors:
            return state
        self._cases = self._folder.worker_cases()
        recalled = {each.name: each.recall(self._cases, world.observed, world.at) for each in _bypass(control)}
        return replace(state, policies={**state.policies, **{name: each for name, each in recalled.items() if each}})

    def keep(self, control: Control, state: ControlState, world: World) -> None:
        """Write what is to be remembered, whenever it has changed. What cannot be written is tried again."""
        for policy in _bypass(control) if self._cases is not None else ():
            cases = policy.cases(self._cases or (), state.policies[policy.name], world.observed, world.at)
            if cases != self._cases:
                with suppress(ControlFolderError):  # that is a problem of the status already
                    self._folder.keep_worker_cases(cases)
                    self._cases = cases


def _bypass(control: Control) -> list[Bypass]:
    return [policy for policy in control.policies if isinstance(policy, Bypass)]
