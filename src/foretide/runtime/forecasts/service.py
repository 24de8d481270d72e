"""Foresees for the control loop: the load of every spout and, where nets are installed, what workers will suffer.

```python
seer = ForecastService(ForecastSettings(spouts=("requests",)), folder=Path("models"))
seer.start()
seer.see(samples)  # whoever measured them
foresight = seer.foresight(time.time())
seer.close()
```

`see` only puts samples aside and `foresight` only reads what is known: a thread of its own learns in between, and fits
happen in other processes. What breaks in here is said in `problems` and goes no further.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np

from foretide.control.world.forecasts import Forecast, Forecasts
from foretide.errors import ForecastError
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.saved import load_model, save_model
from foretide.metrics.catalogue.registry import at_level
from foretide.metrics.metric import Level, Sample
from foretide.metrics.snapshot import Key
from foretide.runtime.fit_process import Command, FitProcess, fitting
from foretide.runtime.forecasts.load import LiveLoadForecast, LoadView
from foretide.runtime.forecasts.load_fit import write_lesson
from foretide.runtime.forecasts.workers import LiveWorkerForecast
from foretide.settings.forecasts import ForecastSettings

LOAD = "arrival_rate"
History = Mapping[Key, Sequence[tuple[float, float]]]
"""What was measured before: seconds since 1970 and value, by metric and subject."""

_TURN = 0.25
_MOST_PENDING = 50_000
_MOST_SPOUTS = 64
_KEPT = 200
_SURROUNDINGS = frozenset(metric.name for level in (Level.WORKER, Level.MACHINE) for metric in at_level(level))
log = logging.getLogger("foretide")


class ForecastService:
    """Learns from what is measured, and says what comes. All methods may be called from any thread."""

    def __init__(
        self,
        settings: ForecastSettings | None = None,
        history: History | None = None,
        folder: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        command: Command = fitting,
    ) -> None:
        """Nothing is read or started before the first turn.

        Args:
            settings: What is forecast, and when models are fitted.
            history: What was measured before, so that one need not begin from nothing.
            folder: Where models are kept over a restart; None keeps none.
            clock: Seconds since 1970.
            command: What fits a load in another process.
        """
        self.settings = settings or ForecastSettings()
        self._history, self._folder, self._clock, self._command = history, folder, clock, command
        self._pending: deque[Sample] = deque(maxlen=_MOST_PENDING)
        self._loads: dict[str, LiveLoadForecast] = {}
        self._views: Mapping[str, LoadView] = {}
        self._trained: dict[str, float] = {}
        self._training: tuple[str, int, FitProcess] | None = None
        self._workers = LiveWorkerForecast(self.settings, _below(folder, "workers")) if self.settings.workers else None
        self._wrong: dict[str, str] = {}
        self._log: deque[str] = deque(maxlen=_KEPT)
        self._opened = False
        self._turning = threading.Lock()
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- from outside

    def start(self) -> ForecastService:
        """Begin to learn, in a thread of its own."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._go_round, name="foretide-seer", daemon=True)
            self._thread.start()
        return self

    def see(self, samples: Iterable[Sample]) -> None:
        """Put aside what was measured. Cheap, and never waits."""
        self._guarded("samples", lambda: self._pending.extend([each for each in samples if self._wanted(each)]))
        self._news.set()

    def foresight(self, at: float) -> Forecasts:
        """What is foreseen at a time, by the newest models; nothing where too long ago nothing was measured."""
        outlooks: dict[Key, Forecast] = {}
        try:
            if self._workers is not None:
                outlooks |= self._workers.outlooks(at)
            for spout, view in self._views.items():
                found = view.outlook(at, self.settings)
                outlooks |= {} if found is None else {(LOAD, spout): found}
            self._wrong.pop("foresight", None)
        except Exception as error:  # noqa: BLE001 - a loop without forecasts is better than none
            self._wrong["foresight"] = f"what is foreseen cannot be told: {error!r}"
        return Forecasts(outlooks)

    @property
    def problems(self) -> list[str]:
        """What cannot be foreseen or kept at present, and why."""
        workers = None if self._workers is None else self._workers.problem
        return [*dict(self._wrong).values(), *([workers] if workers else [])]

    @property
    def log(self) -> list[str]:
        """What became of models that were fitted, newest last."""
        return [*self._log]

    @property
    def training(self) -> bool:
        """Whether a model of the load is being fitted."""
        return self._training is not None

    def close(self) -> None:
        """End everything, and keep the models."""
        self._stopping.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        if self._turning.acquire(timeout=1.0):
            try:
                self._end()
            finally:
                self._turning.release()

    def _end(self) -> None:
        if self._training is not None:
            self._training[2].close()
            self._training = None
        if self._workers is not None:
            self._workers.close()
        for load in self._loads.values():
            self._guarded(f"keeping {load.spout}", partial(self._keep, load))

    def _wanted(self, sample: Sample) -> bool:
        if sample.metric == LOAD:
            return self.settings.spouts is None or sample.subject in self.settings.spouts
        return self._workers is not None and sample.metric in _SURROUNDINGS

    # ---- a turn

    def _go_round(self) -> None:
        while not self._stopping.is_set():
            self._news.wait(_TURN)
            self._news.clear()
            self._guarded("turn", self.turn)
            self._stopping.wait(_TURN)

    def turn(self) -> None:
        """Learn what was put aside, look after trainings, and make known what is foreseen. The thread does it."""
        with self._turning:
            if not self._opened:
                self._opened = True
                self._guarded("folder", self._restore)
                self._guarded("history", self._learn_history)
            waiting = [self._pending.popleft() for _ in range(len(self._pending))]
            self._learn(waiting)
            now = self._clock()
            self._guarded("steps", lambda: self._pass_time(now))
            self._guarded("training", lambda: self._train(now))
            if self._workers is not None:
                self._guarded("workers", lambda: self._turn_workers(now))

    def _learn(self, samples: Sequence[Sample]) -> None:
        measured: dict[str, list[tuple[float, float]]] = {}
        for sample in samples:
            if sample.metric == LOAD:
                measured.setdefault(sample.subject, []).append((sample.at, sample.value))
        for spout, values in measured.items():
            if not self._guarded(f"load of '{spout}'", partial(self._take, spout, values)):
                self._loads.pop(spout, None)  # it starts afresh
        self._guarded("frames", lambda: self._take_frames(samples))

    def _take_frames(self, samples: Sequence[Sample]) -> None:
        if self._workers is not None:
            self._workers.take(sample for sample in samples if sample.metric in _SURROUNDINGS)

    def _take(self, spout: str, measured: Sequence[tuple[float, float]]) -> None:
        if spout not in self._loads and len(self._loads) >= _MOST_SPOUTS:
            raise ForecastError(f"more than {_MOST_SPOUTS} spouts; name those to forecast in the settings")
        load = self._loads.setdefault(spout, LiveLoadForecast(spout, self.settings))
        if load.take(measured):
            self._show(load)

    def _pass_time(self, now: float) -> None:
        for load in self._loads.values():
            if load.pass_time(now):
                self._show(load)

    def _show(self, load: LiveLoadForecast) -> None:
        """Make known what is foreseen; readers see the old views or the new ones."""
        view = load.view()
        self._views = {**self._views, **({} if view is None else {load.spout: view})}

    def _turn_workers(self, now: float) -> None:
        if self._workers is not None:
            self._workers.turn(now)
            while self._workers.news:
                self._say(self._workers.news.popleft())

    def _guarded(self, what: str, work: Callable[[], object]) -> bool:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever fails in here, the pipeline runs on
            kind = "" if isinstance(error, ForecastError) else f"{type(error).__name__}: "
            self._wrong[what] = f"{what}: {kind}{error}"
            return False
        self._wrong.pop(what, None)
        return True

    def _say(self, sentence: str) -> None:
        self._log.append(sentence)
        log.info("%s", sentence)

    # ---- fitting anew

    def _train(self, now: float) -> None:
        """Take in a fit that has ended; begin the next one that is due. Only one runs at a time."""
        if self._training is not None:
            spout, learnt, training = self._training
            if training.running(now):
                return
            self._training = None
            try:
                self._settle(spout, learnt, training)
            finally:
                training.close()
        due = [spout for spout, load in self._loads.items() if self._due(spout, load, now)]
        if due and not self._stopping.is_set():
            spout = min(due, key=lambda name: self._trained.get(name, 0.0))
            self._trained[spout] = now
            load = self._loads[spout]
            load.drifted = False
            deadline, nice = now + self.settings.training_limit, self.settings.niceness
            training = FitProcess(lambda folder: write_lesson(folder, load), self._command, nice, deadline)
            self._training = (spout, load.learnt, training)

    def _due(self, spout: str, load: LiveLoadForecast, now: float) -> bool:
        last = self._trained.get(spout)
        return load.enough and (last is None or load.drifted or not 0 <= now - last < self.settings.retrain_every)

    def _settle(self, spout: str, learnt: int, training: FitProcess) -> None:
        load = self._loads.get(spout)
        problem = training.problem()
        if problem is not None or load is None:
            self._say(f"retraining load of '{spout}' failed: {problem or 'it has started afresh meanwhile'}")
            self._wrong["fit"] = self._log[-1]
            return
        rival, _ = load_model(training.folder / "model")
        said = np.load(training.folder / "said.npy", allow_pickle=False)
        if not isinstance(rival, Ensemble):
            raise ForecastError(f"what was fitted to the load of '{spout}' is no mix")
        found = load.settle(rival, said, learnt)
        word = "replaced" if found.replaced else "kept"
        self._say(f"retrained load of '{spout}': RMSE {found.before:.4g} -> {found.after:.4g}, {word}")
        self._wrong.pop("fit", None)
        self._guarded(f"keeping {spout}", lambda: self._keep(load))
        self._show(load)

    # ---- keeping

    def _keep(self, load: LiveLoadForecast) -> None:
        if self._folder is not None and load.values and load.grid.last is not None:
            place = self._folder / f"load-{quote(load.spout, safe='')}"
            save_model(place, load.mix, load.card())
            self._wrong.pop(f"saved {place.name}", None)

    def _restore(self) -> None:
        if self._folder is None or not self._folder.is_dir():
            return
        for place in sorted(self._folder.glob("load-*")):
            try:
                load = LiveLoadForecast.restored(*load_model(place), self.settings)
            except ForecastError as error:
                self._wrong[f"saved {place.name}"] = f"a saved model cannot be used, one starts afresh: {error}"
                continue
            if self.settings.spouts is None or load.spout in self.settings.spouts:
                self._loads[load.spout] = load
                self._show(load)

    def _learn_history(self) -> None:
        history, self._history = self._history or {}, None
        samples = [
            Sample(metric, subject, at, value)
            for (metric, subject), measured in history.items()
            for at, value in measured
            if self._wanted(Sample(metric, subject, at, value)) and self._is_new(metric, subject, at)
        ]
        self._learn(sorted(samples, key=lambda sample: sample.at))

    def _is_new(self, metric: str, subject: str, at: float) -> bool:
        """Whether a saved model has not learnt it."""
        load = self._loads.get(subject) if metric == LOAD else None
        return load is None or load.grid.last is None or load.grid.number(at) > load.grid.last


def _below(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / name
