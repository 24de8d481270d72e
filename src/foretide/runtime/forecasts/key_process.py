"""Forecasts the keys of a join by a net, in a process of its own that stands back behind the pipeline.

    python -m foretide.runtime.forecasts.key_process

The first line on the standard input says what is asked for, each further one is a window: rows by key on both sides.
Once a net is trained, the shares that it expects in the next window come back as lines of JSON. While it trains,
windows wait; an answer that comes too late for its window counts for nothing. The pipeline's own process never loads
JAX.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretide.errors import ForecastError
from foretide.forecasting.budget import TrainingBudget
from foretide.forecasting.saved import load_state, save_state

SIDES = ("left", "right")
_TOLD = 200
Window = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class KeyNetRequest:
    """What is asked for: when and how long nets train, the seed of randomness, niceness, and where they are kept."""

    first_training: int
    retrain_every: int
    seed: int
    niceness: int
    folder: str | None
    budget: TrainingBudget

    def line(self) -> str:
        """As the first line."""
        return json.dumps(asdict(self))

    @classmethod
    def of_line(cls, line: str) -> KeyNetRequest:
        """What a first line asks for."""
        told = json.loads(line)
        return cls(**{**told, "budget": TrainingBudget(**told["budget"])})


def line_of(number: int, sides: Sequence[Window]) -> str:
    """A window as a line."""
    return json.dumps({"window": number, "sides": [dict(side) for side in sides]})


class KeyNetProcess:
    """A net for each side of the join."""

    def __init__(self, order: KeyNetRequest) -> None:
        from foretide.forecasting.keys.forecaster import KeyNet, KeyNetSettings  # noqa: PLC0415 - of an extra

        settings = KeyNetSettings(
            first_training=order.first_training, retrain_every=order.retrain_every, budget=order.budget
        )
        self.nets: tuple[Any, ...] = tuple(KeyNet(order.seed + at, settings) for at in range(len(SIDES)))
        self.folder = None if order.folder is None else Path(order.folder)

    def restore(self) -> Iterator[dict[str, Any]]:
        """Go on from what was kept, if there is something."""
        if self.folder is None or not all((self.folder / side / "model.json").exists() for side in SIDES):
            return
        try:
            for side, net in zip(SIDES, self.nets, strict=True):
                net.restore(load_state(self.folder / side)[0])
        except Exception as error:  # noqa: BLE001 - whatever a damaged folder holds, one starts afresh
            yield {"problem": f"kept nets of keys cannot be used, they are trained anew: {error}"}

    def take(self, number: int, sides: Sequence[Window]) -> Iterator[dict[str, Any]]:
        """Follow one more window: the shares that are expected next, and news of a training."""
        before = [net.trainings for net in self.nets]
        problem = None
        for net, side in zip(self.nets, sides, strict=True):
            try:
                net.learn([dict(side)])
            except ForecastError as error:
                problem = f"the net of a join's keys cannot learn a window: {error}"
        if [net.trainings for net in self.nets] != before:
            problem = problem or self._keep()
        if all(net.trainings for net in self.nets):
            yield {"window": number, "shares": [_most_frequent(net) for net in self.nets]}
        yield {"problem": problem}

    def _keep(self) -> str | None:
        if self.folder is None:
            return None
        try:
            for side, net in zip(SIDES, self.nets, strict=True):
                save_state(self.folder / side, net.state(), {"model": net.name})
        except ForecastError as error:
            return f"the nets of a join's keys cannot be kept: {error}"
        return None


def _most_frequent(net: Any) -> dict[str, float]:
    expected = net.forecast(1)[0]
    shares = expected.shares()
    return {str(key): shares[key] for key in expected.top(_TOLD)}


def main() -> None:
    """Answer until the input ends."""
    order = KeyNetRequest.of_line(sys.stdin.readline())
    os.nice(order.niceness)
    oracle = KeyNetProcess(order)
    for message in oracle.restore():
        _say(message)
    for line in sys.stdin:
        told = json.loads(line)
        for message in oracle.take(told["window"], told["sides"]):
            _say(message)


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
