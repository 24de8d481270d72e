"""All settings of a pipeline and its control loop, a section for each concern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, TypeVar

from annotated_types import Ge
from typing_extensions import Doc

from foretide.bounds import Bounded, OneOf
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.forecast_scores import VoteSettings
from foretide.control.guards import GuardSettings
from foretide.control.policies.registry import POLICIES
from foretide.control.step import Control, Policy
from foretide.control.world.setup import ControlMode, Target
from foretide.durations import Seconds
from foretide.errors import SettingsError
from foretide.settings.forecasts import ForecastSettings
from foretide.settings.run import MonitorSettings, RunSettings

T = TypeVar("T", bound=Bounded)


@dataclass(frozen=True, slots=True)
class ControlSettings(Bounded):
    """How the control loop runs."""

    section: ClassVar[str] = "control"

    mode: Annotated[ControlMode, Doc("`act`, or `advise` to decide and explain without changing anything.")] = "act"
    period: Annotated[
        Seconds,
        Ge(0),
        Doc("Minimum seconds between two control cycles. A cycle follows a batch, so 0 is one after every batch."),
    ] = 0.0
    policies: Annotated[
        tuple[str, ...],
        OneOf(tuple(POLICIES)),
        Doc(
            "Policies in order of rank: where two disagree, the first one wins. Each has a section of its own. With a "
            "latency target, `processors` is the default in place of `replicas`."
        ),
    ] = ("bypass", "replicas", "hot_keys")
    min_executors: Annotated[int, Ge(1), Doc("Minimum executors of the application.")] = 1
    max_executors: Annotated[
        int | None, Ge(1), Doc("Maximum executors to ask for; none for as many as there are when control starts.")
    ] = None

    def conflicts(self) -> Iterator[str]:
        """A policy that is named twice, and a maximum below the minimum."""
        if self.max_executors is not None and self.max_executors < self.min_executors:
            least = f"control.min_executors ({self.min_executors})"
            yield f"control.max_executors must be at least {least}, got {self.max_executors}"
        twice = [name for name, count in Counter(self.policies).items() if count > 1]
        if twice:
            yield f"control.policies must name each policy once, got {', '.join(twice)} more than once"


_REAL_TIME: Mapping[str, Mapping[str, Any]] = {
    "guards": {"cooldown": 2.0, "cooldown_down": 10.0, "down_window": 30.0},
    "processors": {"min_interval": 5.0, "pause": 0.1, "useful_for": 30.0},
    "replicas": {"period": 5.0},
}
"""Defaults in real time, where a report comes twice a second and a change of routes takes milliseconds."""

_WITH_TARGET: Mapping[str, Mapping[str, Any]] = {
    "control": {"policies": ("bypass", "processors", "hot_keys")},
    "guards": {"cooldown_down": 30.0, "down_window": 60.0},
}
"""Defaults with a latency target: processors hold it, and what is not needed for it is given back within a minute."""


@dataclass(frozen=True)
class Settings:
    """All settings, a section for each concern. `load_settings` reads them from flags, environment and file.

    >>> settings = Settings(guards=GuardSettings(quota=60))
    >>> [policy.name for policy in settings.to_control().policies]
    ['bypass', 'replicas', 'hot_keys']

    Attributes:
        policies: The settings of each policy, by its name; defaults for those that are not given.
        origins: Where each setting that is not a default came from, by its key such as `guards.cooldown`.
    """

    run: RunSettings = field(default_factory=RunSettings)
    monitoring: MonitorSettings = field(default_factory=MonitorSettings)
    target: Target = field(default_factory=Target)
    control: ControlSettings = field(default_factory=ControlSettings)
    guards: GuardSettings = field(default_factory=GuardSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    votes: VoteSettings = field(default_factory=VoteSettings)
    forecasts: ForecastSettings = field(default_factory=ForecastSettings)
    policies: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        defaults = {name: kind.settings() for name, kind in POLICIES.items() if kind.settings is not None}
        for name in self.policies:
            if name not in defaults:
                raise SettingsError(f"policies must be of {', '.join(defaults)}, got {name!r}")
        object.__setattr__(self, "policies", {**defaults, **self.policies})

    def to_control(self, policies: Sequence[str | Policy[Any]] | None = None) -> Control:
        """How the query is controlled: policies with their own settings, in the order given.

        Args:
            policies: Names, or policies made elsewhere, in place of those of the section `control`.
        """
        chosen = self.control.policies if policies is None else policies
        return Control(
            tuple(self._policy(each) if isinstance(each, str) else each for each in chosen),
            self.guards,
            self.evaluation,
            self.votes,
            mode=self.control.mode,
        )

    def for_query(self, target: Target, *, real_time: bool = False) -> Settings:
        """The same with the defaults for a latency target and for real time, for settings that nobody has changed.

        >>> [policy.name for policy in Settings().for_query(Target(latency=2.0)).to_control().policies]
        ['bypass', 'processors', 'hot_keys']
        """
        live = _REAL_TIME if real_time else {}
        held = _WITH_TARGET if target.latency is not None else {}
        return replace(
            self,
            control=self._defaulted(self.control, held.get("control", {})),
            guards=self._defaulted(self.guards, {**held.get("guards", {}), **live.get("guards", {})}),
            policies={name: self._defaulted(settings, live.get(name, {})) for name, settings in self.policies.items()},
        )

    def _defaulted(self, section: T, defaults: Mapping[str, Any]) -> T:
        """A section with other defaults, in place of values that are the usual ones and not given by anyone."""
        usual, name = type(section)(), section.section
        changed = {
            field: value
            for field, value in defaults.items()
            if getattr(section, field) == getattr(usual, field) and f"{name}.{field}" not in self.origins
        }
        return replace(section, **changed) if changed else section  # type: ignore[type-var]

    def _policy(self, name: str) -> Policy[Any]:
        if name not in POLICIES:
            raise SettingsError(f"a policy must be one of {', '.join(POLICIES)}, got {name!r}")
        make = POLICIES[name].policy
        return make(self.policies[name]) if name in self.policies else make()

    def to_run(self) -> RunSettings:
        """How the pipeline runs, with the section `monitoring` unless that is switched off."""
        return replace(self.run, monitoring=None if self.run.monitoring is None else self.monitoring)
