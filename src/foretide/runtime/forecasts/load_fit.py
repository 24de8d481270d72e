"""Fits of an ensemble in another process.

    python -m foretide.runtime.forecasts.load_fit FOLDER NICENESS

`request.json` in the folder says what to fit; the ensemble is saved beside it in `model`, and its forecasts of the
held-out values in `forecasts.npy`. Models that save too little for their CPU time are left out, and named in
`left_out.json`. A process, not a thread: a fit holds Python's lock and cannot be interrupted, and a
process can be given low priority and be killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.load.base import Issued
from foretide.forecasting.load.earned import Earned, earned
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import ENSEMBLE, make_ensemble
from foretide.forecasting.saved import ModelCard, save_model
from foretide.runtime.processes import end_with_parent

LEFT_OUT = "left_out.json"


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
    min_gain: float = 0.0

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


@dataclass(frozen=True, slots=True)
class Fitted:
    """A newly fitted ensemble, its forecasts after each held-out value, made without these, and who is not in it."""

    ensemble: Ensemble
    means: Floats
    left_out: tuple[Earned, ...]


def fit(
    ensemble: Ensemble,
    values: Sequence[float | None],
    held_out: int,
    min_gain: float = 0.0,
    cpu_clock: Callable[[], float] = time.process_time,
) -> Fitted:
    """Fit a new ensemble, score it on the last values, leave models out that are not worth their fit, and fit again."""
    learnt, later = values[:-held_out], values[-held_out:]
    before, seconds = list[Issued](), list[float]()
    for member in ensemble.members:
        begun = cpu_clock()
        before.append(member.advance(learnt))
        member.retrain()
        seconds.append(cpu_clock() - begun)
    after = [member.advance(later) for member in without_fits(ensemble).members]
    ensemble.combine(learnt, before)
    means = ensemble.combine(later, after).mean
    names = [member.name for member in ensemble.members]
    each = earned(names, after, ensemble.weights_of_mean, seconds, later, ensemble.horizons)
    left_out = tuple(one for one in each if not one.worth(min_gain))
    if left_out:
        kept = [place for place, name in enumerate(names) if name not in {one.name for one in left_out}]
        ensemble = Ensemble([ensemble.members[place] for place in kept])
        ensemble.combine(learnt, [before[place] for place in kept])
        means = ensemble.combine(later, [after[place] for place in kept]).mean
    ensemble.retrain()
    return Fitted(ensemble, means, left_out)


def main(folder: Path, niceness: int) -> None:
    """Run the fit that `request.json` asks for."""
    os.nice(niceness)
    request = TypeAdapter(FitRequest).validate_json((folder / "request.json").read_bytes())
    fresh = make_ensemble(request.horizons, request.seasons, request.seed, request.members)
    fitted = fit(fresh, request.values, request.held_out, request.min_gain)
    ensemble = fitted.ensemble
    card = ModelCard(
        ENSEMBLE, request.spout, request.step, ensemble.horizons, request.seasons, request.seed, ensemble.count
    )
    save_model(folder / "model", ensemble, card)
    np.save(folder / "forecasts.npy", fitted.means, allow_pickle=False)
    (folder / LEFT_OUT).write_text(json.dumps([asdict(one) for one in fitted.left_out]), encoding="utf-8")


def left_out_by(folder: Path) -> tuple[Earned, ...]:
    """The models that the fit in a folder has left out."""
    return TypeAdapter(tuple[Earned, ...]).validate_json((folder / LEFT_OUT).read_bytes())


if __name__ == "__main__":
    end_with_parent(Path(sys.argv[1]))
    main(Path(sys.argv[1]), int(sys.argv[2]))
