"""Live forecasts of the load of every spout in steps of one length: learning, fits in another process, saved models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np

from foretide.control.world.world import Forecast
from foretide.errors import ForecastError
from foretide.forecasting.events import Event, factor_at
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load_history import ANY, LOAD, Earlier, History
from foretide.forecasting.saved import ModelCard, load_model, save_model
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Key
from foretide.runtime.forecasts.load import LiveLoadForecast, LoadView
from foretide.runtime.forecasts.load_fit import fit_command, left_out_by
from foretide.runtime.processes import Command, FitProcess
from foretide.settings.forecasts import ForecastSettings

GivenModel = tuple[Ensemble, ModelCard]
"""A model that was trained elsewhere."""

_MAX_SPOUTS = 64
_LEARNT_AT_ONCE = 300
"""Steps of history that are learnt here; of more a model is made by a fit."""


@dataclass
class FitTurn:
    """Which of several forecasters has a fit running: one at a time has."""

    holder: object | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What forecasters of all steps share.

    Attributes:
        folder: Where models are saved; None saves none.
        events: What was announced.
        report: Called with the outcome of each fit, in a sentence.
        command: Runs a fit.
        turn: Of the fits.
    """

    folder: Path | None
    events: Sequence[Event]
    report: Callable[[str], None]
    command: Command = fit_command
    turn: FitTurn = field(default_factory=FitTurn)


class LiveLoads:
    """One `LiveLoadForecast` per spout, of which at most one is being fitted. `forecasts` may be called anywhere."""

    metrics = frozenset({LOAD})

    def __init__(
        self,
        settings: ForecastSettings,
        around: Surroundings,
        *,
        prefix: str = "load-",
        given: GivenModel | None = None,
    ) -> None:
        """Read and start nothing yet.

        Args:
            settings: What is forecast, and when models are fitted.
            around: What is shared with forecasters of other steps.
            prefix: Of the names of saved models. Without the usual one, nothing is forecast before the first fit.
            given: A model for the only spout; it is not fitted here and not saved.
        """
        self.settings, self.loads = settings, dict[str, LiveLoadForecast]()
        self.views: Mapping[str, LoadView] = {}
        self._around, self._prefix, self._given = around, prefix, given
        self._only_fitted = prefix != "load-"
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
        self.open()
        by_spout: dict[str, list[tuple[float, float]]] = {}
        for sample in samples:
            if sample.metric == LOAD and self._is_forecast(sample.subject):
                by_spout.setdefault(sample.subject, []).append((sample.at, sample.value))
        for spout, measured in by_spout.items():
            if not self._problems.guard(f"load of '{spout}'", partial(self._learn, spout, measured)):
                self.loads.pop(spout, None)  # it starts again from nothing

    def turn(self, now: float) -> None:
        """Close steps whose time is over, and look after fits."""
        self.open()
        for load in self.loads.values():
            if load.pass_time(now):
                self._publish(load)
        self._problems.guard("fitting", partial(self._look_after_fits, now))

    def forecasts(self, at: float) -> dict[Key, Forecast]:
        """The forecast of each spout at a time, unless its last sample is too old."""
        found = {spout: view.at(at, self.settings, self._around.events) for spout, view in self.views.items()}
        return {(LOAD, spout): forecast for spout, forecast in found.items() if forecast is not None}

    def close(self) -> None:
        """End a running fit, and save the models."""
        if self._fit is not None:
            self._fit[2].close()
            self._fit, self._around.turn.holder = None, None
        for load in self.loads.values():
            self._save(load)

    def _is_forecast(self, spout: str) -> bool:
        return self.settings.spouts is None or spout in self.settings.spouts

    def _learn(self, spout: str, measured: Sequence[tuple[float, float]]) -> None:
        if spout not in self.loads and len(self.loads) >= _MAX_SPOUTS:
            raise ForecastError(f"at most {_MAX_SPOUTS} spouts are forecast; name them in forecasts.spouts")
        load = self.loads.setdefault(spout, LiveLoadForecast(spout, self.settings))
        events = self._around.events
        usual = [(at, value / factor_at(events, at)) for at, value in measured] if events else measured
        if load.take(usual):
            self._publish(load)

    def _publish(self, load: LiveLoadForecast) -> None:
        """Replace the view of a spout; readers see either the old views or the new ones."""
        view = load.view() if load.fitted or not self._only_fitted else None
        self.views = {**self.views, **({} if view is None else {load.spout: view})}

    # ---- fits

    def _look_after_fits(self, now: float) -> None:
        """Evaluate a fit that has ended, and start the next one that is due."""
        if self._fit is not None:
            load, learnt, process = self._fit
            if process.running(now):
                return
            self._fit, self._around.turn.holder = None, None
            try:
                self._evaluate(load, learnt, process)
            finally:
                process.close()
        turn = self._around.turn
        due = [load for load in self.loads.values() if self._is_due(load, now)]
        if due and turn.holder is None:
            load = min(due, key=lambda each: self._fitted_at.get(each.spout, 0.0))
            self._fitted_at[load.spout] = now
            load.drifted = False
            deadline, niceness = now + self.settings.training_limit, self.settings.niceness
            process = FitProcess.start(load.fit_request().write, self._around.command, niceness, deadline)
            self._fit, turn.holder = (load, load.learnt, process), self

    def _is_due(self, load: LiveLoadForecast, now: float) -> bool:
        if self._given is not None:
            return False
        last = self._fitted_at.get(load.spout)
        return load.enough and (last is None or load.drifted or not 0 <= now - last < self.settings.retrain_every)

    def _evaluate(self, load: LiveLoadForecast, learnt: int, process: FitProcess) -> None:
        problem = process.problem()
        if problem is None and self.loads.get(load.spout) is not load:
            problem = "the forecast has started again from nothing meanwhile"
        if problem is not None:
            sentence = f"the fit to the load of '{load.spout}' failed: {problem}"
            self._problems.note("fit", sentence)
            self._around.report(sentence)
            return
        candidate, _ = load_model(process.folder / "model")
        means = np.load(process.folder / "forecasts.npy", allow_pickle=False)
        if not isinstance(candidate, Ensemble):
            raise ForecastError(f"the model fitted to the load of '{load.spout}' is not an ensemble")
        outcome = load.adopt_if_better(candidate, means, learnt)
        out = left_out_by(process.folder)
        load.leave_out(
            [*(member.name for member in candidate.members), *(one.name for one in out)], (one.name for one in out)
        )
        action = "replaced" if outcome.replaced else "kept"
        steps = f" in steps of {self.settings.step:g} s" if self._only_fitted else ""
        errors = f"RMSE {outcome.before:.4g} -> {outcome.after:.4g}"
        reasons = [f"{one.name} ({one.gain:.1%} better for {one.cpu_seconds:.1f} s of CPU time)" for one in out]
        without = f", without {', '.join(reasons)}" if reasons else ""
        self._around.report(f"fitted the load of '{load.spout}'{steps}: {errors}{without}, {action}")
        self._problems.note("fit", None)
        self._save(load)
        self._publish(load)

    # ---- saved models and history

    def _save(self, load: LiveLoadForecast) -> None:
        if self._given is None and self._around.folder is not None and load.values and load.steps.last is not None:
            place = self._around.folder / f"{self._prefix}{quote(load.spout, safe='')}"
            if self._problems.guard(f"saving {place.name}", lambda: save_model(place, load.ensemble, load.card())):
                self._problems.note(place.name, None)

    def open(self, history: History | None = None) -> None:
        """Once, before anything else: restore saved models; learn what they do not know of a history."""
        if not self._opened:
            self._opened = True
            self._problems.guard("folder", self._restore)
        for source, earlier in (history or {}).items():
            self._problems.guard(
                f"history of '{source}'" if source else "history", partial(self._learn_earlier, source, earlier)
            )

    def _restore(self) -> None:
        folder = self._around.folder
        if self._given is not None:
            [spout] = self.settings.spouts or ()
            self.loads[spout] = LiveLoadForecast.given(spout, self.settings, *self._given)
            self._publish(self.loads[spout])
            return
        if folder is None or not folder.is_dir():
            return
        for place in sorted(folder.glob(f"{self._prefix}*")):
            try:
                load = LiveLoadForecast.restored(*load_model(place), self.settings)
            except ForecastError as error:
                self._problems.note(place.name, f"a saved model cannot be used, a new one is started: {error}")
                continue
            if self._is_forecast(load.spout):
                self.loads[load.spout] = load
                self._publish(load)

    def _learn_earlier(self, source: str, earlier: Earlier) -> None:
        """Learn a few steps here. More of them, and those that were learnt before, are what the next fit is made to."""
        spout = self._spout_of(source)
        most = self.settings.steps(self.settings.max_history)
        found = earlier.in_steps(self.settings.step, most) if self._is_forecast(spout) else None
        if found is None:
            return
        values, last = found
        load = self.loads.get(spout)
        known = None if load is None else load.steps.last
        missing = len(values) if known is None else last - known
        gap: list[float | None] = [None] * min(missing - len(values), most)
        values = gap + values[max(len(values) - missing, 0) :]
        if missing > _LEARNT_AT_ONCE:
            before = [] if load is None else list(load.values)
            self.loads[spout] = LiveLoadForecast.of_history(spout, self.settings, [*before, *values])
        elif missing > 0:
            load = self.loads.setdefault(spout, LiveLoadForecast(spout, self.settings))
            load.learn(values)
        if missing > 0:
            interval = 0.0 if self._only_fitted else min(earlier.step, self.settings.step)
            self.loads[spout].steps.continue_from(last, interval)
            self._publish(self.loads[spout])

    def _spout_of(self, source: str) -> str:
        """The spout that a history is of, which needs not be named if there is one only."""
        spouts = self.settings.spouts or ()
        if source == ANY and len(spouts) != 1:
            raise ForecastError(f"it does not name its source; there are {', '.join(spouts) or 'none'}")
        return source if source != ANY else spouts[0]


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
