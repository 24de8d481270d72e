"""Forecasts for the control loop: the load of every spout and, where nets are installed, the health of workers.

```python
service = ForecastService(ForecastSettings(spouts=("requests",)), folder=Path("models")).start()
service.see(samples)  # whoever measured them
forecasts = service.forecasts(time.time())
service.close()
```

`see` only queues samples and `forecasts` only reads what is known: a thread learns in between, and models are fitted
and trained in other processes. Errors become `problems` and are not raised.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from foretide.control.world.world import Forecast, Forecasts
from foretide.forecasting.events import Event
from foretide.forecasting.load_history import History
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Key
from foretide.runtime.forecasts.load_fit import fit_command
from foretide.runtime.forecasts.loads import GivenModel, LiveLoads, Problems, Surroundings
from foretide.runtime.forecasts.workers import Hosts, LiveWorkerForecast
from foretide.runtime.processes import Command
from foretide.runtime.threads import Worker
from foretide.settings.forecasts import ForecastSettings

_TURN_SECONDS = 0.25
_LOCK_SECONDS = 1.0
_MAX_PENDING = 50_000
_MAX_LOG = 200
log = logging.getLogger("foretide")


class ForecastService:
    """Learns samples and forecasts them by a list of live forecasters. All methods are thread-safe.

    Of a forecaster, only `forecasts` and `problems` are called from other threads.
    """

    def __init__(
        self,
        settings: ForecastSettings | None = None,
        history: Callable[[], History] = dict,
        folder: Path | None = None,
        *,
        events: Sequence[Event] = (),
        given: GivenModel | None = None,
        clock: Callable[[], float] = time.time,
        command: Command = fit_command,
        hosts: Hosts = dict,
    ) -> None:
        """Read and start nothing yet.

        Args:
            settings: What is forecast, and when models are fitted.
            history: Reads earlier load; what a saved model has learnt of it is skipped.
            folder: Where models are saved; None saves none.
            events: What was announced.
            given: A model that was trained elsewhere.
            clock: The time in seconds since 1970.
            command: Runs a fit.
            hosts: Tells the machine of each worker.
        """
        self.settings = settings or ForecastSettings()
        around = Surroundings(folder, events, self._report, command)
        self.loads = LiveLoads(self.settings, around)
        longer = [
            LiveLoads(self.settings.at(each), around, prefix=f"every-{each.step:g}s-") for each in self.settings.longer
        ]
        self._loads = [self.loads, *longer]
        if given is not None:
            trained = self.settings.of_trained(given[1].step_seconds or 1.0, given[0].horizons)
            self._loads.append(LiveLoads(trained, around, prefix="given-", given=given))
            self._loads.sort(key=lambda each: each.settings.step)
        self._history: Callable[[], History] | None = history
        self.forecasters: list[LiveLoads | LiveWorkerForecast] = [*self._loads]
        if self.settings.workers:
            models = None if folder is None else folder / "workers"
            self.forecasters.append(LiveWorkerForecast(self.settings, models, self._report, hosts=hosts))
        self._metrics = frozenset().union(*(each.metrics for each in self.forecasters))
        self._clock, self._pending = clock, deque[Sample](maxlen=_MAX_PENDING)
        self._problems, self._log = Problems(), deque[str](maxlen=_MAX_LOG)
        self._turning = threading.Lock()
        self._worker = Worker(
            "foretide-forecasts", self.turn, _TURN_SECONDS, what="a turn of the forecasts",
            min_pause_seconds=_TURN_SECONDS,
        )  # fmt: skip

    def start(self) -> Self:
        """Learn in a thread from now on."""
        self._worker.start()
        return self

    def see(self, samples: Iterable[Sample]) -> None:
        """Queue samples. Cheap, and never waits."""
        self._problems.guard(
            "samples", lambda: self._pending.extend([each for each in samples if each.metric in self._metrics])
        )
        self._worker.wake()

    def forecasts(self, at: float) -> Forecasts:
        """The forecasts at a time, unless the last samples are too old."""
        found: dict[Key, Forecast] = {}

        def add() -> None:
            for each in self.forecasters:
                for key, forecast in each.forecasts(at).items():
                    found[key] = _farther(found.get(key), forecast)

        self._problems.guard("forecasts", add)
        return Forecasts(found)

    def turn(self) -> None:
        """Learn the queued samples, and let each forecaster do what is due. The thread does it."""
        with self._turning:
            self._problems.guard("history", self._open)
            samples = [self._pending.popleft() for _ in range(len(self._pending))]
            for each in self.forecasters:
                name = type(each).__name__
                self._problems.guard(f"samples of {name}", partial(each.see, samples))
                self._problems.guard(f"turn of {name}", partial(each.turn, self._clock()))

    def _open(self) -> None:
        """Once: learn the earlier load."""
        read, self._history = self._history, None
        if read is not None:
            known = read()
            for each in self._loads:
                each.open(known)

    @property
    def problems(self) -> list[str]:
        """What cannot be forecast or saved at present, and why."""
        own = [*self._problems.sentences, *([self._worker.problem] if self._worker.problem else [])]
        return own + [problem for each in self.forecasters for problem in each.problems]

    @property
    def log(self) -> list[str]:
        """The outcomes of fits and trainings, newest last."""
        return [*self._log]

    def close(self) -> None:
        """End the thread and all processes, and save the models."""
        self._worker.stop()
        if self._turning.acquire(timeout=_LOCK_SECONDS):
            try:
                for each in self.forecasters:
                    self._problems.guard(f"end of {type(each).__name__}", each.close)
            finally:
                self._turning.release()

    def _report(self, sentence: str) -> None:
        self._log.append(sentence)
        log.info("%s", sentence)


def _farther(near: Forecast | None, far: Forecast) -> Forecast:
    """One outlook: what is forecast in fine steps, and beyond that in coarser ones."""
    if near is None:
        return far
    points = (point for point in far.points if point.seconds > near.points[-1].seconds)
    return replace(near, points=(*near.points, *points))
