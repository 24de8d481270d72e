"""The workers, foreseen: frames go to a process with a net (`seer_oracle`), and what it says is read as it comes.

Nothing here waits for that process. While it is silent there is no outlook, and if it ends it is started again later.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from foretide.control.world.forecasts import Forecast, ForecastPoint
from foretide.forecasting.forecaster import LEVELS
from foretide.forecasting.workers.frames import MachineFrame
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Key
from foretide.runtime.forecasts.worker_frames import Frames
from foretide.runtime.forecasts.worker_process import line_of, order
from foretide.runtime.json_process import JsonProcess, nets_installed
from foretide.settings.forecasts import ForecastSettings

MISSING = (
    "workers are not forecast: JAX, Equinox and Optax are not installed (pip install 'foretide[forecast]'); "
    "the load is forecast without them"
)
_LEVELS = tuple(float(level) for level in LEVELS)
_RETRY = 300.0
_NEWS = 50


def oracle() -> Sequence[str]:
    """The command of the process."""
    return [sys.executable, "-m", "foretide.runtime.forecasts.worker_process"]


class LiveWorkerForecast:
    """Frames in, outlooks out. `take` and `turn` are for one thread, `outlooks` for any."""

    def __init__(self, settings: ForecastSettings, folder: Path | None, command: Sequence[str] | None = None) -> None:
        self.settings, self.folder = settings, folder
        self.problem: str | None = None if nets_installed() else MISSING
        self.news: deque[str] = deque(maxlen=_NEWS)
        self._able = self.problem is None
        self._command = oracle() if command is None else command
        self._frames = Frames(settings.worker_step, settings.net.keep)
        self._line: JsonProcess | None = None
        self._start_at = 0.0
        self._said: dict[str, Any] | None = None

    def take(self, samples: Iterable[Sample]) -> None:
        """Take in what was measured; whole frames go to the process, if there is one."""
        for sample in samples:
            self._send(self._frames.add(sample))

    def turn(self, now: float) -> None:
        """Start the process once there is enough to learn from, and note if it has ended."""
        self._send(self._frames.pass_time(now))
        if self._line is not None and self._line.ended:
            self.problem = f"the process that forecasts workers has ended: {self._line.last_words()}"
            self._start_at = now + _RETRY
            self.close()
        if self._line is None and self._able and now >= self._start_at and self._enough():
            self._line = JsonProcess(self._command, self._heard)
            self._line.send(self._order())
            self._send(list(self._frames.whole))

    def _enough(self) -> bool:
        """Whether a net has enough to learn from, and somebody to compare: a lone worker has no peers."""
        if max((len(frame.workers) for frame in self._frames.whole if frame is not None), default=0) <= 1:
            return False
        least = self.settings.workers_min_history / self.settings.worker_step
        saved = self.folder is not None and (self.folder / "model.json").exists()
        return len(self._frames.whole) >= (1 if saved else least)

    def _order(self) -> str:
        settings = self.settings
        least, every = (
            max(1, round(seconds / settings.worker_step))
            for seconds in (settings.workers_min_history, settings.workers_retrain_every)
        )
        kept = None if self.folder is None else str(self.folder)
        return order(settings.net, settings.seed, least, every, settings.held_out, settings.niceness, kept)

    def _send(self, frames: Sequence[MachineFrame | None]) -> None:
        last = self._frames.last
        if self._line is not None and last is not None:
            for place, frame in enumerate(frames):
                self._line.send(line_of(last - len(frames) + 1 + place, frame))

    def _heard(self, message: dict[str, Any]) -> None:
        """From the thread that reads."""
        if "workers" in message:
            self._said = message
        if "problem" in message:
            self.problem = message["problem"]
        if "log" in message:
            self.news.append(message["log"])

    def outlooks(self, at: float) -> dict[Key, Forecast]:
        """What is foreseen of each worker at a time; nothing if the last answer is too old."""
        said, step = self._said, self.settings.worker_step
        if said is None:
            return {}
        first = int(at // step) - int(said["step"])
        found: dict[Key, Forecast] = {}
        for worker, targets in said["workers"].items():
            for target, ahead in targets.items():
                places = range(max(first, 0), max(first, 0) + self.settings.net.horizon)
                if places[-1] < len(ahead["mean"]):
                    points = tuple(_ahead(ahead, place, (far + 1) * step) for far, place in enumerate(places))
                    found[target, worker] = Forecast(said["by"], points, bool(said["votes"][target]))
        return found

    def close(self) -> None:
        """End the process."""
        if self._line is not None:
            self._line.close()
            self._line = None


def _ahead(told: dict[str, Any], place: int, seconds: float) -> ForecastPoint:
    return ForecastPoint(seconds, told["mean"][place], dict(zip(_LEVELS, told["quantiles"][place], strict=True)))
