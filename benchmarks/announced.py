"""Trouble that announces itself: how soon each policy acts on a worker that is about to be slow.

A net of the workers learns from a simulation without control, in which foreign processes read from the disk before they
take a worker's cores. Then new trouble comes, and `Bypass` with that net's foresight stands beside rules that see what
is measured only. Seconds are counted from the moment the worker becomes slow: below zero is before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.generators.announced import Trouble, reading, troubles
from foretide.control.actions.registry import Quarantine, QuarantineHost, SetReplicas
from foretide.control.policies.baselines import Reactive, Static
from foretide.control.policies.bypass import Bypass, BypassSettings
from foretide.control.policies.prediction_error import PredictionError, PredictionErrorSettings
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.simulation.simulate import ControlReport, ForecastFunction, simulate_control
from foretide.control.step import Control
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts, World
from foretide.forecasting.forecaster import LEVELS, State
from foretide.forecasting.settings import TrainingBudget, WorkerNetSettings
from foretide.forecasting.worker_forecaster import WorkerForecaster
from foretide.forecasting.worker_frames import MachineFrame
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

TIME = "worker_slowness"
DISK = "worker_disk_read_bytes_per_second"
WORKERS = ("0", "1", "2", "3")
PERIOD = 5.0
NET = WorkerNetSettings(
    targets=(TIME,), process_features=frozenset(), horizon=4, hidden=12, first_training=1 << 30, retrain_every=0,
    budget=TrainingBudget(seeds=1, epochs=30),
)  # fmt: skip


def make_scenario(found: Sequence[Trouble]) -> ControlScenario:
    """Two bolts on four workers, with the trouble as slow."""
    network = Network(
        (Operator("read", 1e6), Operator("parse", 500.0), Operator("count", 1000.0)),
        (Flow("read", "parse"), Flow("parse", "count")),
        {"read": 1.0},
    )
    slow = tuple(SlowExecutor(each.worker, each.factor, each.start, each.end) for each in found)
    costs = BatchCosts(16, fixed_cost=0.2, task_cost=0.001, trigger=1.0)
    return ControlScenario(
        network,
        {"read": 4, "parse": 16, "count": 16},
        {"parse": 8, "count": 8},
        costs=costs,
        slow_executors=slow,
    )


def frame_of(world: World, found: Sequence[Trouble], rng: np.random.Generator) -> MachineFrame:
    """What is measured of the workers in service."""
    workers = {
        worker: {TIME: value, DISK: reading(rng, found, worker, world.at)}
        for worker in world.observed.in_service
        if (value := world.snapshot.value(TIME, worker, within=PERIOD)) is not None
    }
    return MachineFrame({}, workers)


def learnt(seed: int, seconds: float) -> State:
    """The state of a net that has seen a simulation full of trouble, and acted on none of it."""
    found, rng, frames = troubles(seed, seconds, WORKERS), np.random.default_rng(seed), []

    def watch(world: World) -> Forecasts:
        frames.append(frame_of(world, found, rng))
        return Forecasts()

    simulate_control(
        Control((Static(),)),
        make_scenario(found),
        RowLoad([1000.0] * int(seconds)),
        period=PERIOD,
        forecast=watch,
    )
    net = WorkerForecaster(seed, NET)
    net.learn(frames)
    net.retrain()
    return net.state()


def foreseeing(state: State, found: Sequence[Trouble], seed: int) -> ForecastFunction:
    """What the net says in each cycle, from the figures so far."""
    net, rng = WorkerForecaster(0, NET), np.random.default_rng(seed)
    net.restore(state)

    def forecast(world: World) -> Forecasts:
        net.learn([frame_of(world, found, rng)])
        looks = {}
        for worker, targets in net.forecast(NET.horizon).items():
            ahead = targets[TIME]
            points = tuple(
                ForecastPoint(
                    (far + 1) * PERIOD, float(ahead.mean[far]), dict(zip(LEVELS, ahead.quantiles[far], strict=True))
                )
                for far in range(NET.horizon)
            )
            looks[TIME, worker] = Forecast("interference net", points)
        return Forecasts(looks)

    return forecast


def unchanged(world: World) -> Forecasts:
    """The last value, as the paper's rule needs something to be wrong."""
    figures = {worker: world.snapshot.value(TIME, worker, within=PERIOD) for worker in world.observed.in_service}
    return Forecasts(
        {
            (TIME, name): Forecast("last value", (ForecastPoint(PERIOD, value),))
            for name, value in figures.items()
            if value
        }
    )


def first_act(report: ControlReport, trouble: Trouble) -> float | None:
    """Seconds from the trouble to the first thing done about it since it was announced."""
    kinds = (Quarantine, QuarantineHost, SetReplicas)
    acts = [
        decision.at - trouble.start
        for decision in report.decisions
        for action in decision.actions
        if isinstance(action, kinds) and decision.at >= trouble.start - trouble.lead
    ]
    return acts[0] if acts else None


def announced(*, quick: bool) -> list[dict[str, Any]]:
    """Each policy on the same trouble, several times over; the median, and the tail of the latency."""
    state = learnt(1, 1200.0 if quick else 3600.0)
    rule = PredictionError(PredictionErrorSettings(metric=TIME, scope="worker"))
    ways: dict[str, Any] = {
        "bypass, net": (Bypass(), True),
        "bypass, measured only": (Bypass(BypassSettings(horizon=None)), None),
        "paper rule, net": (rule, True),
        "paper rule, last value": (rule, False),
        "reactive": (Reactive(), None),
        "static": (Static(), None),
    }
    rows = []
    for name, (policy, by_net) in ways.items():
        acts, tails, early = [], [], 0
        for seed in range(2 if quick else 10):
            trouble = Trouble(WORKERS[seed % 4], 6.0, 200.0 + 1.7 * seed, 260.0, 15.0)
            forecast = {True: foreseeing(state, [trouble], seed + 50), False: unchanged, None: None}[by_net]
            load = RowLoad([1000.0] * 260)
            report = simulate_control(
                Control((policy,)), make_scenario([trouble]), load, period=PERIOD, forecast=forecast
            )
            acts.append(first_act(report, trouble))
            early += sum(d.at < trouble.start - trouble.lead for d in report.decisions if name.startswith("bypass"))
            tails.append(report.latency(0.99, trouble.start))
        known = [act for act in acts if act is not None]
        rows.append(
            {
                "policy": name,
                "first_act_s": f"{np.median(known):+.1f}" if known else "never",
                "acted": f"{len(known)} of {len(acts)}",
                "out_for_nothing": early,
                "latency_p99_s_after": float(np.median(tails)),
            }
        )
    return rows
