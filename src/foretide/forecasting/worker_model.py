"""A trained net for workers: its weights, its scales, and its errors. Only training needs JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretide.errors import EnvironmentNotReadyError
from foretide.forecasting.forecaster import LEVELS, Floats, State
from foretide.forecasting.settings import MISSING_PACKAGES, WorkerNetSettings
from foretide.forecasting.worker_frames import MachineFrame, Row, WorkerHistory, WorkerScale, slots_for, stacked
from foretide.forecasting.worker_steps import NetState, StepNet

Frames = Sequence[MachineFrame | None]


@dataclass(frozen=True)
class WorkerModel:
    """One or several nets whose mean is the forecast.

    Attributes:
        nets: The nets.
        scales: The scale of each machine that was learnt from, and under "" the one for all others.
        errors: Quantiles of the errors, scaled: levels x steps x targets.
    """

    nets: tuple[StepNet, ...]
    scales: Mapping[str, WorkerScale]
    errors: Floats

    @classmethod
    def trained(
        cls,
        settings: WorkerNetSettings,
        machines: Mapping[str, Frames],
        seed: tuple[int, int],
        before: WorkerModel | None = None,
    ) -> WorkerModel:
        """Train on the histories of some machines, from the weights of the model `before` where they fit.

        The scale of portable features is kept, so that what was learnt elsewhere still holds.
        """
        try:
            from foretide.forecasting.worker_training import train  # noqa: PLC0415 - of an extra
        except ImportError as missing:
            raise EnvironmentNotReadyError(MISSING_PACKAGES) from missing
        scales = before.scales if before and settings.portable else _scales(settings, machines)
        rows = [_rows(frames, scales.get(name, scales[""])) for name, frames in machines.items()]
        weights = [net.weights for net in before.nets] if before else []
        found = train(settings, rows, seed, weights)
        errors = np.array([[_quantiles(each) for each in step] for step in found.errors])
        nets = tuple(StepNet(settings, each) for each in found.weights)
        return cls(nets, scales, np.moveaxis(errors, 2, 0))

    def scale_of(self, machine: str) -> WorkerScale:
        """The scale of a machine."""
        return self.scales.get(machine, self.scales[""])

    def start(self, slots: int) -> tuple[NetState, ...]:
        """The states before anything was seen."""
        return tuple(net.start(slots) for net in self.nets)

    def step(self, states: Sequence[NetState], row: Row) -> tuple[tuple[NetState, ...], Floats]:
        """The states after a step, and the scaled targets ahead: slots x steps x targets."""
        found = [net.step(state, row) for net, state in zip(self.nets, states, strict=True)]
        return tuple(state for state, _ in found), np.mean([ahead for _, ahead in found], axis=0, dtype=np.float64)

    def state(self) -> dict[str, Any]:
        """As lists and arrays."""
        kept: dict[str, Any] = {"machines": list(self.scales), "nets": len(self.nets), "errors": self.errors}
        for at, net in enumerate(self.nets):
            kept |= {f"net{at}_weight{place:02}": each for place, each in enumerate(net.weights)}
        for at, scale in enumerate(self.scales.values()):
            kept |= {f"scale{at}_{name}": each for name, each in scale.state().items()}
        return kept

    @classmethod
    def restored(cls, settings: WorkerNetSettings, state: State) -> WorkerModel:
        """The model of a saved state."""
        nets = [_series(state, f"net{at}_weight") for at in range(int(state["nets"]))]
        scales = {
            name: WorkerScale.restored(with_prefix(state, f"scale{at}_")) for at, name in enumerate(state["machines"])
        }
        return cls(tuple(StepNet(settings, each) for each in nets), scales, np.asarray(state["errors"]))


def with_prefix(state: State, prefix: str) -> dict[str, Any]:
    """The part of a state whose names begin so, without that."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _scales(settings: WorkerNetSettings, machines: Mapping[str, Frames]) -> dict[str, WorkerScale]:
    """A scale for each machine, as the paper has it, and one for all together; for portable features only that."""

    def scale(frames: Frames, like: WorkerScale | None = None) -> WorkerScale:
        return WorkerScale.of(WorkerHistory.of(frames), settings.targets, settings.process_features, like)

    everywhere = scale([frame for frames in machines.values() for frame in frames])
    if settings.portable:
        return {"": everywhere.for_anyone()}
    own = machines if len(machines) > 1 else {}
    return {"": everywhere} | {name: scale(frames, everywhere) for name, frames in own.items()}


def _rows(frames: Frames, scale: WorkerScale) -> Row:
    slots = slots_for(scale, frames)
    return stacked([slots.take(frame) for frame in frames])


def _quantiles(errors: Floats) -> Floats:
    return np.quantile(errors, LEVELS) if len(errors) else np.zeros(len(LEVELS))


def _series(state: Mapping[str, Any], prefix: str) -> list[Floats]:
    return [np.asarray(state[name], dtype=np.float64) for name in sorted(state) if name.startswith(prefix)]
