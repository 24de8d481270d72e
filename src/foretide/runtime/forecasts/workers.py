"""Live forecasts of workers: frames are sent to a process with a net (`worker_process`), and its answers are read.

Nothing waits for that process. While it does not answer there is no forecast, and if it ends it is started again later.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foretide.control.world.world import Forecast, ForecastPoint
from foretide.forecasting.forecaster import LEVELS
from foretide.forecasting.pretrained import has_pretrained_workers
from foretide.forecasting.series import TimeSteps
from foretide.forecasting.settings import nets_installed
from foretide.forecasting.worker_frames import MachineFrame
from foretide.metrics.catalogue import at_level
from foretide.metrics.metric import Level, Sample
from foretide.metrics.running_tasks import COPIED_TASKS, RUNNING_SLOWNESS
from foretide.metrics.snapshot import Key
from foretide.runtime.forecasts.worker_process import Frame, WorkerNetRequest, frame_message
from foretide.runtime.processes import JsonProcess, Message
from foretide.settings.forecasts import ForecastSettings

MISSING = (
    "workers are not forecast: JAX, Equinox and Optax are not installed (pip install 'foretide[forecast]'); "
    "the load is forecast without them"
)
Hosts = Callable[[], Mapping[str, str]]
"""Tells the machine of each worker."""

COMMAND = (sys.executable, "-m", "foretide.runtime.forecasts.worker_process")
_WORKER_METRICS, _MACHINE_METRICS = (
    frozenset(metric.name for metric in at_level(level))
    - {RUNNING_SLOWNESS, COPIED_TASKS}  # known in late batches only
    for level in (Level.WORKER, Level.MACHINE)
)
_LEVELS = tuple(float(level) for level in LEVELS)
_RETRY_SECONDS = 300.0
_NO_HOST = ""
_MAX_GAP = 60


class WorkerFrames:
    """The newest value of every metric in each step, machine by machine."""

    def __init__(self, step: float, keep: int, hosts: Hosts = dict) -> None:
        """`hosts` is asked for the machine of each worker when a worker appears that is not known."""
        self.whole: deque[Frame] = deque(maxlen=keep)
        self._steps: TimeSteps[Sample] = TimeSteps(step, _MAX_GAP)
        self._ask_hosts, self._hosts = hosts, dict[str, str]()

    @property
    def last(self) -> int | None:
        """The number of the last whole step, counted from time 0."""
        return self._steps.last

    def add(self, sample: Sample) -> list[Frame]:
        """Add a sample of a worker or machine (others are ignored); returns the frames that became whole."""
        of_worker = sample.metric in _WORKER_METRICS and sample.value >= 0
        of_machine = sample.metric in _MACHINE_METRICS and "/" not in sample.subject
        if not (of_worker or of_machine) or not math.isfinite(sample.value):
            return []
        return self._closed(self._steps.add(sample.at, sample))

    def pass_time(self, now: float) -> list[Frame]:
        """The frame whose step is over although no later sample came."""
        return self._closed(self._steps.pass_time(now))

    def _closed(self, steps: Iterable[Sequence[Sample] | None]) -> list[Frame]:
        frames = [None if samples is None else self._frame(samples) for samples in steps]
        self.whole.extend(frames)
        return frames

    def _frame(self, samples: Sequence[Sample]) -> Frame:
        machines: dict[str, dict[str, float]] = {}
        workers: dict[str, dict[str, float]] = {}
        for sample in samples:
            into = workers if sample.metric in _WORKER_METRICS else machines
            into.setdefault(sample.subject, {})[sample.metric] = sample.value
        places = self._places(workers, machines)
        return {
            machine: MachineFrame(
                machines.get(machine, {}), {name: each for name, each in workers.items() if places[name] == machine}
            )
            for machine in {*places.values()}
        }

    def _places(self, workers: Iterable[str], machines: Collection[str]) -> dict[str, str]:
        """The machine of each worker. The only machine that is measured is that of workers on the only host."""
        if any(worker not in self._hosts for worker in workers):
            self._hosts = dict.fromkeys(workers, _NO_HOST) | {**self._ask_hosts()}
        places = {worker: self._hosts[worker] for worker in workers}
        if len({*places.values()}) == 1 and len(machines) == 1:
            return dict.fromkeys(places, *machines)
        return places


class LiveWorkerForecast:
    """Sends frames to a net in a process, and turns its answers into forecasts."""

    metrics = _WORKER_METRICS | _MACHINE_METRICS

    def __init__(
        self,
        settings: ForecastSettings,
        folder: Path | None,
        report: Callable[[str], None] = lambda _: None,
        command: Sequence[str] = COMMAND,
        hosts: Hosts = dict,
    ) -> None:
        self.settings, self.folder = settings, folder
        self.process = JsonProcess("workers", command, self._on_message, _RETRY_SECONDS)
        self._report = report
        self._ready = settings.pretrained and has_pretrained_workers(settings.net)
        self._able = self._ready or nets_installed()
        self._frames = WorkerFrames(settings.worker_step, settings.net.keep, hosts)
        self._answer: Message | None = None

    @property
    def problems(self) -> list[str]:
        """Why workers are not forecast at present."""
        problem = self.process.problem if self._able else MISSING
        return [problem] if problem else []

    def see(self, samples: Iterable[Sample]) -> None:
        """Learn samples; whole frames are sent to the process, if there is one."""
        for sample in samples:
            self._send(self._frames.add(sample))

    def turn(self, now: float) -> None:
        """Start the process once there is enough history, and notice if it has ended."""
        self._send(self._frames.pass_time(now))
        if self.process.may_start(now) and self._able and self._has_enough():
            self.process.start(self._request())
            self._send(list(self._frames.whole))

    def forecasts(self, at: float) -> dict[Key, Forecast]:
        """The forecast of each worker at a time; empty if the last answer is too old."""
        answer, step = self._answer, self.settings.worker_step
        if answer is None:
            return {}
        first = max(int(at // step) - int(answer["step"]), 0)
        places = range(first, first + self.settings.net.horizon)
        found: dict[Key, Forecast] = {}
        for worker, targets in answer["workers"].items():
            for target, ahead in targets.items():
                if places[-1] < len(ahead["mean"]):
                    points = tuple(_point(ahead, place, (far + 1) * step) for far, place in enumerate(places))
                    found[target, worker] = Forecast(answer["by"], points)
        return found

    def close(self) -> None:
        """End the process."""
        self.process.close()

    def _has_enough(self) -> bool:
        """Whether a net has enough to learn from, and workers to compare: a lone worker has no peers."""
        whole = self._frames.whole
        counts = (sum(len(each.workers) for each in frame.values()) for frame in whole if frame is not None)
        if max(counts, default=0) <= 1:
            return False
        saved = self.folder is not None and (self.folder / "model.json").exists()
        return len(whole) >= (
            1 if saved or self._ready else self.settings.workers_min_history / self.settings.worker_step
        )

    def _request(self) -> WorkerNetRequest:
        settings = self.settings
        first, every = (
            max(1, round(seconds / settings.worker_step))
            for seconds in (settings.workers_min_history, settings.workers_retrain_every)
        )
        return WorkerNetRequest(
            settings.net,
            settings.seed,
            first,
            every,
            settings.held_out,
            settings.niceness,
            self.folder,
            settings.pretrained,
        )

    def _send(self, frames: Sequence[Frame]) -> None:
        last = self._frames.last
        if last is not None:
            for place, frame in enumerate(frames):
                self.process.send(frame_message(last - len(frames) + 1 + place, frame))

    def _on_message(self, message: Message) -> None:
        """From the thread that reads."""
        if "workers" in message:
            self._answer = message
        if "log" in message:
            self._report(message["log"])


def _point(ahead: dict[str, Any], place: int, seconds: float) -> ForecastPoint:
    return ForecastPoint(seconds, ahead["mean"][place], dict(zip(_LEVELS, ahead["quantiles"][place], strict=True)))
