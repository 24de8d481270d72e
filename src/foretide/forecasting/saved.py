"""A saved model: `model.json` says what it is and what it remembers, an `.npz` beside it holds the arrays.

`model.json` is put in place last and all at once, and names its arrays by their digest, so a reader finds the old
model or the new one, never a part of each.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretide.errors import ForecastError, ModelFolderError
from foretide.files import atomic_write
from foretide.forecasting.forecaster import State
from foretide.forecasting.load.base import LoadModel
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import MODELS, make, make_mix

FORMAT = 1
_ARRAY = "$array"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a saved model is: enough to make it again, and to judge it.

    Attributes:
        model: Its name in the catalogue.
        series: What it was trained on.
        step_seconds: The length of a step, if known.
        horizons: The steps ahead at which it watches its errors.
        seasons: In steps; None if they were to be found out.
        seed: Of everything random.
        values: How many values it has learnt.
        features: What it looks at, by model.
        scores: By horizon, on the values that were held back (out of sample).
        last_step: The number of the step that it learnt last, counted from 1970, if known.
    """

    model: str
    series: str
    step_seconds: float | None
    horizons: tuple[int, ...]
    seasons: tuple[int, ...] | None
    seed: int
    values: int
    features: Mapping[str, list[str]] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    last_step: int | None = None


def save_model(folder: Path, model: LoadModel | Ensemble, card: ModelCard) -> None:
    """Put a model in place of what the folder held."""
    experts = [expert.name for expert in model.experts] if isinstance(model, Ensemble) else []
    save_state(folder, model.state(), {**asdict(card), "experts": experts})


def save_state(folder: Path, state: State, told: Mapping[str, Any]) -> None:
    """Put the state of any model in place of what the folder held, and beside it what is told of it (for JSON)."""
    arrays: Arrays = {}
    tree = _split(state, "", arrays)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    name = f"arrays-{digest[:16]}.npz"
    about = {"format": FORMAT, **told, "arrays": name, "sha256": digest, "state": tree}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / name, packed.getvalue())
        atomic_write(folder / "model.json", json.dumps(about, indent=1).encode())
        for old in folder.glob("arrays-*.npz"):
            if old.name != name:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise ModelFolderError(f"'{folder}' cannot be written: {error}. Name another folder.") from error


def load_model(folder: Path) -> tuple[LoadModel | Ensemble, ModelCard]:
    """The model that was saved there, as it was.

    Raises:
        ModelFolderError: There is none, it is damaged, or it was saved by another version.
    """
    about = _about(folder)
    try:
        card = _card(about)
        model = _fresh(card, about["experts"])
        model.restore(_joined(about["state"], _arrays(folder, about)))
    except (KeyError, TypeError, ValueError, IndexError, ForecastError) as error:
        if isinstance(error, ModelFolderError):
            raise
        raise ModelFolderError(f"the model in '{folder}' is damaged ({error!r}); train it again.") from error
    return model, card


def load_state(folder: Path) -> tuple[State, Mapping[str, Any]]:
    """The state that was saved there, and what was told of it.

    Raises:
        ModelFolderError: There is none, it is damaged, or it was saved by another version.
    """
    about = _about(folder)
    try:
        return _joined(about["state"], _arrays(folder, about)), about
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFolderError(f"the model in '{folder}' is damaged ({error!r}); train it again.") from error


def _fresh(card: ModelCard, experts: list[str]) -> LoadModel | Ensemble:
    if card.model == Ensemble.name:
        return make_mix(card.horizons, card.seasons, card.seed, [MODELS[name] for name in experts])
    return make(card.model, card.horizons, card.seasons, card.seed)


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFolderError(f"there is no model in '{folder}'; `foretide train` saves one.") from None
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"the model in '{folder}' cannot be read ({error}); train it again.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ModelFolderError(f"'{folder}' holds no model of this version (format {FORMAT}); train it again.")
    return about


def _card(about: Mapping[str, Any]) -> ModelCard:
    kept = {name: about[name] for name in ModelCard.__dataclass_fields__ if name != "last_step"}
    seasons = kept["seasons"]
    kept |= {"horizons": tuple(kept["horizons"]), "seasons": None if seasons is None else tuple(seasons)}
    return ModelCard(**kept, last_step=about.get("last_step"))


def _arrays(folder: Path, about: Mapping[str, Any]) -> Arrays:
    try:
        packed = (folder / Path(about["arrays"]).name).read_bytes()
        if hashlib.sha256(packed).hexdigest() != about["sha256"]:
            raise ModelFolderError(f"the arrays in '{folder}' are not those of its model; train it again.")
        with np.load(io.BytesIO(packed), allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, zipfile.BadZipFile) as error:
        raise ModelFolderError(f"the arrays in '{folder}' cannot be read ({error}); train it again.") from error


def _split(value: Any, path: str, arrays: Arrays) -> Any:
    """Plain values for JSON, with a name in place of each array."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {_ARRAY: path}
    if isinstance(value, Mapping):
        return {str(key): _split(item, f"{path}.{key}".lstrip("."), arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_split(item, f"{path}.{place}", arrays) for place, item in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def _joined(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            return arrays[value[_ARRAY]]
        return {key: _joined(item, arrays) for key, item in value.items()}
    return [_joined(item, arrays) for item in value] if isinstance(value, list) else value
