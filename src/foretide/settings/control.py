"""How the control loop runs: whether it acts, how often, and by which policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foretide.control.decisions.decision import ControlMode
from foretide.durations import Seconds
from foretide.errors import ControlSettingError

PolicyName = Literal[
    "bypass", "prediction_error", "replicas", "processors", "admission", "hot_keys", "reactive", "static"
]


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """How the control loop runs.

    Attributes:
        mode: `act`, or `advise` to decide and explain without touching anything.
        period: Least seconds between two control cycles; each follows a batch, so 0 is one after every batch.
        horizon: Seconds ahead that a snapshot's plain forecasts speak of.
        policies: In order of rank: where two disagree, the first one wins. Each has a section of its own.
    """

    mode: ControlMode = "act"
    period: Seconds = 0.0
    horizon: Seconds = 30.0
    policies: tuple[PolicyName, ...] = ("bypass", "replicas", "hot_keys")

    def __post_init__(self) -> None:
        if not (self.period >= 0 and self.horizon > 0):
            raise ControlSettingError(
                f"a period of {self.period:g} s with a horizon of {self.horizon:g} s; give a period from 0 on and a "
                "horizon above 0"
            )
        twice = sorted({name for name in self.policies if self.policies.count(name) > 1})
        if twice:
            raise ControlSettingError(f"policies names {', '.join(twice)} more than once; name each policy once")


@dataclass(frozen=True, slots=True)
class StaticSettings:
    """The policy that never wishes anything has nothing to set."""
