"""Attaches a control loop to a running query: `ft.control(query, policies=..., target=ft.Latency(p99="2s"))`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from foretide.control.policies.load_aware import LoadAwareSplits
from foretide.control.world.setup import ControlMode, Target
from foretide.control_folder.filesystem import absolute, local_path
from foretide.control_folder.holds import take_loop
from foretide.errors import ControlError, StoreError
from foretide.runtime.forecasts.handed_in import forecast_service
from foretide.runtime.forecasts.keys import LiveKeyForecast
from foretide.runtime.forecasts.service import ForecastService
from foretide.runtime.live_joins import Joins
from foretide.runtime.loop.adviser import Adviser
from foretide.runtime.loop.batch_watch import BatchWatch
from foretide.runtime.loop.controller import Actuator, Controller, Journal
from foretide.runtime.loop.world_reader import Observer, WorldReader, WorldRecorder
from foretide.runtime.pipeline.followed import FollowedQuery, controllable
from foretide.settings.load import load_settings
from foretide.spark.executors import Executors
from foretide.spark.joins.statistics import highest_times_of
from foretide.store.metric_store import MetricStore

LOAD_AWARE = LoadAwareSplits().name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from foretide.control.step import Control, Policy
    from foretide.control_folder.holds import Hold
    from foretide.metrics.metric import Sample
    from foretide.runtime.monitoring.monitor import Monitor
    from foretide.runtime.pipeline.followed import Controllable
    from foretide.runtime.pipeline.follower import Follower
    from foretide.settings.settings import Settings


def control(
    query: Any,
    policies: Sequence[str | Policy[Any]] | None = None,
    target: Target | None = None,
    *,
    mode: ControlMode | None = None,
    settings: Settings | None = None,
    min_executors: int | None = None,
    max_executors: int | None = None,
    control_folder: str | None = None,
    event_time: str | None = None,
    history: Sequence[str] | None = None,
    model: str | None = None,
    events: Sequence[str] | None = None,
) -> Controller:
    """Attach a control loop to a running pipeline, or to any streaming query.

    From then on the running tasks of a real-time query follow routes as soon as they are published, in either mode.
    If an argument is wrong, or another loop controls the query, an error is raised and nothing has been started.

    Args:
        query: What `ft.submit` returned, or a StreamingQuery of any PySpark program.
        policies: Names or policies in order of rank; those of the settings by default. With a latency target the
            default is `processors` in place of `replicas`. Where an edge is load-aware, `load_aware`
            is added.
        target: What is to be held, such as `ft.Latency(p99="2s")`.
        mode: `act`, or `advise` to decide and explain without touching anything.
        settings: All other settings; by default those of file and environment, as the command line reads them.
        min_executors: The fewest executors to keep, in place of `control.min_executors`.
        max_executors: The most executors to ask for, in place of `control.max_executors`; by default as many as there
            are now. If there are fewer or more than allowed, their number is changed at once.
        control_folder: The control folder of a StreamingQuery. By default it is the one that its edges or joins were
            given, or the folder `foretide` in its checkpoint.
        event_time: The column of a StreamingQuery's watermark, if latency is to be measured from its event times and
            not from what the sources know.
        history: Files and stores of earlier load, in place of `forecasts.history`.
        model: The folder of a model of `foretide train`, in place of `forecasts.model`.
        events: Announced events such as `2026-11-27 18:00 1h x3`, in place of `forecasts.events`.
    """
    chosen = _with_executors(settings or load_settings(), min_executors, max_executors)
    chosen = _with_handed_in(chosen, history, model, events)
    rules = _rules(chosen, policies, mode)
    target = target or chosen.target
    if not isinstance(target, Target):
        raise ControlError(f"target must be a Target such as ft.Latency(p99='2s'), got {target!r}")
    running = controllable(query, chosen, control_folder, event_time)
    follower = running.follower
    monitor = follower.monitor
    if monitor is None:
        raise ControlError("control rests on what is measured; start the pipeline with monitoring")
    with ExitStack() as undo:
        if isinstance(running, FollowedQuery) and running is not query:
            undo.callback(running.discard)
        loop = take_loop(follower.control_folder.location, follower.topology.name, str(follower.query.handle.id))
        undo.callback(loop.release)
        executors = Executors.of_active()
        undo.callback(executors.close)
        executors.allow(chosen.control.min_executors, chosen.control.max_executors)
        setup = running.setup(executors)
        chosen = chosen.for_query(target, real_time=setup is not None and setup.mode == "pipeline")
        rules = _rules(chosen, policies, mode)
        rules = _with_load_aware(rules, follower, chosen)
        controller = _attach(running, monitor, executors, loop, rules, target, chosen)
        undo.pop_all()
    return controller


def _with_executors(settings: Settings, least: int | None, most: int | None) -> Settings:
    """The settings with what the arguments say of the number of executors."""
    control = settings.control
    control = control if least is None else replace(control, min_executors=least)
    control = control if most is None else replace(control, max_executors=most)
    return replace(settings, control=control)


def _with_handed_in(
    settings: Settings, history: Sequence[str] | None, model: str | None, events: Sequence[str] | None
) -> Settings:
    """The settings with what the arguments hand to the forecasts."""
    forecasts = settings.forecasts
    forecasts = forecasts if history is None else replace(forecasts, history=tuple(history))
    forecasts = forecasts if model is None else replace(forecasts, model=model)
    forecasts = forecasts if events is None else replace(forecasts, events=tuple(events))
    return replace(settings, forecasts=forecasts)


def _rules(settings: Settings, policies: Sequence[str | Policy[Any]] | None, mode: ControlMode | None) -> Control:
    if mode is not None and mode not in get_args(ControlMode):
        raise ControlError(f"mode must be one of {', '.join(get_args(ControlMode))}, got {mode!r}")
    rules = settings.to_control(policies)
    return rules if mode is None else replace(rules, mode=mode)


def _with_load_aware(rules: Control, follower: Follower, settings: Settings) -> Control:
    """The rules with the policy that splits load-aware edges, if there are any and nobody has named it."""
    load_aware = [edge for edge, route in follower.routes.edges.items() if route.balance_every is not None]
    if not load_aware or any(policy.name == LOAD_AWARE for policy in rules.policies):
        return rules
    return replace(rules, policies=(*rules.policies, *settings.to_control([LOAD_AWARE]).policies))


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
    forecasts = _forecasts(follower, settings, executors)
    joins = _joins(follower, settings, monitor.put)
    observer = Observer(follower, executors, joins)
    watch = BatchWatch.of(follower, executors, monitor)
    controller = Controller(
        rules,
        WorldReader(running, executors, observer, target, forecasts, joins),
        Actuator(running, executors, observer, joins, watch),
        Journal(monitor.writer, _last_decision(monitor) + 1),
        WorldRecorder(monitor.writer),
        follower.control_folder,
        settings.control.period,
        watch=watch,
    )
    controller.adviser = Adviser(follower, executors, lambda: controller.target)
    monitor.on_samples(forecasts.see)
    follower.at_end(executors.close)
    if joins is not None:
        follower.subscribe(joins)  # before the loop, which decides on what the joins have seen
        follower.on_death(joins.died)
        controller.at_stop(joins.close)  # is called after the loop has ended, which could begin another change
    if (balance := follower.balance) is not None:
        if rules.mode == "act":
            balance.pause()
        controller.on_mode(lambda mode: balance.resume() if mode == "advise" else balance.pause())
        controller.at_stop(balance.resume)
    controller.at_stop(loop.release)
    follower.subscribe(controller)
    follower.at_end(controller.stop)
    follower.start()
    return controller.start()


def _forecasts(follower: Follower, settings: Settings, executors: Executors) -> ForecastService:
    forecasts = settings.forecasts
    if forecasts.spouts is None:
        forecasts = replace(forecasts, spouts=tuple(spout.id for spout in follower.topology.spouts))
    monitor = follower.monitor
    store = None if monitor is None else monitor.store
    return forecast_service(follower.topology.name, forecasts, _models_folder(follower), store, executors.executors)


def _joins(follower: Follower, settings: Settings, put: Callable[[list[Sample]], None]) -> Joins | None:
    """The joins of the query; None when it has none."""
    folder, models = follower.control_folder, _models_folder(follower)
    if not folder.joins():
        return None

    def highest_times(join: str, batch: int) -> Any:
        return highest_times_of(follower.query.handle, join, batch)

    def key_forecast(join: str) -> LiveKeyForecast:
        return LiveKeyForecast(settings.forecasts, None if models is None else models / f"keys-{join}")

    return Joins(folder, settings.policies["hot_keys"].windows, highest_times, key_forecast, put)


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
