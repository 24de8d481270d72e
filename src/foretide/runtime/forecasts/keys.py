"""Live forecasts of the keys of a join, by a net in a process of its own: the pipeline itself never loads JAX.

    python -m foretide.runtime.forecasts.keys

The first line on the standard input is a `KeyNetRequest`, each further one a window: rows by key on both sides. Each
answer is the shares that the nets expect in the next window: those of an earlier run, else those that come with
Foretide. With JAX they are trained further; meanwhile windows wait, and an answer that comes after its window is over
is ignored.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foretide.errors import ForecastError
from foretide.forecasting.key_models import Key, Shares, Window
from foretide.forecasting.key_net import KeyNet
from foretide.forecasting.pretrained import pretrained_keys
from foretide.forecasting.saved import load_state, save_state
from foretide.forecasting.settings import KeyNetSettings, TrainingBudget, nets_installed
from foretide.runtime.processes import JsonProcess, Message, serve

if TYPE_CHECKING:
    from foretide.settings.forecasts import ForecastSettings

MODEL = "key-net"
COMMAND = (sys.executable, "-m", "foretide.runtime.forecasts.keys")
_SIDES = ("left", "right")
_KEEP_WINDOWS = 600
_RETRAIN_EVERY_WINDOWS = 200
_RETRY_WINDOWS = 20
_MAX_KEYS = 200
_BUDGET = TrainingBudget(seeds=1)


def _is_saved(folder: Path | None) -> bool:
    return folder is not None and all((folder / side / "model.json").exists() for side in _SIDES)


class LiveKeyForecast:
    """Sends windows to the process, and returns its forecasts. Nothing waits for it."""

    def __init__(self, settings: ForecastSettings, folder: Path | None, budget: TrainingBudget = _BUDGET) -> None:
        self.settings, self.folder = settings, folder
        self.process = JsonProcess("a join's keys", COMMAND, self._on_message, _RETRY_WINDOWS)
        self._windows: deque[Message] = deque(maxlen=_KEEP_WINDOWS)
        self._net = KeyNetSettings(
            first_training=settings.keys_min_windows if nets_installed() else 0,
            retrain_every=_RETRAIN_EVERY_WINDOWS if nets_installed() else 0,
            budget=budget,
        )
        self._weights = pretrained_keys(self._net) if settings.pretrained else None
        is_trained = _is_saved(folder) or self._weights is not None
        self._able = settings.keys and (is_trained or nets_installed())
        self._first_window = 0 if is_trained else settings.keys_min_windows
        self._answer: Message | None = None

    @property
    def problem(self) -> str | None:
        """Why keys are not forecast at present."""
        return self.process.problem

    def learn(self, number: int, sides: Sequence[Window]) -> None:
        """Send a window; the process is started once there are enough of them."""
        window: Message = {
            "window": number,
            "sides": [{str(key): rows for key, rows in side.items()} for side in sides],
        }
        self._windows.append(window)
        may_start = self.process.may_start(number)
        self.process.send(window)
        if may_start and self._able and number >= self._first_window:
            self.process.start(self._request())
            for each in self._windows:
                self.process.send(each)

    def expected(self, number: int) -> list[Shares] | None:
        """The forecast shares of both sides after a window; None while there is no answer to that window."""
        answer = self._answer
        if answer is None or answer["window"] != number:
            return None
        return [{_key(name): share for name, share in side.items()} for side in answer["shares"]]

    def is_awaited(self, number: int) -> bool:
        """Whether an answer to a window should come soon: the one to the window before it was in time."""
        answer = self._answer
        return self.process.started and answer is not None and answer["window"] == number - 1

    def close(self) -> None:
        """End the process."""
        self.process.close()

    def _request(self) -> KeyNetRequest:
        settings = self.settings
        return KeyNetRequest(self._net, settings.seed, settings.niceness, self.folder, settings.pretrained)

    def _on_message(self, message: Message) -> None:
        """From the thread that reads."""
        if "shares" in message:
            self._answer = message


def _key(name: str) -> Key:
    """Keys are hashes, except for the one that stands for all others."""
    return int(name) if name.lstrip("-").isdigit() else name


# ---- the process


@dataclass(frozen=True, slots=True)
class KeyNetRequest:
    """What the process is to do: the nets, the seed of randomness, its niceness, and where the nets are saved.

    `pretrained` is whether they begin with the weights that come with Foretide.
    """

    net: KeyNetSettings
    seed: int
    niceness: int
    folder: Path | None
    pretrained: bool = True


class KeyNetProcess:
    """A net for each side of the join."""

    def __init__(self, request: KeyNetRequest) -> None:
        self.folder = request.folder
        weights = pretrained_keys(request.net) if request.pretrained else None
        self.nets = tuple(KeyNet(request.seed + at, request.net, weights) for at in range(len(_SIDES)))

    def restore(self) -> Iterator[Message]:
        """Continue with saved nets, if there are some."""
        if self.folder is None or not _is_saved(self.folder):
            return
        try:
            for side, net in zip(_SIDES, self.nets, strict=True):
                net.restore(load_state(self.folder / side)[0])
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the folder, new nets are trained
            yield {"problem": f"the saved nets of a join's keys cannot be used, new ones are trained: {error}"}

    def answer(self, message: Message) -> Iterator[Message]:
        """Learn a window; returns the shares that are expected next, and what went wrong."""
        before = [net.trainings for net in self.nets]
        problem = None
        for net, side in zip(self.nets, message["sides"], strict=True):
            try:
                net.learn([side])
            except ForecastError as error:
                problem = f"the net of a join's keys cannot learn a window: {error}"
        if [net.trainings for net in self.nets] != before:
            problem = problem or self._save()
        if all(net.weights is not None for net in self.nets):
            yield {"window": message["window"], "shares": [_most_frequent(net) for net in self.nets]}
        yield {"problem": problem}

    def _save(self) -> str | None:
        if self.folder is None:
            return None
        try:
            for side, net in zip(_SIDES, self.nets, strict=True):
                save_state(self.folder / side, net.state(), {"model": net.name})
        except ForecastError as error:
            return f"the nets of a join's keys cannot be saved: {error}"
        return None


def _most_frequent(net: KeyNet) -> Mapping[str, float]:
    expected = net.forecast(1)[0]
    shares = expected.shares()
    return {str(key): shares[key] for key in expected.top(_MAX_KEYS)}


if __name__ == "__main__":
    serve(KeyNetRequest, KeyNetProcess)
