"""Attaches a control loop to a running query: `ft.control(query, policies=..., target=ft.Latency(p99="2s"))`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from foretide.control.world.setup import ControlMode, Target
from foretide.control_folder.filesystem import absolute, local_path
from foretide.control_folder.holds import take
from foretide.errors import ControlError, StoreError
from foretide.runtime.forecasts.keys import LiveKeyForecast
from foretide.runtime.forecasts.service import ForecastService
from foretide.runtime.live_joins import Joins
from foretide.runtime.loop.controller import Actuator, Controller, Journal
from foretide.runtime.loop.world_reader import Observer, WorldReader, WorldRecorder
from foretide.runtime.pipeline.submit import controllable
from foretide.settings.load import load_settings
from foretide.spark.executors import Executors
from foretide.spark.joins.statistics import highest_times_of
from foretide.store.metric_store import MetricStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from foretide.control.step import Control, Policy
    from foretide.control_folder.holds import Hold
    from foretide.runtime.monitoring.monitor import Monitor
    from foretide.runtime.pipeline.follower import Follower
    from foretide.runtime.pipeline.submit import Controllable
    from foretide.settings.settings import Settings


def control(
    query: Any,
    policies: Sequence[str | Policy[Any]] | None = None,
    target: Target | None = None,
    *,
    mode: ControlMode | None = None,
    settings: Settings | None = None,
    max_executors: int | None = None,
    control_folder: str | None = None,
) -> Controller:
    """Attach a control loop to a running pipeline, or to any streaming query with Foretide edges.

    From then on the running tasks of a real-time query follow routes as soon as they are published, in either mode.
    If an argument is wrong, or another loop controls the query, an error is raised and nothing has been started.

    Args:
        query: What `ft.submit` returned, or a StreamingQuery whose edges were made by `ft.edge`.
        policies: Names or policies in order of rank; those of the settings by default. In real time with a target the
            default is `processors` in place of `replicas`.
        target: What is to be held, such as `ft.Latency(p99="2s")`.
        mode: `act`, or `advise` to decide and explain without touching anything.
        settings: All other settings; by default those of file and environment, as the command line reads them.
        max_executors: The most executors to ask for; by default as many as there are now.
        control_folder: The control folder of a plain query whose edges were given one of their own.
    """
    chosen = settings or load_settings()
    rules = _rules(chosen, policies, mode)
    target = target or chosen.target
    if not isinstance(target, Target):
        raise ControlError(f"target must be a Target such as ft.Latency(p99='2s'), got {target!r}")
    if max_executors is not None and max_executors < 1:
        raise ControlError(f"max_executors must be at least 1, got {max_executors}")
    running = controllable(query, chosen, control_folder)
    monitor = running.follower.monitor
    if monitor is None:
        raise ControlError("control rests on what is measured; start the pipeline with monitoring")
    with ExitStack() as undo:
        loop = take(running.follower.control_folder.location, "loop", running.follower.topology.name)
        undo.callback(loop.release)
        executors = Executors.of_active()
        undo.callback(executors.close)
        executors.most = max_executors or executors.most
        setup = running.setup(executors)
        if setup is not None and setup.mode == "pipeline":
            chosen = chosen.in_real_time(target)
            rules = _rules(chosen, policies, mode)
        controller = _attach(running, monitor, executors, loop, rules, target, chosen)
        undo.pop_all()
    return controller


def _rules(settings: Settings, policies: Sequence[str | Policy[Any]] | None, mode: ControlMode | None) -> Control:
    if mode is not None and mode not in get_args(ControlMode):
        raise ControlError(f"mode must be one of {', '.join(get_args(ControlMode))}, got {mode!r}")
    rules = settings.to_control(policies)
    return rules if mode is None else replace(rules, mode=mode)


def _attach(
    running: Controllable,
    monitor: Monitor,
    executors: Executors,
    loop: Hold,
    rules: Control,
    target: Target,
    settings: Settings,
) -> Controller:
    """Make all parts, and only then subscribe and start them."""
    follower = running.follower
    forecasts = _forecasts(follower, settings)
    joins = _joins(follower, settings)
    observer = Observer(follower, executors, joins)
    controller = Controller(
        rules,
        WorldReader(running, executors, observer, target, forecasts, joins),
        Actuator(running, executors, observer, joins),
        Journal(monitor.writer, _last_decision(monitor) + 1),
        WorldRecorder(monitor.writer),
        follower.control_folder,
        settings.control.period,
    )
    monitor.on_samples(forecasts.see)
    follower.at_end(executors.close)
    if joins is not None:
        follower.subscribe(joins)  # before the loop, which decides on what the joins have seen
        follower.on_death(joins.died)
        controller.at_stop(joins.close)  # is called after the loop has ended, which could begin another change
    controller.at_stop(loop.release)
    follower.subscribe(controller)
    follower.at_end(controller.stop)
    follower.start()
    return controller.start()


def _forecasts(follower: Follower, settings: Settings) -> ForecastService:
    forecasts = settings.forecasts
    if forecasts.spouts is None:
        forecasts = replace(forecasts, spouts=tuple(spout.id for spout in follower.topology.spouts))
    return ForecastService(forecasts, folder=_models_folder(follower))


def _joins(follower: Follower, settings: Settings) -> Joins | None:
    """The joins of the query; None when it has none."""
    folder, models = follower.control_folder, _models_folder(follower)
    if not folder.joins():
        return None

    def highest_times(join: str, batch: int) -> Any:
        return highest_times_of(follower.query.handle, join, batch)

    def key_forecast(join: str) -> LiveKeyForecast:
        return LiveKeyForecast(settings.forecasts, None if models is None else models / f"keys-{join}")

    return Joins(folder, settings.policies["hot_keys"].windows, highest_times, key_forecast)


def _models_folder(follower: Follower) -> Path | None:
    """Models are kept in the control folder, if that is on a local disk."""
    local = local_path(absolute(follower.control_folder.location))
    return None if local is None else local / "models"


def _last_decision(monitor: Monitor) -> int:
    """The number of the last decision of an earlier loop in the store."""
    if not monitor.store:
        return 0
    try:
        with MetricStore.open(monitor.store) as store:
            return store.last_decision_id(monitor.name)
    except StoreError:
        return int(time.time())  # above all that an earlier loop can have used; the writer reports what is wrong
