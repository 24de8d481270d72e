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
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Self

from foretide.control.world.world import Forecast, Forecasts
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Key
from foretide.runtime.forecasts.load import fit_command
from foretide.runtime.forecasts.loads import History, LiveLoads, Problems
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
        history: History | None = None,
        folder: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        command: Command = fit_command,
        hosts: Hosts = dict,
    ) -> None:
        """Read and start nothing yet; the arguments are as for `LiveLoads`; `hosts` tells the machine of a worker."""
        self.settings = settings or ForecastSettings()
        self.loads = LiveLoads(self.settings, folder, history, self._report, command)
        self.forecasters: list[LiveLoads | LiveWorkerForecast] = [self.loads]
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
        self._problems.guard("forecasts", lambda: [found.update(each.forecasts(at)) for each in self.forecasters])
        return Forecasts(found)

    def turn(self) -> None:
        """Learn the queued samples, and let each forecaster do what is due. The thread does it."""
        with self._turning:
            samples = [self._pending.popleft() for _ in range(len(self._pending))]
            for each in self.forecasters:
                name = type(each).__name__
                self._problems.guard(f"samples of {name}", partial(each.see, samples))
                self._problems.guard(f"turn of {name}", partial(each.turn, self._clock()))

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
