"""The process that forecasts workers by a net: the pipeline itself never loads JAX, nor does this without training.

    python -m foretide.runtime.forecasts.worker_process

The first line on the standard input is a `WorkerNetRequest`, each further one the frames of a step. The answers are the
forecasts of each worker and the outcomes of trainings. The process begins with the net of an earlier run, or else with
the one that comes with Foretide, and trains it further on what it sees, in a thread while the present one answers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from foretide.errors import ForetideError, NotEnoughHistoryError
from foretide.forecasting.forecaster import Floats, rmse
from foretide.forecasting.pretrained import pretrained_workers
from foretide.forecasting.saved import load_state, save_state
from foretide.forecasting.settings import WorkerNetSettings, nets_installed
from foretide.forecasting.worker_cluster import ClusterForecaster, ClusterFrame
from foretide.forecasting.worker_frames import MachineFrame, WorkerForecast
from foretide.runtime.processes import Message, serve

Frame = ClusterFrame | None
Means = Mapping[str, Floats]
"""The forecasts after a frame: steps x targets of each worker; NaN for a target that was not measured."""

SLACK_STEPS = 3
"""Steps beyond the horizon, so that an answer serves until the next one comes."""

_MIN_PAIRS = 20
_NEVER = 1 << 30


@dataclass(frozen=True, slots=True)
class WorkerNetRequest:
    """What the process is to do.

    Attributes:
        first_training: Frames before the first training.
        train_every: Frames between two trainings.
        held_out: The share of the history, the latest, on which nets are scored.
        folder: Where the net is saved; None saves none.
        pretrained: Whether it begins with the net that comes with Foretide.
    """

    net: WorkerNetSettings
    seed: int
    first_training: int
    train_every: int
    held_out: float
    niceness: int = 0
    folder: Path | None = None
    pretrained: bool = True


def frame_message(number: int, frame: Frame) -> Message:
    """A step as a message to the process."""
    machines = None if frame is None else {
        name: {"machine": dict(each.machine), "workers": dict(each.workers)} for name, each in frame.items()
    }  # fmt: skip
    return {"step": number, "machines": machines}


def relative_errors(frames: Sequence[Frame], means: Sequence[Means | None], targets: Sequence[str]) -> Floats | None:
    """The RMSE of forecasts by target as a share of that of the last value; None if there are too few.

    `means[i]` was forecast after `frames[i]`; only forecasts of steps within the frames count.
    """
    rows: list[tuple[Floats, Floats, Floats]] = []
    known = [{} if frame is None else _targets(frame, targets) for frame in frames]
    for place, each in enumerate(means):
        for worker, ahead in (each or {}).items():
            last = known[place].get(worker)
            for far, mean in enumerate(ahead[: len(frames) - place - 1], start=1):
                truth = known[place + far].get(worker)
                if truth is not None and last is not None:
                    rows.append((mean, last, truth))
    if len(rows) < _MIN_PAIRS:
        return None
    by_target = np.moveaxis(np.array(rows), 2, 0)
    pairs = [each[np.isfinite(each).all(axis=1)] for each in by_target]
    return np.array([_share(each) for each in pairs if len(each) >= _MIN_PAIRS])


def _share(rows: Floats) -> float:
    """The RMSE of forecasts as a share of that of last values; rows of forecast, last value and truth."""
    own, naive = (rmse(rows[:, which], rows[:, 2]) for which in (0, 1))
    return own / naive if naive > 0 else float(np.inf if own > 0 else 1.0)


def _targets(frame: ClusterFrame, targets: Sequence[str]) -> dict[str, Floats]:
    workers = {name: each for machine in frame.values() for name, each in machine.workers.items()}
    found = {name: np.array([each.get(target, np.nan) for target in targets]) for name, each in workers.items()}
    return {name: values for name, values in found.items() if np.isfinite(values).any()}


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A newly trained net, its forecasts of the held-out frames, and the number of frames seen when it was started."""

    model: ClusterForecaster
    means: list[Means | None]
    seen: int


class WorkerNetProcess:
    """The net in use, its past forecasts, and the net that is being trained."""

    def __init__(self, request: WorkerNetRequest) -> None:
        self.request = request
        self.net = replace(request.net, first_training=_NEVER, retrain_every=0)
        self.frames: deque[Frame] = deque(maxlen=request.net.keep)
        self.means: deque[Means | None] = deque(maxlen=request.net.keep)
        self.model: ClusterForecaster | None = None
        self.trainings = 0
        self._may_train = nets_installed()
        self._since_training = _NEVER // 2
        self._trained: _Candidate | str | None = None
        self._thread: threading.Thread | None = None
        self._seen = 0

    def answer(self, message: Message) -> Iterator[Message]:
        """Learn the frame of a message."""
        content = message["machines"]
        frame = None if content is None else {
            name: MachineFrame(each["machine"], each["workers"]) for name, each in content.items()
        }  # fmt: skip
        return self.learn(message["step"], frame)

    def learn(self, number: int, frame: Frame) -> Iterator[Message]:
        """Learn the next frame; returns the forecasts after it, and the outcome of a training that has ended."""
        self.frames.append(frame)
        self._since_training += 1
        self._seen += 1
        ahead = self._forecast(frame)
        self.means.append(None if ahead is None else _means(ahead, self.net))
        yield from self.outcome()
        if ahead:
            yield _forecast_message(number, ahead, self.net)
        enough = self._may_train and len(self.frames) >= self.request.first_training
        if self._thread is None and enough and self._since_training >= self.request.train_every:
            self.train()

    def _forecast(self, frame: Frame) -> WorkerForecast | None:
        if self.model is None:
            return None
        self.model.learn([frame])
        return self.model.forecast(self.net.horizon + SLACK_STEPS)

    # ---- training

    def train(self) -> None:
        """Start to train another net, in a thread."""
        self._since_training, self.trainings = 0, self.trainings + 1
        self._thread = threading.Thread(target=self._train, args=(list(self.frames), self._seen), daemon=True)
        self._thread.start()

    def _train(self, frames: list[Frame], seen: int) -> None:
        try:
            held_out = max(self.net.horizon * 2, round(self.request.held_out * len(frames)))
            before = None if self.model is None else self.model.model
            model = ClusterForecaster(self.request.seed + self.trainings, self.net, before)
            model.learn(frames[:-held_out])
            model.retrain()
            means: list[Means | None] = []
            for frame in frames[-held_out:]:
                model.learn([frame])
                means.append(_means(model.forecast(self.net.horizon), self.net))
            self._trained = _Candidate(model, means, seen)
        except NotEnoughHistoryError as error:
            self._trained = f"no net of the workers was trained: {error}"
        except Exception as error:  # noqa: BLE001 - a failed training must not end the answers
            self._trained = f"training the net of the workers failed: {error!r}"

    def wait(self) -> None:
        """Wait for the training that is under way."""
        if self._thread is not None:
            self._thread.join()

    def outcome(self) -> Iterator[Message]:
        """The outcome of a training that has ended."""
        if self._thread is None or self._thread.is_alive():
            return
        trained, self._trained, self._thread = self._trained, None, None
        if isinstance(trained, str):
            yield {"problem": trained}
        elif trained is not None:
            yield {"log": self._adopt_if_better(trained), "problem": self._save()}

    def _adopt_if_better(self, candidate: _Candidate) -> str:
        """Use the new net if it did better on the held-out frames."""
        frames = list(self.frames)
        end = len(frames) - (self._seen - candidate.seen)
        held_out = slice(end - len(candidate.means), end)
        before, after = (
            relative_errors(frames[held_out], means, self.net.targets)
            for means in (list(self.means)[held_out], candidate.means)
        )
        if after is None:
            return "trained workers: too few forecasts to compare, kept"
        score = float(np.mean(after))
        if before is not None and not score < float(np.mean(before)):
            return f"trained workers: error {np.mean(before):.2f} -> {score:.2f} of the last value's, kept"
        candidate.model.learn(frames[end:])
        self.model = candidate.model
        for offset, each in enumerate(candidate.means):
            self.means[held_out.start + offset] = each
        change = "" if before is None else f"{np.mean(before):.2f} -> "
        return f"trained workers: error {change}{score:.2f} of the last value's, replaced"

    # ---- saving

    def _save(self) -> str | None:
        folder = self.request.folder
        if folder is None or self.model is None:
            return None
        try:
            save_state(folder, self.model.state(), {"model": "workers", "targets": list(self.net.targets)})
        except ForetideError as error:
            return f"the net of the workers cannot be saved: {error}"
        return None

    def restore(self) -> Iterator[Message]:
        """Continue with a saved net, else with the one that comes along; returns what is wrong with the saved one."""
        self.model, problem = self._saved()
        if self.model is not None:
            self._since_training = 0
        elif self.request.pretrained and (model := pretrained_workers(self.net)) is not None:
            self.model = ClusterForecaster(self.request.seed, self.net, model)
        yield {"problem": problem}

    def _saved(self) -> tuple[ClusterForecaster | None, str | None]:
        folder = self.request.folder
        if folder is None or not (folder / "model.json").exists():
            return None, None
        try:
            state, description = load_state(folder)
            if description.get("targets") != list(self.net.targets):
                return None, "the saved net of the workers has other targets; a new one is used"
            model = ClusterForecaster(self.request.seed, self.net)
            model.restore(state)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the folder, another net is used
            return None, f"the saved net of the workers cannot be used, a new one is used: {error}"
        return model, None


def _means(ahead: WorkerForecast, net: WorkerNetSettings) -> Means:
    nothing = np.full(net.horizon, np.nan)
    return {
        worker: np.stack(
            [each[target].mean[: net.horizon] if target in each else nothing for target in net.targets], axis=1
        )
        for worker, each in ahead.items()
    }


def _forecast_message(number: int, ahead: WorkerForecast, net: WorkerNetSettings) -> Message:
    workers = {
        worker: {
            target: {"mean": each[target].mean.tolist(), "quantiles": each[target].quantiles.tolist()}
            for target in each
        }
        for worker, each in ahead.items()
    }
    return {"step": number, "by": f"{net.net} net", "workers": workers}


if __name__ == "__main__":
    serve(WorkerNetRequest, WorkerNetProcess)
