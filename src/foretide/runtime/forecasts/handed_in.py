"""What a live forecast is handed: earlier load, a trained model, announced events, and the models that were saved."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from foretide.control_folder.by_hand import author
from foretide.errors import ForecastError, StoreError
from foretide.forecasting.events import parse_event
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load_history import History, merged, moved_by_weeks, of_store, read_history
from foretide.forecasting.saved import load_model
from foretide.runtime.forecasts.loads import GivenModel
from foretide.runtime.forecasts.service import ForecastService
from foretide.runtime.forecasts.workers import Hosts
from foretide.settings.forecasts import ForecastSettings
from foretide.status.pipelines import file_name, foretide_home
from foretide.store.metric_store import MetricStore


def forecast_service(
    name: str, settings: ForecastSettings, folder: Path | None, store: str | None, hosts: Hosts = dict
) -> ForecastService:
    """The forecasts of a pipeline. What is handed in by the settings is checked here, and the rest is read later.

    Args:
        name: Of the pipeline.
        settings: What is forecast, and what is handed in.
        folder: Where models are saved; None saves none.
        store: Of the pipeline, whose measurements are not forgotten over a restart.
        hosts: Tells the machine of each worker.

    Raises:
        ForecastError: The history, the model or an event cannot be used.
    """
    now, spouts = time.time(), settings.spouts or ()
    given = None if settings.model is None else _given_model(settings.model, now, spouts)
    handed = [read_history(source, now, settings.step) for source in settings.history]
    unknown = {source for history in handed for source in history} - {"", *spouts}
    if handed and unknown and not any(source in spouts for history in handed for source in history):
        raise ForecastError(
            f"the history is of {', '.join(sorted(unknown))}, and this pipeline reads {', '.join(spouts) or 'nothing'}"
        )
    events = tuple(parse_event(text, author()) for text in settings.events)
    read = partial(_earlier_load, name, handed, store, now)
    return ForecastService(settings, read, folder, events=events, given=given, hosts=hosts)


def check_handed_in(settings: ForecastSettings) -> None:
    """Refuse a model, a history or an event that no pipeline can use, before there is one.

    Raises:
        ForecastError: It cannot be read or used.
        ModelFolderError: The model cannot be loaded.
    """
    now = time.time()
    if settings.model is not None:
        _given_model(settings.model, now)
    for source in settings.history:
        read_history(source, now, settings.step)
    for text in settings.events:
        parse_event(text, author())


def history_file(name: str) -> Path:
    """Where `foretide history import` keeps the earlier load of a pipeline."""
    return foretide_home() / "history" / f"{file_name(name)}.json"


def _earlier_load(name: str, handed: list[History], store: str | None, now: float) -> History:
    imported = history_file(name)
    found = [read_history(str(imported), now)] if imported.exists() else []
    own: list[History] = []
    with suppress(StoreError):  # there is none yet
        if store is not None:
            with MetricStore.open(store, create=False) as opened:
                own = [of_store(opened, [name])]
    return merged([*found, *handed, *own])


def _given_model(folder: str, now: float, spouts: Sequence[str] | None = None) -> GivenModel:
    model, card = load_model(Path(folder))
    if not isinstance(model, Ensemble):
        raise ForecastError(f"the model in '{folder}' is {card.model}; a pipeline uses an {Ensemble.name}")
    step = card.step_seconds
    if step is None:
        raise ForecastError(f"the model in '{folder}' does not know its times: train it on a file that has them")
    if spouts is not None and len(spouts) != 1:
        raise ForecastError(f"a model can be handed to a pipeline with one source, and this one has {len(spouts)}")
    last = now if card.last_step is None else moved_by_weeks(card.last_step * step, now)
    return model, replace(card, last_step=int(last // step))
