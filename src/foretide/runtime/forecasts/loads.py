"""Live forecasts of the load of every spout: learning, fits in another process, and models that survive a restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np

from foretide.control.world.world import Forecast
from foretide.errors import ForecastError
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.saved import load_model, save_model
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Key
from foretide.runtime.forecasts.load import LiveLoadForecast, LoadView, fit_command
from foretide.runtime.processes import Command, FitProcess
from foretide.settings.forecasts import ForecastSettings

LOAD = "arrival_rate"
History = Mapping[Key, Sequence[tuple[float, float]]]
"""Earlier samples by metric and subject: seconds since 1970 and value."""

_MAX_SPOUTS = 64


class LiveLoads:
    """One `LiveLoadForecast` per spout, of which at most one is being fitted. `forecasts` may be called anywhere."""

    metrics = frozenset({LOAD})

    def __init__(
        self,
        settings: ForecastSettings,
        folder: Path | None,
        history: History | None,
        report: Callable[[str], None],
        command: Command = fit_command,
    ) -> None:
        """Read and start nothing yet.

        Args:
            settings: What is forecast, and when models are fitted.
            folder: Where models are saved; None saves none.
            history: Earlier samples to learn from; those that a saved model has learnt are skipped.
            report: Called with the outcome of each fit, in a sentence.
            command: Runs a fit.
        """
        self.settings, self.loads = settings, dict[str, LiveLoadForecast]()
        self.views: Mapping[str, LoadView] = {}
        self._folder, self._history, self._report, self._command = folder, history, report, command
        self._problems = Problems()
        self._opened = False
        self._fitted_at: dict[str, float] = {}
        self._fit: tuple[LiveLoadForecast, int, FitProcess] | None = None

    @property
    def problems(self) -> list[str]:
        """What fails at present."""
        return self._problems.sentences

    @property
    def fitting(self) -> bool:
        """Whether a fit is running."""
        return self._fit is not None

    def see(self, samples: Sequence[Sample]) -> None:
        """Learn samples."""
        self._open()
        by_spout: dict[str, list[tuple[float, float]]] = {}
        for sample in samples:
            if sample.metric == LOAD and self._is_forecast(sample.subject):
                by_spout.setdefault(sample.subject, []).append((sample.at, sample.value))
        for spout, measured in by_spout.items():
            if not self._problems.guard(f"load of '{spout}'", partial(self._learn, spout, measured)):
                self.loads.pop(spout, None)  # it starts again from nothing

    def turn(self, now: float) -> None:
        """Close steps whose time is over, and look after fits."""
        self._open()
        for load in self.loads.values():
            if load.pass_time(now):
                self._publish(load)
        self._problems.guard("fitting", partial(self._look_after_fits, now))

    def forecasts(self, at: float) -> dict[Key, Forecast]:
        """The forecast of each spout at a time, unless its last sample is too old."""
        found = {spout: view.at(at, self.settings) for spout, view in self.views.items()}
        return {(LOAD, spout): forecast for spout, forecast in found.items() if forecast is not None}

    def close(self) -> None:
        """End a running fit, and save the models."""
        if self._fit is not None:
            self._fit[2].close()
            self._fit = None
        for load in self.loads.values():
            self._save(load)

    def _is_forecast(self, spout: str) -> bool:
        return self.settings.spouts is None or spout in self.settings.spouts

    def _learn(self, spout: str, measured: Sequence[tuple[float, float]]) -> None:
        if spout not in self.loads and len(self.loads) >= _MAX_SPOUTS:
            raise ForecastError(f"at most {_MAX_SPOUTS} spouts are forecast; name them in forecasts.spouts")
        load = self.loads.setdefault(spout, LiveLoadForecast(spout, self.settings))
        if load.take(measured):
            self._publish(load)

    def _publish(self, load: LiveLoadForecast) -> None:
        """Replace the view of a spout; readers see either the old views or the new ones."""
        view = load.view()
        self.views = {**self.views, **({} if view is None else {load.spout: view})}

    # ---- fits

    def _look_after_fits(self, now: float) -> None:
        """Evaluate a fit that has ended, and start the next one that is due."""
        if self._fit is not None:
            load, learnt, process = self._fit
            if process.running(now):
                return
            self._fit = None
            try:
                self._evaluate(load, learnt, process)
            finally:
                process.close()
        due = [load for load in self.loads.values() if self._is_due(load, now)]
        if due:
            load = min(due, key=lambda each: self._fitted_at.get(each.spout, 0.0))
            self._fitted_at[load.spout] = now
            load.drifted = False
            deadline, niceness = now + self.settings.training_limit, self.settings.niceness
            process = FitProcess.start(load.fit_request().write, self._command, niceness, deadline)
            self._fit = (load, load.learnt, process)

    def _is_due(self, load: LiveLoadForecast, now: float) -> bool:
        last = self._fitted_at.get(load.spout)
        return load.enough and (last is None or load.drifted or not 0 <= now - last < self.settings.retrain_every)

    def _evaluate(self, load: LiveLoadForecast, learnt: int, process: FitProcess) -> None:
        problem = process.problem()
        if problem is None and self.loads.get(load.spout) is not load:
            problem = "the forecast has started again from nothing meanwhile"
        if problem is not None:
            sentence = f"the fit to the load of '{load.spout}' failed: {problem}"
            self._problems.note("fit", sentence)
            self._report(sentence)
            return
        candidate, _ = load_model(process.folder / "model")
        means = np.load(process.folder / "forecasts.npy", allow_pickle=False)
        if not isinstance(candidate, Ensemble):
            raise ForecastError(f"the model fitted to the load of '{load.spout}' is not an ensemble")
        outcome = load.adopt_if_better(candidate, means, learnt)
        action = "replaced" if outcome.replaced else "kept"
        self._report(f"fitted the load of '{load.spout}': RMSE {outcome.before:.4g} -> {outcome.after:.4g}, {action}")
        self._problems.note("fit", None)
        self._save(load)
        self._publish(load)

    # ---- saved models and history

    def _save(self, load: LiveLoadForecast) -> None:
        if self._folder is not None and load.values and load.steps.last is not None:
            place = self._folder / f"load-{quote(load.spout, safe='')}"
            if self._problems.guard(f"saving {place.name}", lambda: save_model(place, load.ensemble, load.card())):
                self._problems.note(place.name, None)

    def _open(self) -> None:
        """Once, before anything else: restore saved models, and learn the history."""
        if not self._opened:
            self._opened = True
            self._problems.guard("folder", self._restore)
            self._problems.guard("history", self._learn_history)

    def _restore(self) -> None:
        if self._folder is None or not self._folder.is_dir():
            return
        for place in sorted(self._folder.glob("load-*")):
            try:
                load = LiveLoadForecast.restored(*load_model(place), self.settings)
            except ForecastError as error:
                self._problems.note(place.name, f"a saved model cannot be used, a new one is started: {error}")
                continue
            if self._is_forecast(load.spout):
                self.loads[load.spout] = load
                self._publish(load)

    def _learn_history(self) -> None:
        history, self._history = self._history or {}, None
        samples = [
            Sample(metric, subject, at, value)
            for (metric, subject), measured in history.items()
            for at, value in measured
            if metric == LOAD and self._is_new(subject, at)
        ]
        self.see(sorted(samples, key=lambda sample: sample.at))

    def _is_new(self, spout: str, at: float) -> bool:
        """Whether a saved model has not learnt it."""
        steps = self.loads[spout].steps if spout in self.loads else None
        return steps is None or steps.last is None or steps.number(at) > steps.last


class Problems:
    """The last problem of each part; a part that works again has none."""

    def __init__(self) -> None:
        self._by_part: dict[str, str] = {}

    @property
    def sentences(self) -> list[str]:
        """All present problems."""
        return list(self._by_part.copy().values())

    def note(self, part: str, sentence: str | None) -> None:
        """Set the problem of a part; None removes it."""
        if sentence is None:
            self._by_part.pop(part, None)
        else:
            self._by_part[part] = sentence

    def guard(self, part: str, call: Callable[[], object]) -> bool:
        """Call; an exception becomes the problem of the part. Returns whether the call succeeded."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the pipeline runs on whatever fails here
            kind = "" if isinstance(error, ForecastError) else f"{type(error).__name__}: "
            self.note(part, f"{part}: {kind}{error}")
            return False
        self.note(part, None)
        return True
