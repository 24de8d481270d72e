"""Every kind of action. A new one is a class beside this module, a line in it, and a case in the actuator."""

from __future__ import annotations

from typing import get_args

from foretide.control.actions.executors import Quarantine, QuarantineHost, Release, ReleaseHost, Restart, SetExecutors
from foretide.control.actions.streams import SetAdmission, SetJoinPlan, SetReplicas, SetSplit

__all__ = [
    "ACTIONS",
    "Action",
    "Quarantine",
    "QuarantineHost",
    "Release",
    "ReleaseHost",
    "Restart",
    "SetAdmission",
    "SetExecutors",
    "SetJoinPlan",
    "SetReplicas",
    "SetSplit",
]

Action = (
    SetSplit
    | SetReplicas
    | Quarantine
    | Release
    | QuarantineHost
    | ReleaseHost
    | SetExecutors
    | SetAdmission
    | SetJoinPlan
    | Restart
)
"""Any action."""

ACTIONS: dict[str, type[Action]] = {action.kind: action for action in get_args(Action)}
"""All kinds of actions by their name in JSON."""
