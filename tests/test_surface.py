import ast
import inspect
import re

import pytest

import foretide
from foretide import errors

SURFACE = [
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


def test_what_type_checkers_read_is_what_is_imported_at_run_time():
    tree = ast.parse(inspect.getsource(foretide))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    read = {alias.name: node.module for node in block.body for alias in node.names if alias.name != "errors"}
    assert read == foretide._MODULES


def test_control_is_the_function_whatever_was_imported_first():
    import foretide.control.step

    assert inspect.isfunction(foretide.control)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'foretide' has no attribute 'nope'"):
        foretide.nope  # noqa: B018


def test_every_error_can_be_caught_by_name_and_by_the_root():
    assert foretide.errors is errors
    assert all(issubclass(getattr(errors, name), errors.ForetideError) for name in public_errors())


def test_the_tree_in_the_docstring_lists_every_error_and_no_other():
    assert set(re.findall(r"\b\w+Error\b", errors.__doc__)) == public_errors()
