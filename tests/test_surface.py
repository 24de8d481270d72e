import inspect
import re

import foretide
from foretide import errors

SURFACE = [
    "ActionError",
    "AlarmRuleError",
    "All",
    "Arrow",
    "BadSeriesError",
    "BatchOverloadError",
    "BatchTimeoutError",
    "Bolt",
    "BudgetTooSmallError",
    "Console",
    "ControlError",
    "ControlFolderError",
    "ControlSettingError",
    "Controller",
    "Curve",
    "Custom",
    "DecisionFormatError",
    "DecisionNotFoundError",
    "Direct",
    "DurationError",
    "Dynamic",
    "EnvironmentNotReadyError",
    "FeedbackGrowthError",
    "Fields",
    "FileRows",
    "Files",
    "ForecastError",
    "ForetideError",
    "From",
    "Global",
    "IdleNetworkError",
    "JoinError",
    "JoinPlanError",
    "Json",
    "Known",
    "Latency",
    "LatencyOutOfReachError",
    "LoadAware",
    "LocalOrShuffle",
    "LoopGainError",
    "Memory",
    "ModelError",
    "ModelFolderError",
    "MonitorSettings",
    "MonitoringError",
    "Native",
    "NotEnoughHistoryError",
    "OverloadError",
    "Parquet",
    "PartialKey",
    "PastHardEndError",
    "PerTuple",
    "Pipeline",
    "PipelineNotFoundError",
    "PlanFormatError",
    "PlanningError",
    "Problem",
    "Rate",
    "Replay",
    "ReplayError",
    "RestartFailedError",
    "RouteError",
    "Rule",
    "RunSettings",
    "Settings",
    "SettingsError",
    "Shuffle",
    "Snapshot",
    "Socket",
    "Spout",
    "StoreError",
    "Stream",
    "Table",
    "Topology",
    "TopologyError",
    "Unknown",
    "UnstableNetworkError",
    "WorkloadError",
    "control",
    "edge",
    "join",
    "load_settings",
    "session",
    "submit",
]


def public_errors():
    return {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception) and not name.startswith("_")
    }


def test_the_public_surface_is_what_was_agreed():
    assert foretide.__all__ == SURFACE


def test_the_public_surface_is_sorted_and_everything_in_it_can_be_imported():
    assert foretide.__all__ == sorted(set(foretide.__all__))
    assert [name for name in foretide.__all__ if not hasattr(foretide, name)] == []


def test_every_error_can_be_caught_by_name_and_by_the_root():
    assert public_errors() <= set(foretide.__all__)
    assert all(issubclass(getattr(errors, name), errors.ForetideError) for name in public_errors())


def test_the_tree_in_the_docstring_lists_every_error_and_no_other():
    assert set(re.findall(r"\b\w+Error\b", errors.__doc__)) == public_errors()
