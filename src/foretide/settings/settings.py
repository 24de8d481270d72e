"""All settings of a pipeline and its control loop, a section for each concern, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.forecast_scores import VoteSettings
from foretide.control.policies.admission import Admission, AdmissionSettings
from foretide.control.policies.bypass import Bypass, BypassSettings
from foretide.control.policies.hot_keys import HotKeys, HotKeySettings
from foretide.control.policies.policy import Policy
from foretide.control.policies.prediction_error import PredictionError, PredictionErrorSettings
from foretide.control.policies.processors import Processors, ProcessorSettings
from foretide.control.policies.reactive import Reactive, ReactiveSettings
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.control.policies.static import Static
from foretide.control.settings import GuardSettings
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.errors import ControlSettingError
from foretide.settings.control import ControlSettings, StaticSettings
from foretide.settings.forecasts import ForecastSettings
from foretide.settings.monitoring import MonitorSettings
from foretide.settings.run import RunSettings


@dataclass(frozen=True)
class Settings:
    """All settings, a section for each concern. `load_settings` makes them from flags, environment and file.

    >>> settings = Settings(guards=GuardSettings(quota=60))
    >>> [policy.name for policy in settings.to_control().policies]
    ['bypass', 'replicas', 'hot-keys']

    Attributes:
        run: How a pipeline runs.
        monitoring: What is measured and kept, and when an alarm is raised.
        target: What the control loop is to hold.
        control: How the control loop runs.
        guards: What it may do at most, and how often.
        trials: How its decisions are judged, and undone.
        votes: When forecasts may vote.
        forecasts: What is forecast, by what, and when models are fitted again.
        bypass: Policy: keeps work away from bad workers.
        prediction_error: Policy: the predictive-control paper's own rule.
        replicas: Policy: replicas for the load that is coming.
        processors: Policy: the latency target with the fewest processors.
        admission: Policy: how many rows a batch may take.
        hot_keys: Policy: splits the hot keys of joins.
        reactive: Policy: replicas by thresholds.
        static: Policy: none at all.
        origins: Where each setting that is not a default came from, by its key such as `guards.cooldown`.
    """

    run: RunSettings = field(default_factory=RunSettings)
    monitoring: MonitorSettings = field(default_factory=MonitorSettings)
    target: Target = field(default_factory=Target)
    control: ControlSettings = field(default_factory=ControlSettings)
    guards: GuardSettings = field(default_factory=GuardSettings)
    trials: EvaluationSettings = field(default_factory=EvaluationSettings)
    votes: VoteSettings = field(default_factory=VoteSettings)
    forecasts: ForecastSettings = field(default_factory=ForecastSettings)
    bypass: BypassSettings = field(default_factory=BypassSettings)
    prediction_error: PredictionErrorSettings = field(default_factory=PredictionErrorSettings)
    replicas: ReplicaSettings = field(default_factory=ReplicaSettings)
    processors: ProcessorSettings = field(default_factory=ProcessorSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    hot_keys: HotKeySettings = field(default_factory=HotKeySettings)
    reactive: ReactiveSettings = field(default_factory=ReactiveSettings)
    static: StaticSettings = field(default_factory=StaticSettings)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def to_control(self, policies: Sequence[str | Policy[Any]] | None = None) -> Control:
        """How the query is controlled: policies with their own settings, in the order given.

        Args:
            policies: Names, or policies made elsewhere, in place of those of the section `control`.
        """
        chosen = tuple(self._policy(each) for each in (self.control.policies if policies is None else policies))
        return Control(chosen, self.guards, self.trials, self.votes, self.control.mode, self.control.horizon)

    def _policy(self, policy: str | Policy[Any]) -> Policy[Any]:
        if not isinstance(policy, str):
            return policy
        name = policy.replace("-", "_")
        if name not in _POLICIES:
            raise ControlSettingError(f"there is no policy '{policy}'; there are {', '.join(_POLICIES)}")
        return _POLICIES[name](self)

    def to_target(self) -> Target:
        """What is to be held."""
        return self.target

    def to_run(self) -> RunSettings:
        """How the pipeline runs, monitoring included unless it is off."""
        return replace(self.run, monitoring=None if self.run.monitoring is None else self.monitoring)


_POLICIES: Mapping[str, Callable[[Settings], Policy[Any]]] = {
    "bypass": lambda settings: Bypass(settings.bypass),
    "prediction_error": lambda settings: PredictionError(settings.prediction_error),
    "replicas": lambda settings: Replicas(settings.replicas),
    "processors": lambda settings: Processors(settings.processors),
    "admission": lambda settings: Admission(settings.admission),
    "hot_keys": lambda settings: HotKeys(settings.hot_keys),
    "reactive": lambda settings: Reactive(settings.reactive),
    "static": lambda _: Static(),
}
