"""Fits a new model of a load, in a process of its own that stands back behind the pipeline.

    python -m foretide.runtime.forecasts.load_fit FOLDER NICENESS

`lesson.json` in the folder says what to fit; the model is saved beside it, in `model`, and what it said of the values
that were held back in `said.npy`. A process, not a thread: a fit holds Python's lock, takes no heed of a deadline, and
nets grab all cores; a process can be given the least priority, and be ended.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import MODELS, make_mix
from foretide.forecasting.saved import ModelCard, save_model
from foretide.runtime.forecasts.load import LiveLoadForecast, light


def write_lesson(folder: Path, seer: LiveLoadForecast) -> None:
    """Say what is to be fitted."""
    values, held = seer.lesson()
    settings = seer.settings
    about = {
        "values": values, "held": held, "experts": settings.expert_names, "horizons": settings.steps_ahead,
        "seasons": settings.season_steps, "seed": settings.seed, "step": settings.step, "spout": seer.spout,
    }  # fmt: skip
    (folder / "lesson.json").write_text(json.dumps(about), encoding="utf-8")


def fitted(mix: Ensemble, values: Sequence[float | None], held: int) -> Floats:
    """Fit a fresh mix to all but the last `held` values; what it then said after each of those (by horizon)."""
    mix.learn(values[:-held])
    mix.retrain()
    return light(mix).advance(values[-held:]).mean


def main(folder: Path, niceness: int) -> None:
    """Do what the lesson asks for."""
    os.nice(niceness)
    about = json.loads((folder / "lesson.json").read_text(encoding="utf-8"))
    kinds = [MODELS[name] for name in about["experts"]]
    mix = make_mix(about["horizons"], about["seasons"], about["seed"], kinds)
    said = fitted(mix, about["values"], about["held"])
    seasons = None if about["seasons"] is None else tuple(about["seasons"])
    card = ModelCard(mix.name, about["spout"], about["step"], mix.horizons, seasons, about["seed"], mix.count)
    save_model(folder / "model", mix, card)
    np.save(folder / "said.npy", said, allow_pickle=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
