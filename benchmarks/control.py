"""How long a decision takes, and a day of real load under control, in numbers: static peak, reactive, predictive.

    python -m benchmarks control

The day's table is that of pa-sps (Tables 2 to 8). Predictors are plugged in by name: see `PREDICTORS`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.announced import announced
from benchmarks.predictors import (
    Predictions,
    Predictor,
    last_value,
    moving_average,
    perfect,
    replica_error,
    throughput_degradation,
)
from foretide.control.policies.baselines import Reactive, ReactiveSettings, Static
from foretide.control.policies.bypass import Bypass
from foretide.control.policies.processors import Processors
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.simulation.simulate import ControlReport, simulate_control
from foretide.control.step import Control, step
from foretide.control.world.setup import Observed, OperatorSetup, Setup, Target
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts, World
from foretide.forecasting.load.registry import NAMES, make
from foretide.metrics.catalogue import at_level
from foretide.metrics.metric import Level
from foretide.metrics.snapshot import Snapshot
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad
from foretide.workloads.traces import load_trace

INTERVAL = 30.0
"""td of pa-sps."""

BUSY = 0.8


def model(name: str) -> Callable[[RowLoad], Predictor]:
    """A forecasting model as a predictor: it learns every interval once, and is asked for the next."""

    def begin(_: RowLoad) -> Predictor:
        forecaster, seen = make(name, horizons=(1,), seed=7), 0

        def predict(history: Sequence[float], horizon: int) -> float:
            nonlocal seen
            forecaster.learn(history[seen:])
            seen = len(history)
            return float(forecaster.forecast(horizon).mean[-1])

        return predict

    return begin


SIMPLE: dict[str, Callable[[RowLoad], Predictor | None]] = {
    "last value": lambda _: last_value,
    "moving average": lambda _: moving_average,
    "perfect": lambda load: perfect(load, INTERVAL),
}
PREDICTORS = SIMPLE | {name: model(name) for name in NAMES if name not in SIMPLE}
"""Makes a predictor for a load. Only `perfect` looks at it; the others see the history alone."""

LIGHT = SIMPLE | {name: PREDICTORS[name] for name in ("linear regression", "fft", "ridge", "arima")}
"""For long loads: those that learn within milliseconds."""


# ---- a decision


def crowd(workers: int, operators: int, at: float) -> World:
    """A world with every metric of every worker and operator known, one worker slow, everything forecast."""
    names = ["read", *(f"op{i}" for i in range(1, operators))]
    parts = tuple(OperatorSetup(name, 32, None if name == "read" else name, name == "read") for name in names)
    flows = tuple(pairwise(names))
    setup = Setup("q", parts, flows, cores_per_executor=4, executors=(1, 128), can_admit=frozenset({"read"}))
    ids = [str(i) for i in range(workers)]
    figures = {
        (m.name, worker): (1.0 + (i % 5) / 10, at) for m in at_level(Level.WORKER) for i, worker in enumerate(ids)
    }
    figures["worker_tuple_execution_time_ms", "7"] = (9.0, at)
    figures |= {(m.name, name): (0.02, at) for m in at_level(Level.OPERATOR) for name in names}
    figures |= {("arrival_rate", name): (5000.0, at) for name in names}
    figures |= {("service_time_ms", name): (0.5, at) for name in names}
    figures |= {("flow_fraction", f"{a}->{b}"): (1.0, at) for a, b in flows}
    figures |= {(m.name, "q"): (1000.0, at) for m in at_level(Level.QUERY)} | {("batch", "q"): (at, at)}
    figures |= {("input_rows_per_second", "q"): (1000.0, at), ("input_rows", "q"): (1000.0, at)}
    expected = {("worker_tuple_execution_time_ms", worker): 1.1 for worker in ids} | {("arrival_rate", "read"): 6000.0}
    forecasts = Forecasts({key: Forecast("m", (ForecastPoint(30.0, value),)) for key, value in expected.items()})
    observed = Observed(
        routes=dict.fromkeys(names[1:], (1.0,) * 8 + (0.0,) * 24),
        executors={worker: f"h{i % 8}" for i, worker in enumerate(ids)},
    )
    target = Target(latency=2.0, relaxed=0.2)
    return World(setup, Snapshot(at, "q", figures), observed, forecasts, target=target)


def decision_time(cycles: int) -> list[dict[str, Any]]:
    """CPU milliseconds of a cycle with all policies at work in every one of them."""
    rows = []
    for workers, operators in ((4, 4), (64, 32), (256, 64)):
        policies = (
            Bypass(),
            Processors(),
            Replicas(ReplicaSettings(period=1e-9)),
            Reactive(ReactiveSettings(period=0)),
        )
        control = Control(policies)
        worlds = [crowd(workers, operators, 1000.0 + 61 * cycle) for cycle in range(cycles)]
        state, taken = control.start(), []
        for world in worlds:
            started = time.process_time()
            state, _ = step(control, state, world)
            taken.append((time.process_time() - started) * 1000)
        rows.append(
            {
                "workers": workers,
                "operators": operators,
                "median_ms": float(np.median(taken)),
                "p99_ms": float(np.quantile(taken, 0.99)),
                "target_ms": 20.0,
            }
        )
    return rows


# ---- a day of load


def make_scenario(peak: float) -> ControlScenario:
    """Four operators as in pa-sps, sized so that a pool of 32 each carries the peak of the load."""
    network = Network(
        (Operator("read", 1e7), Operator("classify", 400.0), Operator("score", 800.0), Operator("store", 1600.0)),
        (Flow("read", "classify"), Flow("classify", "score"), Flow("score", "store", 0.5)),
        {"read": 1.0},
    )
    pools = {"read": 8, "classify": 32, "score": 32, "store": 32}
    costs = BatchCosts(1, fixed_cost=0.3, task_cost=0.0005, trigger=5.0)
    needed = replicas_needed(network, peak)
    return ControlScenario(network, pools, needed, costs, executors=16, cores_per_executor=4)


def replicas_needed(network: Network, rate: float, busy: float = BUSY) -> dict[str, int]:
    """Replicas that carry a rate within the allowed share of the time, as the policy reckons it."""
    work = {part.name: rate * network.visits[part.name] / part.service_rate for part in network.operators}
    roots = {name: math.sqrt(amount) for name, amount in work.items() if name != "read"}
    total = math.fsum(roots.values())
    return {name: max(1, math.ceil(root * total / busy - 1e-9)) for name, root in roots.items()}


def day(trace: str, mean_rate: float, *, squeeze: int = 1, part: float = 1.0) -> RowLoad:
    """The last part of a day of a trace: straight lines between its samples, and Poisson noise on top.

    Squeezed, the day passes so many times as fast: its swings then fall into the seconds that predictors look ahead.
    """
    recorded = load_trace(trace)
    samples = int(86_400 / recorded.period_seconds) + 1
    first = 1440 if trace == "taxi" else 1200
    values = recorded.values[first : first + samples]
    smooth = np.interp(np.arange(0, 86_400, squeeze) / recorded.period_seconds, np.arange(samples), values)
    scaled = (smooth * mean_rate / smooth.mean())[-int(len(smooth) * part) :]
    return RowLoad(np.random.default_rng(7).poisson(scaled).astype(float).tolist())


def strategies(load: RowLoad, predictors: Mapping[str, Callable[[RowLoad], Predictor | None]]) -> dict[str, Any]:
    """What is compared: a control and a predictor each."""
    chosen: dict[str, Any] = {
        "static peak": (Control((Static(),)), None),
        "reactive": (Control((Reactive(ReactiveSettings(target_utilization=BUSY)),)), None),
    }
    planned = Control((Replicas(ReplicaSettings(period=INTERVAL, target_utilization=BUSY)),))
    chosen |= {f"replicas, {name}": (planned, make(load)) for name, make in predictors.items()}
    return chosen


def table(
    load: RowLoad, scenario: ControlScenario, reports: Mapping[str, tuple[ControlReport, Predictions]]
) -> list[dict[str, Any]]:
    """The table of pa-sps, and the tail of the latency beside its mean."""
    over = reports["static peak"][0].replica_seconds

    def needed(rate: float) -> int:
        return sum(replicas_needed(scenario.network, rate).values())

    return [
        {
            "strategy": name,
            "saved_resources": 1 - report.replica_seconds / over,
            "throughput_degradation": throughput_degradation(report, INTERVAL),
            "processed": report.processed / load.rows,
            "latency_mean_s": report.mean_latency(),
            "latency_p99_s": report.latency(0.99),
            "mape_input": "-" if predictions.error is None else predictions.error,
            "mape_replicas": replica_error(report, needed, INTERVAL),
            "replica_hours": report.replica_seconds / 3600,
            "actions": report.actions,
        }
        for name, (report, predictions) in reports.items()
    ]


def compared(
    load: RowLoad, predictors: Mapping[str, Callable[[RowLoad], Predictor | None]] = PREDICTORS
) -> list[dict[str, Any]]:
    """Every strategy over the same load, on a scenario that just carries its peak."""
    peak = max(load.mean(start, start + INTERVAL) for start in np.arange(0.0, load.seconds - INTERVAL, INTERVAL))
    scenario = make_scenario(peak)
    reports = {}
    for name, (control, predictor) in strategies(load, predictors).items():
        predictions = Predictions(predictor, load, scenario, INTERVAL)
        reports[name] = simulate_control(control, scenario, load, forecast=predictions), predictions
    return table(load, scenario, reports)


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    """Everything that needs no Spark."""
    title, part = ("the last two hours of a day", 1 / 12) if quick else ("a day", 1.0)
    return {
        "a decision with all policies, CPU ms": decision_time(20 if quick else 200),
        f"{title} of tweets": compared(day("tweets-goog", 1200.0, part=part), LIGHT),
        f"{title} of taxi rides": compared(day("taxi", 1200.0, part=part), LIGHT),
        "a day of tweets in two hours": compared(day("tweets-goog", 1200.0, squeeze=12)),
        "a day of taxi rides in two hours": compared(day("taxi", 1200.0, squeeze=12)),
        "trouble that announces itself, seconds to the first act": announced(quick=quick),
    }
