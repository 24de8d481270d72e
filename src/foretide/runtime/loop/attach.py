"""Attaching a control loop to a running query: `ft.control(query, policies=..., target=ft.Latency(p99="2s"))`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretide.control_folder.filesystem import absolute, local_path
from foretide.errors import ControlError, StoreError
from foretide.runtime.forecasts.keys import LiveKeyForecast
from foretide.runtime.forecasts.service import ForecastService
from foretide.runtime.joins.joins import Joins
from foretide.runtime.loop.actuator import Actuator
from foretide.runtime.loop.controller import Controller, Senses
from foretide.runtime.loop.journal import Journal
from foretide.runtime.loop.observer import Observer
from foretide.runtime.loop.setup import inferred_setup, kept_while, setup_of
from foretide.runtime.pipeline.followed import FollowedQuery
from foretide.runtime.pipeline.submit import Pipeline
from foretide.settings.load import load_settings
from foretide.settings.settings import Settings
from foretide.spark.edges.edge import active_control_folder
from foretide.spark.executors.executors import Executors
from foretide.spark.joins.state import highest_times_of
from foretide.store.metric_store import MetricStore

if TYPE_CHECKING:
    from pathlib import Path

    from foretide.control.actions.registry import Restart
    from foretide.control.decisions.decision import ControlMode
    from foretide.control.policies.policy import Policy
    from foretide.control.step import Control
    from foretide.control.world.setup import Setup, Target
    from foretide.runtime.monitoring.monitor import Monitor
    from foretide.runtime.pipeline.follower import Follower

_STATE_PARTITIONS = "spark.sql.shuffle.partitions"


def control(
    query: Any,
    policies: Sequence[str | Policy[Any]] | None = None,
    target: Target | None = None,
    *,
    mode: ControlMode | None = None,
    settings: Settings | None = None,
    most_executors: int | None = None,
    folder: str | None = None,
) -> Controller:
    """Attach a control loop to a running pipeline, or to any streaming query with Foretide edges.

    Args:
        query: What `ft.submit` returned, or a StreamingQuery whose edges were made by `ft.edge`.
        policies: Names or policies in order of rank; unless said otherwise those of the settings.
        target: What is to be held, such as `ft.Latency(p99="2s")`.
        mode: `act`, or `advise` to decide and explain without touching anything.
        settings: All other settings; unless given, from file and environment as the command line reads them.
        most_executors: Most executors to ask for; as many as there are now unless said otherwise.
        folder: The control folder of a plain query whose edges were given one of their own.
    """
    chosen = settings or load_settings()
    follower = query if isinstance(query, Pipeline) else _followed(query, chosen, folder)
    if follower.monitor is None:
        raise ControlError("control rests on what is measured; start the pipeline with monitoring")
    levers = Executors.of_active()
    levers.most = most_executors or levers.most
    senses = _senses(follower, levers, chosen)
    controller = Controller(_rules(chosen, policies, mode), target or chosen.target, senses, chosen.control.period)
    follower.on_report(controller.see)
    follower.at_end(controller.stop)
    if senses.joins is not None:
        follower.at_end(senses.joins.close)  # after the loop, which could begin another change
    follower.at_end(levers.close)
    controller.start()
    if isinstance(follower, FollowedQuery):
        follower.follow()
    return controller


def _followed(query: Any, settings: Settings, location: str | None) -> FollowedQuery:
    if not hasattr(query, "lastProgress"):
        kind = type(query).__name__
        raise ControlError(f"a {kind} cannot be controlled; give what ft.submit returned, or a StreamingQuery")
    folder = active_control_folder(location)
    if not folder.routes().edges and not folder.joins():
        raise ControlError(
            f"there is no edge to control: '{folder.location}' has no routes; add df.transform(ft.edge(...)) or "
            "ft.join(...) to the query, or say with folder=... where its routes are"
        )
    return FollowedQuery(query, folder, settings.to_run().monitoring)


def _rules(settings: Settings, policies: Sequence[str | Policy[Any]] | None, mode: ControlMode | None) -> Control:
    rules = settings.to_control(policies)
    return rules if mode is None else replace(rules, mode=mode)


def _senses(follower: Follower, levers: Executors, settings: Settings) -> Senses:
    monitor = follower.monitor
    assert monitor is not None  # noqa: S101 - checked by the caller
    forecasts = settings.forecasts
    if forecasts.spouts is None:
        forecasts = replace(forecasts, spouts=tuple(spout.id for spout in follower.topology.spouts))
    seer = ForecastService(forecasts, folder=_models(follower.folder.location)).start()
    monitor.on_samples(seer.see)
    joins = _joins(follower, settings)
    observer = Observer(follower.folder, levers, lambda: follower.started, joins)
    return Senses(
        setup=_setup(follower, levers),
        routes=lambda: follower.routes,
        snapshot=monitor.snapshot,
        observer=observer,
        actor=Actuator(follower.folder, levers, _restarting(follower), joins, observer.note_routes),
        folder=follower.folder,
        journal=Journal(monitor.writer, _last_decision(monitor) + 1),
        record=(lambda _: None) if monitor.writer is None else monitor.writer.put_setup,
        seer=seer,
        joins=joins,
        limits=tuple(levers.limits),
    )


def _joins(follower: Follower, settings: Settings) -> Joins | None:
    """The joins of the query, each batch of which they see before the loop does."""
    if not follower.folder.joins():
        return None
    models = _models(follower.folder.location)
    joins = Joins(
        follower.folder,
        settings.policies["hot_keys"].windows,
        lambda name, batch: highest_times_of(follower.query, name, batch),
        lambda name: LiveKeyForecast(settings.forecasts, None if models is None else models / f"keys-{name}"),
    )
    follower.on_report(joins.see)
    follower.on_death(joins.died)
    return joins


def _last_decision(monitor: Monitor) -> int:
    """The number of the last decision that an earlier loop has left in the store."""
    if not monitor.store:
        return 0
    try:
        with MetricStore.open(monitor.store) as store:
            return store.last_decision_id(monitor.name)
    except StoreError:
        return int(time.time())  # beyond all that an earlier loop can have left; the writer says what is wrong


def _models(location: str) -> Path | None:
    """Models are kept beside the routes, if that is on a local disk."""
    local = local_path(absolute(location))
    return None if local is None else local / "models"


def _setup(follower: Follower, levers: Executors) -> Callable[[], Setup | None]:
    """A topology's setup is made once after every start, a plain query's as its batches show it."""
    if isinstance(follower, Pipeline):
        return kept_while(
            lambda: (follower.started, _shown_partitions(follower)), lambda: _of_pipeline(follower, levers)
        )
    return kept_while(lambda: follower.last_batch, lambda: _of_query(follower, levers))


def _shown_partitions(pipeline: Pipeline) -> int | None:
    """The partitions of Spark's state, as the last batch showed them; before the first one, only a setting tells."""
    state = pipeline.reports[-1].state if pipeline.reports else None
    return None if state is None else state.partitions or None


def _of_pipeline(pipeline: Pipeline, levers: Executors) -> Setup:
    return setup_of(
        pipeline.topology,
        pipeline.compiled.shape,
        pipeline.routes,
        levers,
        pipeline.settings.trigger,
        _shown_partitions(pipeline) or int(pipeline.spark.conf.get(_STATE_PARTITIONS)),
    )


def _of_query(follower: Follower, levers: Executors) -> Setup | None:
    reports = [report for report in list(follower.reports)[-5:] if report.tasks]
    if not reports:
        return None  # nothing is known before the first batch
    return inferred_setup(follower.topology.name, follower.routes, reports, levers, None)


def _restarting(follower: Follower) -> Callable[[Restart], None] | None:
    return follower.restart if isinstance(follower, Pipeline) else None
