"""`foretide simulate MODEL --policies ...`: the control loop on a simulated query, beside the same without control."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from foretide.control.decisions.decision import to_json
from foretide.control.simulation.scenario import control_scenario_of, load_of
from foretide.control.simulation.simulate import ControlReport, simulate_control
from foretide.planning.explain import duration
from foretide.simulation.scenario import simulation_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from foretide.queueing.model import Model
    from foretide.settings.settings import Settings

_QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """What the command line says about the cluster and its control.

    Attributes:
        latency: Latency target, as text; None keeps that of the settings.
        period: Least time between two control cycles, as text.
        cores_per_executor: Tasks that an executor runs at the same time.
        max_executors: Most executors that policies may request; None leaves their number as it is.
    """

    latency: float | None = None
    period: float = 5.0
    cores_per_executor: int = 1
    max_executors: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same load with and without control."""

    policies: tuple[str, ...]
    warm_up: float
    controlled: ControlReport
    uncontrolled: ControlReport


def compare(
    model: Model, settings: Settings, options: ControlOptions, seed: int, progress: Callable[[float], None]
) -> Comparison:
    """Simulate a model under control and without it; both meet the same random numbers."""
    scenario = control_scenario_of(model, options.cores_per_executor, options.max_executors)
    load, control, target = load_of(model), settings.to_control(), settings.target
    if options.latency is not None:
        target = replace(target, latency=options.latency)
    controlled, uncontrolled = (
        simulate_control(
            each,
            scenario,
            load,
            period=options.period,
            target=target,
            rng=np.random.default_rng(seed),
            progress=lambda share, done=done: progress((done + share) / 2),  # type: ignore[misc]
        )
        for done, each in enumerate((control, replace(control, policies=())))
    )
    return Comparison(
        tuple(policy.name for policy in control.policies), simulation_plan(model).warm_up, controlled, uncontrolled
    )


def to_data(comparison: Comparison) -> dict[str, Any]:
    """All figures and decisions as plain values; what was not measured is None."""
    return {
        "policies": list(comparison.policies),
        "controlled": _figures(comparison.controlled, comparison.warm_up),
        "uncontrolled": _figures(comparison.uncontrolled, comparison.warm_up),
        "decisions": [json.loads(to_json(decision)) for decision in comparison.controlled.decisions],
    }


def _figures(report: ControlReport, warm_up: float) -> dict[str, float | None]:
    seconds = report.load.seconds
    figures = {"latency_mean_s": report.mean_latency(warm_up)}
    figures |= {f"latency_p{100 * level:g}_s": report.latency(level, warm_up) for level in _QUANTILES}
    figures |= {
        "batches": len(report.batches),
        "rows": report.load.rows,
        "rows_processed": report.processed,
        "mean_replicas": report.replica_seconds / seconds,
        "mean_executors": report.executor_seconds / seconds,
        "actions": report.actions,
    }
    return {name: None if math.isnan(value) else value for name, value in figures.items()}


def show(comparison: Comparison, console: Console) -> None:
    """Print the figures side by side, and the decisions."""
    console.print(_table(comparison))
    decisions = comparison.controlled.decisions
    if not decisions:
        console.print("No action was taken.")
        return
    table = _empty("Decisions", "time", "action", "policy", "reason")
    for decision in decisions:
        for wish in decision.chosen:
            table.add_row(duration(decision.at), wish.action.describe(), wish.policy, Text(wish.reason))
    console.print(table)


def _table(comparison: Comparison) -> Table:
    table = _empty("Simulated", "", ", ".join(comparison.policies), "no control")
    pairs = [_figures(each, comparison.warm_up) for each in (comparison.controlled, comparison.uncontrolled)]
    for name in pairs[0]:
        label = name.removesuffix("_s").replace("_", " ")
        table.add_row(label, *(_cell(name, each[name]) for each in pairs))
    return table


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.endswith("_s"):
        return duration(value)
    return f"{value:.1f}" if name.startswith("mean_") else f"{value:,.0f}"


def _empty(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column)
    return table
