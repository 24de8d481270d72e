"""Predictive control for streaming pipelines on Apache Spark. See README.md; `import foretide as ft`."""

from foretide.errors import (
    BatchTimeoutError,
    ControlFolderError,
    EnvironmentNotReadyError,
    FeedbackGrowthError,
    ForetideError,
    PipelineNotFoundError,
    Problem,
    RouteError,
    TopologyError,
    WorkloadError,
)
from foretide.runtime.pipeline import Pipeline, RunSettings, submit
from foretide.spark.edge import edge
from foretide.spark.session import session
from foretide.topology.graph import Arrow, Bolt, From, Native, PerTuple, Spout, Topology
from foretide.topology.grouping import (
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
from foretide.topology.sink import Console, Json, Memory, Parquet, Table
from foretide.topology.source import FileRows, Files, Rate, Replay, Socket, Stream
from foretide.workloads.curve import Curve

__all__ = [
    "All",
    "Arrow",
    "BatchTimeoutError",
    "Bolt",
    "Console",
    "ControlFolderError",
    "Curve",
    "Custom",
    "Direct",
    "Dynamic",
    "EnvironmentNotReadyError",
    "FeedbackGrowthError",
    "Fields",
    "FileRows",
    "Files",
    "ForetideError",
    "From",
    "Global",
    "Json",
    "LoadAware",
    "LocalOrShuffle",
    "Memory",
    "Native",
    "Parquet",
    "PartialKey",
    "PerTuple",
    "Pipeline",
    "PipelineNotFoundError",
    "Problem",
    "Rate",
    "Replay",
    "RouteError",
    "RunSettings",
    "Shuffle",
    "Socket",
    "Spout",
    "Stream",
    "Table",
    "Topology",
    "TopologyError",
    "WorkloadError",
    "edge",
    "session",
    "submit",
]
