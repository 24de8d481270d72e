"""Fits of an ensemble in another process.

    python -m foretide.runtime.forecasts.load_fit FOLDER NICENESS

`request.json` in the folder says what to fit; the ensemble is saved beside it in `model`, and its forecasts of the
held-out values in `forecasts.npy`. A process, not a thread: a fit holds Python's lock and cannot be interrupted, and a
process can be given low priority and be killed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import ENSEMBLE, make_ensemble
from foretide.forecasting.saved import ModelCard, save_model
from foretide.runtime.processes import end_with_parent


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What a fit process is to fit: the values, of which the last `held_out` only score the new ensemble."""

    spout: str
    values: list[float | None]
    held_out: int
    members: tuple[str, ...]
    horizons: tuple[int, ...]
    seasons: tuple[int, ...] | None
    seed: int
    step: float

    def write(self, folder: Path) -> None:
        """Write it where `main` reads it."""
        (folder / "request.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


def without_fits(ensemble: Ensemble) -> Ensemble:
    """The same ensemble, whose members are no longer fitted while they learn."""
    for member in ensemble.members:
        member.refit_every = 0
    return ensemble


def fit_command(folder: Path, niceness: int) -> Sequence[str]:
    """The command that runs a fit."""
    return [sys.executable, "-m", "foretide.runtime.forecasts.load_fit", str(folder), str(niceness)]


def fit(ensemble: Ensemble, values: Sequence[float | None], held_out: int) -> Floats:
    """Fit a new ensemble; returns its forecasts after each of the last `held_out` values, made without these."""
    ensemble.learn(values[:-held_out])
    ensemble.retrain()
    means = without_fits(ensemble).advance(values[-held_out:]).mean
    ensemble.retrain()
    return means


def main(folder: Path, niceness: int) -> None:
    """Run the fit that `request.json` asks for."""
    os.nice(niceness)
    request = TypeAdapter(FitRequest).validate_json((folder / "request.json").read_bytes())
    ensemble = make_ensemble(request.horizons, request.seasons, request.seed, request.members)
    means = fit(ensemble, request.values, request.held_out)
    card = ModelCard(
        ENSEMBLE, request.spout, request.step, ensemble.horizons, request.seasons, request.seed, ensemble.count
    )
    save_model(folder / "model", ensemble, card)
    np.save(folder / "forecasts.npy", means, allow_pickle=False)


if __name__ == "__main__":
    end_with_parent(Path(sys.argv[1]))
    main(Path(sys.argv[1]), int(sys.argv[2]))
