"""All policies by name. A new one is a module beside this one and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from foretide.bounds import Bounded
from foretide.control.policies.admission import Admission, AdmissionSettings
from foretide.control.policies.baselines import Reactive, ReactiveSettings, Static
from foretide.control.policies.bypass import Bypass, BypassSettings
from foretide.control.policies.hot_keys import HotKeys, HotKeySettings
from foretide.control.policies.load_aware import LoadAwareSettings, LoadAwareSplits
from foretide.control.policies.prediction_error import PredictionError, PredictionErrorSettings
from foretide.control.policies.processors import Processors, ProcessorSettings
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.control.step import Policy


class PolicyKind(NamedTuple):
    """A policy's class, and the class of its settings, if it has any."""

    policy: Callable[..., Policy[Any]]
    settings: type[Bounded] | None = None


POLICIES: Mapping[str, PolicyKind] = {
    "bypass": PolicyKind(Bypass, BypassSettings),
    "prediction_error": PolicyKind(PredictionError, PredictionErrorSettings),
    "replicas": PolicyKind(Replicas, ReplicaSettings),
    "processors": PolicyKind(Processors, ProcessorSettings),
    "admission": PolicyKind(Admission, AdmissionSettings),
    "hot_keys": PolicyKind(HotKeys, HotKeySettings),
    "load_aware": PolicyKind(LoadAwareSplits, LoadAwareSettings),
    "reactive": PolicyKind(Reactive, ReactiveSettings),
    "static": PolicyKind(Static),
}
"""Names are those of sections, of `control.policies` and of decisions."""
