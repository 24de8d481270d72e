"""The keys of a join, foreseen by a net: windows go to a process (`key_oracle`), which says what comes next."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.forecasting.budget import TrainingBudget
from foretide.forecasting.keys.models import Key, Shares, Window
from foretide.runtime.forecasts.key_process import SIDES, KeyNetRequest, line_of
from foretide.runtime.json_process import JsonProcess, nets_installed

if TYPE_CHECKING:
    from foretide.settings.forecasts import ForecastSettings

MODEL = "key-net"
_KEPT = 600
_RETRAIN_EVERY = 200
_RETRY = 20
_BUDGET = TrainingBudget(seeds=1)


class LiveKeyForecast:
    """Windows in, shares out. Nothing waits for the process; if it ends it is started again some windows later."""

    def __init__(self, settings: ForecastSettings, folder: Path | None, budget: TrainingBudget = _BUDGET) -> None:
        self.settings, self.folder, self.budget = settings, folder, budget
        self.problem: str | None = None
        self._windows: deque[str] = deque(maxlen=_KEPT)
        self._able = settings.keys and nets_installed()
        self._start_at = 0 if self._is_kept() else settings.keys_min_windows
        self._line: JsonProcess | None = None
        self._said: dict[str, Any] | None = None

    def learn(self, number: int, sides: Sequence[Window]) -> None:
        """Hand a window on; the process is started once there are enough of them to learn from."""
        window = line_of(number, [{str(key): rows for key, rows in side.items()} for side in sides])
        self._windows.append(window)
        if self._line is not None and self._line.ended:
            self.problem = f"the process that forecasts a join's keys has ended: {self._line.last_words()}"
            self._start_at = number + _RETRY
            self.close()
        if self._line is not None:
            self._line.send(window)
        elif self._able and number >= self._start_at:
            self._begin()

    def expected(self, number: int) -> list[Shares] | None:
        """The shares of both sides after a window; None while they are not known, or only those after another one."""
        said = self._said
        if said is None or said["window"] != number:
            return None
        return [{_key(name): share for name, share in side.items()} for side in said["shares"]]

    def is_awaited(self, number: int) -> bool:
        """Whether an answer to a window should come in a moment: the one to the window before it was in time."""
        said = self._said
        return self._line is not None and said is not None and said["window"] == number - 1

    def close(self) -> None:
        """End the process."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _begin(self) -> None:
        self._line = JsonProcess([sys.executable, "-m", "foretide.runtime.forecasts.key_process"], self._heard)
        self._line.send(self._order())
        for window in self._windows:
            self._line.send(window)

    def _order(self) -> str:
        settings = self.settings
        return KeyNetRequest(
            settings.keys_min_windows,
            _RETRAIN_EVERY,
            settings.seed,
            settings.niceness,
            None if self.folder is None else str(self.folder),
            self.budget,
        ).line()

    def _is_kept(self) -> bool:
        return self.folder is not None and all((self.folder / side / "model.json").exists() for side in SIDES)

    def _heard(self, message: dict[str, Any]) -> None:
        """From the thread that reads."""
        if "shares" in message:
            self._said = message
        if "problem" in message:
            self.problem = message["problem"]


def _key(name: str) -> Key:
    """Keys are hashes, but for the one that stands for all others."""
    return int(name) if name.lstrip("-").isdigit() else name
