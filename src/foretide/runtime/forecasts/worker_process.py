"""Forecasts workers by a net, in a process of its own that stands back behind the pipeline.

    python -m foretide.runtime.forecasts.worker_process

The first line on the standard input says what is asked for, each further one is a frame; lines of JSON come back:
what is foreseen of each worker, and what became of a training. The net trains in a thread of this process while the
one in place goes on answering. The pipeline's own process never loads JAX.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from foretide.errors import ForetideError, NotEnoughHistoryError
from foretide.forecasting.budget import TrainingBudget
from foretide.forecasting.forecaster import Floats
from foretide.forecasting.saved import load_state, save_state
from foretide.forecasting.workers.frames import MachineFrame, WorkerForecast, WorkerNetSettings

Frame = MachineFrame | None
Said = Mapping[str, Floats]
"""What was foreseen after a frame: steps x targets of each worker."""

SLACK = 3
"""Steps beyond the horizon, so that an answer serves until the next one comes."""

_JUDGED_EVERY = 12
_FEWEST_PAIRS = 20
_NEVER = 1 << 30


def order(
    net: WorkerNetSettings, seed: int, first: int, every: int, held: float, niceness: int, folder: str | None
) -> str:
    """The first line: which net, how many frames before its first training and between two, and where it is kept."""
    about = {**asdict(net), "process_features": sorted(net.process_features)}
    return json.dumps(
        {"net": about, "seed": seed, "first": first, "every": every, "held": held, "nice": niceness, "folder": folder}
    )


def line_of(number: int, frame: Frame) -> str:
    """A frame as a line."""
    told = None if frame is None else {"machine": dict(frame.machine), "workers": dict(frame.workers)}
    return json.dumps({"step": number, "frame": told})


def shares_of_naive(frames: Sequence[Frame], said: Sequence[Said | None], targets: Sequence[str]) -> Floats | None:
    """By target, the root mean squared error of what was said as a share of the last value's; None if too few.

    `said[i]` was said after `frames[i]`; only what came true within the frames counts.
    """
    own: list[Floats] = []
    naive: list[Floats] = []
    known = [{} if frame is None else _targets(frame, targets) for frame in frames]
    for place, each in enumerate(said):
        for worker, ahead in (each or {}).items():
            last = known[place].get(worker)
            for far, told in enumerate(ahead[: len(frames) - place - 1], start=1):
                truth = known[place + far].get(worker)
                if truth is not None and last is not None:
                    own.append(told - truth)
                    naive.append(last - truth)
    if len(own) < _FEWEST_PAIRS:
        return None
    wrong, still = (np.sqrt(np.mean(np.square(each), axis=0)) for each in (own, naive))
    shares: Floats = np.where(still > 0, wrong / np.where(still > 0, still, 1.0), np.where(wrong > 0, np.inf, 1.0))
    return shares


def _targets(frame: MachineFrame, targets: Sequence[str]) -> dict[str, Floats]:
    wanted = set(targets)
    return {
        name: np.array([worker[target] for target in targets])
        for name, worker in frame.workers.items()
        if wanted <= worker.keys()
    }


class WorkerNetProcess:
    """The net in place, what it said, and the one that is being trained."""

    def __init__(
        self, net: WorkerNetSettings, seed: int, first: int, every: int, held: float, folder: Path | None
    ) -> None:
        self.net = replace(net, first_training=_NEVER, retrain_every=0)
        self.seed, self.first, self.every, self.held, self.folder = seed, first, every, held, folder
        self.frames: deque[Frame] = deque(maxlen=net.keep)
        self.said: deque[Said | None] = deque(maxlen=net.keep)
        self.model: Any = None
        self.votes = np.zeros(len(net.targets), dtype=np.bool_)
        self.trainings = 0
        self._since = _NEVER // 2
        self._rival: tuple[Any, list[Said | None], int] | str | None = None
        self._thread: threading.Thread | None = None
        self._seen = 0

    def take(self, number: int, frame: Frame) -> Iterator[dict[str, Any]]:
        """Follow one more frame: what is foreseen after it, and news of a training that has ended."""
        self.frames.append(frame)
        self._since += 1
        self._seen += 1
        ahead = self._answer(frame)
        self.said.append(None if ahead is None else _means(ahead, self.net))
        yield from self.news()
        if self.model is not None and self._seen % _JUDGED_EVERY == 0:
            self._judge()
        if ahead:
            yield _message(number, ahead, self.net, self.votes)
        if self._thread is None and len(self.frames) >= self.first and self._since >= self.every:
            self.train()

    def _answer(self, frame: Frame) -> WorkerForecast | None:
        if self.model is None:
            return None
        self.model.learn([frame])
        found: WorkerForecast = self.model.forecast(self.net.horizon + SLACK)
        return found

    def _judge(self) -> None:
        """Who does worse than the last value has no vote."""
        recent = max(_JUDGED_EVERY * 2, round(self.held * len(self.frames)))
        shares = shares_of_naive(list(self.frames)[-recent:], list(self.said)[-recent:], self.net.targets)
        if shares is not None:
            self.votes = shares < 1

    # ---- training

    def train(self) -> None:
        """Begin to train a rival, in a thread."""
        self._since, self.trainings = 0, self.trainings + 1
        frames, seen = list(self.frames), self._seen
        self._thread = threading.Thread(target=self._fit, args=(frames, seen), daemon=True)
        self._thread.start()

    def _fit(self, frames: list[Frame], seen: int) -> None:
        try:
            from foretide.forecasting.workers.forecaster import WorkerForecaster  # noqa: PLC0415 - of an extra

            held = max(self.net.horizon * 2, round(self.held * len(frames)))
            rival = WorkerForecaster(self.seed + self.trainings, self.net)
            rival.learn(frames[:-held])
            rival.retrain()
            said: list[Said | None] = []
            for frame in frames[-held:]:
                rival.learn([frame])
                said.append(_means(rival.forecast(self.net.horizon), self.net))
            self._rival = (rival, said, seen)
        except NotEnoughHistoryError as error:
            self._rival = f"no net of the workers was trained: {error}"
        except Exception as error:  # noqa: BLE001 - a training that fails must not end the answers
            self._rival = f"training the net of the workers failed: {error!r}"

    def wait(self) -> None:
        """Until the training that is under way has ended."""
        if self._thread is not None:
            self._thread.join()

    def news(self) -> Iterator[dict[str, Any]]:
        """What became of a training that has ended."""
        if self._thread is None or self._thread.is_alive():
            return
        found, self._rival, self._thread = self._rival, None, None
        if isinstance(found, str):
            yield {"problem": found}
        elif found is not None:
            yield {"log": self._settle(*found), "problem": self._keep()}

    def _settle(self, rival: Any, said: list[Said | None], seen: int) -> str:
        """Put the rival in place if it did better on what was held back."""
        since = self._seen - seen
        frames = list(self.frames)
        then = frames[len(frames) - since - len(said) : len(frames) - since]
        own = list(self.said)[len(frames) - since - len(said) : len(frames) - since]
        before, after = (shares_of_naive(then, each, self.net.targets) for each in (own, said))
        if after is None:
            return "retrained workers: too few forecasts came true to judge, kept"
        score = float(np.mean(after))
        if before is not None and not score < float(np.mean(before)):
            return f"retrained workers: error {np.mean(before):.2f} -> {score:.2f} of the last value's, kept"
        for frame in frames[len(frames) - since :]:
            rival.learn([frame])
        self.model, self.votes = rival, after < 1
        place = len(self.said) - since - len(said)
        for offset, each in enumerate(said):
            self.said[place + offset] = each
        was = "" if before is None else f"{np.mean(before):.2f} -> "
        return f"retrained workers: error {was}{score:.2f} of the last value's, replaced"

    # ---- keeping

    def _keep(self) -> str | None:
        if self.folder is None or self.model is None:
            return None
        try:
            save_state(self.folder, self.model.state(), {"model": "workers", "targets": list(self.net.targets)})
        except ForetideError as error:
            return f"the net of the workers cannot be kept: {error}"
        return None

    def restore(self) -> str | None:
        """Go on from a saved net, if there is one; what is wrong with it."""
        if self.folder is None or not (self.folder / "model.json").exists():
            return None
        try:
            from foretide.forecasting.workers.forecaster import WorkerForecaster  # noqa: PLC0415 - of an extra

            state, about = load_state(self.folder)
            if about.get("targets") != list(self.net.targets):
                return "the saved net of the workers is of other targets; it is trained anew"
            model = WorkerForecaster(self.seed, self.net)
            model.restore(state)
        except Exception as error:  # noqa: BLE001 - whatever a damaged folder holds, one starts afresh
            return f"the saved net of the workers cannot be used, it is trained anew: {error}"
        self.model, self._since = model, 0
        return None


def _means(ahead: WorkerForecast, net: WorkerNetSettings) -> Said:
    return {
        worker: np.stack([each[target].mean[: net.horizon] for target in net.targets], axis=1)
        for worker, each in ahead.items()
    }


def _message(number: int, ahead: WorkerForecast, net: WorkerNetSettings, votes: Any) -> dict[str, Any]:
    workers = {
        worker: {
            target: {"mean": each[target].mean.tolist(), "quantiles": each[target].quantiles.tolist()}
            for target in net.targets
        }
        for worker, each in ahead.items()
    }
    told = dict(zip(net.targets, votes.tolist(), strict=True))
    return {"step": number, "by": f"{net.net} net", "workers": workers, "votes": told}


def main() -> None:
    """Answer until the input ends."""
    told = json.loads(sys.stdin.readline())
    os.nice(told["nice"])
    about = told["net"]
    net = WorkerNetSettings(
        **{
            **about,
            "targets": tuple(about["targets"]),
            "process_features": frozenset(about["process_features"]),
            "budget": TrainingBudget(**about["budget"]),
        }
    )
    folder = None if told["folder"] is None else Path(told["folder"])
    oracle = WorkerNetProcess(net, told["seed"], told["first"], told["every"], told["held"], folder)
    _say({"problem": oracle.restore()})
    for line in sys.stdin:
        got = json.loads(line)
        frame = None if got["frame"] is None else MachineFrame(got["frame"]["machine"], got["frame"]["workers"])
        for message in oracle.take(got["step"], frame):
            _say(message)


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
