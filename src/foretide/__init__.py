"""Predictive control for streaming pipelines on Apache Spark. See README.md; `import foretide as ft`.

A name is imported when it is first used (PEP 562): `import foretide` loads neither Spark nor a database.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretide import errors
    from foretide.control.actions.executors import (
        Quarantine,
        QuarantineHost,
        Release,
        ReleaseHost,
        Restart,
        SetExecutors,
    )
    from foretide.control.actions.streams import SetAdmission, SetJoinPlan, SetReplicas, SetSplit
    from foretide.control.decisions.decision import Decision, Expectation, Wish
    from foretide.control.decisions.effects import EvaluationSettings
    from foretide.control.guards import GuardSettings
    from foretide.control.policies.admission import AdmissionSettings
    from foretide.control.policies.baselines import ReactiveSettings
    from foretide.control.policies.bypass import BypassSettings
    from foretide.control.policies.hot_keys import HotKeySettings
    from foretide.control.policies.prediction_error import PredictionErrorSettings
    from foretide.control.policies.processors import ProcessorSettings
    from foretide.control.policies.replicas import ReplicaSettings
    from foretide.control.step import Control, Policy, step
    from foretide.control.world.setup import Latency, Observed, OperatorSetup, Setup, Target
    from foretide.control.world.world import World
    from foretide.joins.plan import JoinPlan, KeyGrid
    from foretide.joins.settings import JoinSettings, ScalingSettings, WindowSettings
    from foretide.metrics.alarm_rules import AlarmRule
    from foretide.metrics.snapshot import Known, Snapshot, Unknown
    from foretide.reports.report import Report, report
    from foretide.runtime.loop.attach import control
    from foretide.runtime.loop.controller import Controller
    from foretide.runtime.loop.watch import watch
    from foretide.runtime.pipeline.submit import Pipeline, submit
    from foretide.settings.forecasts import ForecastSettings
    from foretide.settings.load import load_settings
    from foretide.settings.run import MonitorSettings, RunSettings
    from foretide.settings.settings import ControlSettings, Settings
    from foretide.spark.edges import edge
    from foretide.spark.joins.join import join
    from foretide.spark.session import session
    from foretide.topology.graph import Arrow, Bolt, From, Native, PerTuple, Spout, Topology
    from foretide.topology.groupings import (
        All,
        Custom,
        Direct,
        Dynamic,
        Fields,
        Global,
        LoadAware,
        LocalOrShuffle,
        PartialKey,
        Shuffle,
    )
    from foretide.topology.sinks import Console, Json, KafkaSink, Memory, Parquet, Table
    from foretide.topology.sources import FileRows, Files, KafkaSource, Rate, Replay, Socket, Stream
    from foretide.workloads.curve import Curve

_NAMES_BY_MODULE = {
    "foretide.control.actions.streams": "SetAdmission SetJoinPlan SetReplicas SetSplit",
    "foretide.control.actions.executors": "Quarantine QuarantineHost Release ReleaseHost Restart SetExecutors",
    "foretide.control.decisions.decision": "Decision Expectation Wish",
    "foretide.control.decisions.effects": "EvaluationSettings",
    "foretide.control.policies.admission": "AdmissionSettings",
    "foretide.control.policies.bypass": "BypassSettings",
    "foretide.control.policies.hot_keys": "HotKeySettings",
    "foretide.control.step": "Control Policy step",
    "foretide.control.policies.prediction_error": "PredictionErrorSettings",
    "foretide.control.policies.processors": "ProcessorSettings",
    "foretide.control.policies.baselines": "ReactiveSettings",
    "foretide.control.policies.replicas": "ReplicaSettings",
    "foretide.control.guards": "GuardSettings",
    "foretide.control.world.setup": "Latency Observed OperatorSetup Setup Target",
    "foretide.control.world.world": "World",
    "foretide.joins.plan": "JoinPlan KeyGrid",
    "foretide.joins.settings": "JoinSettings ScalingSettings WindowSettings",
    "foretide.metrics.alarm_rules": "AlarmRule",
    "foretide.metrics.snapshot": "Known Snapshot Unknown",
    "foretide.reports.report": "Report report",
    "foretide.runtime.loop.attach": "control",
    "foretide.runtime.loop.controller": "Controller",
    "foretide.runtime.loop.watch": "watch",
    "foretide.runtime.pipeline.submit": "Pipeline submit",
    "foretide.settings.settings": "ControlSettings Settings",
    "foretide.settings.forecasts": "ForecastSettings",
    "foretide.settings.load": "load_settings",
    "foretide.settings.run": "MonitorSettings RunSettings",
    "foretide.spark.edges": "edge",
    "foretide.spark.joins.join": "join",
    "foretide.spark.session": "session",
    "foretide.topology.graph": "Arrow Bolt From Native PerTuple Spout Topology",
    "foretide.topology.groupings": "All Custom Direct Dynamic Fields Global LoadAware"
    " LocalOrShuffle PartialKey Shuffle",
    "foretide.topology.sinks": "Console Json KafkaSink Memory Parquet Table",
    "foretide.topology.sources": "FileRows Files KafkaSource Rate Replay Socket Stream",
    "foretide.workloads.curve": "Curve",
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

__all__ = [
    "AdmissionSettings",
    "AlarmRule",
    "All",
    "Arrow",
    "Bolt",
    "BypassSettings",
    "Console",
    "Control",
    "ControlSettings",
    "Controller",
    "Curve",
    "Custom",
    "Decision",
    "Direct",
    "Dynamic",
    "EvaluationSettings",
    "Expectation",
    "Fields",
    "FileRows",
    "Files",
    "ForecastSettings",
    "From",
    "Global",
    "GuardSettings",
    "HotKeySettings",
    "JoinPlan",
    "JoinSettings",
    "Json",
    "KafkaSink",
    "KafkaSource",
    "KeyGrid",
    "Known",
    "Latency",
    "LoadAware",
    "LocalOrShuffle",
    "Memory",
    "MonitorSettings",
    "Native",
    "Observed",
    "OperatorSetup",
    "Parquet",
    "PartialKey",
    "PerTuple",
    "Pipeline",
    "Policy",
    "PredictionErrorSettings",
    "ProcessorSettings",
    "Quarantine",
    "QuarantineHost",
    "Rate",
    "ReactiveSettings",
    "Release",
    "ReleaseHost",
    "Replay",
    "ReplicaSettings",
    "Report",
    "Restart",
    "RunSettings",
    "ScalingSettings",
    "SetAdmission",
    "SetExecutors",
    "SetJoinPlan",
    "SetReplicas",
    "SetSplit",
    "Settings",
    "Setup",
    "Shuffle",
    "Snapshot",
    "Socket",
    "Spout",
    "Stream",
    "Table",
    "Target",
    "Topology",
    "Unknown",
    "WindowSettings",
    "Wish",
    "World",
    "control",
    "edge",
    "errors",
    "join",
    "load_settings",
    "report",
    "session",
    "step",
    "submit",
    "watch",
]


class _Surface(ModuleType):
    """The module itself. `control` is the function, although the import system binds the package of that name too."""

    @property
    def control(self) -> Any:
        return import_module(_MODULES["control"]).control

    @control.setter
    def control(self, package: ModuleType) -> None:
        """Leave `foretide.control` to the function; the package is found by its full name."""


sys.modules[__name__].__class__ = _Surface


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("foretide.errors")
    if name not in _MODULES:
        raise AttributeError(f"module 'foretide' has no attribute '{name}'")
    globals()[name] = value = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
