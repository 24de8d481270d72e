"""Models that are trained once, saved, and continued later.

A saved model is a `model.json` with its description and state, and an `.npz` file beside it with the arrays.
`model.json` is replaced last and atomically, and names its arrays by their digest, so a reader finds either the old or
the new model.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretide.codec import from_data
from foretide.control.world.world import Record
from foretide.errors import FileError, ForetideError, ModelFolderError
from foretide.files import atomic_write, read_text
from foretide.forecasting.backtest import roll
from foretide.forecasting.forecaster import Scores, State
from foretide.forecasting.history import LEARNT, calendar_seasons
from foretide.forecasting.load.base import LoadModel
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.lags import LagModel
from foretide.forecasting.load.registry import ENSEMBLE, HORIZONS, make, make_ensemble
from foretide.forecasting.series import Series
from foretide.formatting import finite

FORMAT = 1
MAX_HORIZON = 10_000
MAX_SEASON = 10_000_000
"""The most steps ahead, and of a season."""
_MAX_MODEL_BYTES, _MAX_VALUES, _LONGEST_REASON = 200_000_000, 10**12, 200
_ARRAY = "$array"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The description of a saved model: enough to make it again, and its scores.

    Attributes:
        model: Its name in the registry.
        series: What it was trained on.
        step_seconds: The length of a step, if known.
        horizons: The steps ahead at which it tracks its errors.
        seasons: In steps; None if they are found by each fit.
        seed: The seed of all randomness.
        values: The number of values it has learnt.
        features: The features by model.
        scores: By horizon, out of sample, on the values that were held out.
        last_step: The number of the step that it learnt last, counted from 1970, if known.
        fitted: Whether a live forecast has been fitted by now.
        records: By horizon, the errors of a live forecast and of the last value when it was fitted.
    """

    model: str
    series: str
    step_seconds: float | None
    horizons: tuple[int, ...]
    seasons: tuple[int, ...] | None
    seed: int
    values: int
    features: Mapping[str, list[str]] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    last_step: int | None = None
    fitted: bool = False
    records: Mapping[str, Record] = field(default_factory=dict)


def save_model(folder: Path, model: LoadModel | Ensemble, card: ModelCard) -> None:
    """Save a model in a folder, in place of the one that it holds."""
    members = [member.name for member in model.members] if isinstance(model, Ensemble) else []
    save_state(folder, model.state(), {**asdict(card), "members": members})


def save_state(folder: Path, state: State, about: Mapping[str, Any]) -> None:
    """Save the state of any model in a folder with a description (for JSON), in place of what it holds."""
    arrays: Arrays = {}
    tree = _without_arrays(state, "", arrays)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    name = f"arrays-{digest[:16]}.npz"
    document = {"format": FORMAT, **about, "arrays": name, "sha256": digest, "state": tree}
    try:
        atomic_write(folder / name, packed.getvalue())
        atomic_write(folder / "model.json", json.dumps(document, indent=1))
        for old in folder.glob("arrays-*.npz"):
            if old.name != name:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise ModelFolderError(f"'{folder}' cannot be written: {error.strerror}. Name another folder.") from error


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that no model can be saved in, before one is trained.

    Raises:
        ModelFolderError: It is not a folder, cannot be written or created, or has no valid name.
    """
    try:
        str(folder).encode()
        there = folder.absolute()
        while not there.exists():
            there = there.parent
        with tempfile.TemporaryDirectory(dir=there):
            pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is not valid UTF-8"
        raise ModelFolderError(f"'{folder}' cannot be written: {reason}. Name another folder.") from error


def _check_numbers(state: State) -> None:
    """Refuse a restored state with arrays of anything but numbers, which could not be saved again."""
    arrays: Arrays = {}
    _without_arrays(state, "", arrays)
    if any(array.dtype.hasobject for array in arrays.values()):
        raise ValueError("its state holds something that is not a number")


def load_model(folder: Path) -> tuple[LoadModel | Ensemble, ModelCard]:
    """The model that is saved in a folder.

    Raises:
        ModelFolderError: There is none, it is damaged, or it was saved by another version.
    """
    state, about = load_state(folder)
    try:
        card = _card(about)
        shape = (card.horizons, card.seasons, card.seed)
        model = make_ensemble(*shape, about["members"]) if card.model == ENSEMBLE else make(card.model, *shape)
        model.restore(state)
        _check_numbers(model.state())
    except ModelFolderError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, ForetideError) as error:
        raise _damaged(folder, error) from error
    return model, card


def _damaged(folder: Path, error: Exception) -> ModelFolderError:
    """Name what is missing or wrong, as far as the error tells."""
    what = f"{error} is missing" if isinstance(error, KeyError) else str(error)[:_LONGEST_REASON]
    return ModelFolderError(f"the model in '{folder}' is damaged ({what}); train it again.")


def load_state(folder: Path) -> tuple[State, Mapping[str, Any]]:
    """The state that is saved in a folder, and its description.

    Raises:
        ModelFolderError: There is none, it is damaged, or it was saved by another version.
    """
    about = _about(folder)
    try:
        return _with_arrays(about["state"], _arrays(folder, about)), about
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(folder, error) from error


def _about(folder: Path) -> dict[str, Any]:
    file = folder / "model.json"
    if not os.path.exists(file):  # noqa: PTH110 - False for a name that no file can have
        raise ModelFolderError(f"there is no model in '{folder}'; `foretide train` saves one")
    try:
        about = json.loads(read_text(file, "a saved model", _MAX_MODEL_BYTES))
    except RecursionError:
        raise ModelFolderError(f"'{file}' cannot be read: it is nested too deeply; train the model again.") from None
    except (FileError, ValueError) as error:
        raise ModelFolderError(f"the model in '{folder}' cannot be read ({error}); train it again.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ModelFolderError(f"'{folder}' holds no model of this version (format {FORMAT}); train it again.")
    return about


def _card(about: Mapping[str, Any]) -> ModelCard:
    card = from_data(ModelCard, about)
    bounds = (("horizons", card.horizons, 1, MAX_HORIZON), ("seasons", card.seasons or (), 2, MAX_SEASON))
    for name, values, low, high in bounds:
        if (not values and name == "horizons") or not all(low <= value <= high for value in values):
            raise ValueError(f"{name} must be between {low} and {high:,}")
    if not (0 <= card.values <= _MAX_VALUES and card.seed >= 0):
        raise ValueError(f"values must be between 0 and {_MAX_VALUES:,}, and seed 0 or more")
    for steps, scores in card.scores.items():
        missing = {each.name for each in fields(Scores)} - set(scores)
        if missing:
            raise ValueError(f"scores.{steps} lacks {', '.join(sorted(missing))}")
    return card


def _arrays(folder: Path, about: Mapping[str, Any]) -> Arrays:
    try:
        packed = (folder / Path(about["arrays"]).name).read_bytes()
        if hashlib.sha256(packed).hexdigest() != about["sha256"]:
            raise ModelFolderError(f"the arrays in '{folder}' are not those of its model; train it again.")
        with np.load(io.BytesIO(packed), allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, zipfile.BadZipFile) as error:
        raise ModelFolderError(f"the arrays in '{folder}' cannot be read ({error}); train it again.") from error


def _without_arrays(value: Any, path: str, arrays: Arrays) -> Any:
    """Plain values for JSON, with a name in place of each array."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {_ARRAY: path}
    if isinstance(value, Mapping):
        return {str(key): _without_arrays(item, f"{path}.{key}".lstrip("."), arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(item, f"{path}.{place}", arrays) for place, item in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def _with_arrays(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            return arrays[value[_ARRAY]]
        return {key: _with_arrays(item, arrays) for key, item in value.items()}
    return [_with_arrays(item, arrays) for item in value] if isinstance(value, list) else value


VALIDATION = 0.2
"""The share at the end of a series on which a new model is scored, before it learns it."""

_COMPARED = 50
_CHUNK = 250


def seasons_of(series: Series, given: Sequence[int]) -> tuple[int, ...] | None:
    """Seasons in steps: the given ones, else day and week if the step is known, else None (found by each fit)."""
    if given:
        return tuple(given)
    return None if series.step_seconds is None else calendar_seasons(series.step_seconds)


def train(
    series: Series,
    name: str = ENSEMBLE,
    horizons: Sequence[int] = HORIZONS,
    seasons: Sequence[int] = (),
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[LoadModel | Ensemble, ModelCard]:
    """A new model that has learnt the whole series, with its out-of-sample scores on the last part."""
    chosen = seasons_of(series, seasons)
    model = make(name, horizons, chosen, seed)
    backtest = roll(model, series.values[-LEARNT:], VALIDATION, progress, clock)
    scores = {str(each.steps): finite(asdict(each.scores)) for each in backtest.horizons}
    card = ModelCard(
        model.name, series.name, series.step_seconds, model.horizons, chosen, seed, len(series.values),
        features_of(model), scores, last_step=_last_step(series),
    )  # fmt: skip
    return model, card


_WEIGHED = 1500
"""Values from which a quick ensemble learns weights and intervals, if there are so many."""


def learn_quickly(
    model: LoadModel | Ensemble, values: Sequence[float | None], progress: Callable[[float], None] = lambda _: None
) -> None:
    """Fit a new model once, to all but the last values; from those come the weights and the intervals.

    That takes seconds where learning value by value takes minutes, with a fit at each doubling.
    """
    members = model.members if isinstance(model, Ensemble) else (model,)
    weighed = min(max(_WEIGHED, 3 * max(model.horizons)), len(values) // 3)
    parts = 2 * len(members)
    for place, member in enumerate(members):
        member.know(values[: len(values) - weighed])
        member.retrain()
        progress((place + 1) / parts)
    for start in range(len(values) - weighed, len(values), _CHUNK):
        model.learn(values[start : start + _CHUNK])
        progress(0.5 + 0.5 * min(1.0, (start + _CHUNK) / len(values)))


def continue_training(
    model: LoadModel | Ensemble,
    card: ModelCard,
    series: Series,
    *,
    retrain: bool = True,
    progress: Callable[[float], None] = lambda _: None,
) -> ModelCard:
    """Learn the values that the series has gained since, then fit the model again (warm start).

    Raises:
        ModelFolderError: The series is not the one that the model has learnt, or is shorter.
    """
    with damage_of_saved("learn"):
        _same_series(model, card, series)
        fresh = series.values[card.values :][-LEARNT:]
        for start in range(0, len(fresh), _CHUNK):
            model.learn(fresh[start : start + _CHUNK])
            progress(min(1.0, (start + _CHUNK) / len(fresh)))
        if retrain and fresh:
            model.retrain()
    return replace(card, values=len(series.values), last_step=_last_step(series))


def _last_step(series: Series) -> int | None:
    """The number of the last step of a series, counted from 1970, if its times are known."""
    known = series.last_at is not None and series.step_seconds
    return int((series.last_at or 0.0) // known) if known else None


@contextmanager
def damage_of_saved(doing: str) -> Iterator[None]:
    """Turn what a saved model raises, whose state has the right shape but wrong content, into a ModelFolderError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise ModelFolderError(
            f"the saved model cannot {doing} ({type(error).__name__}: {error}): its state is damaged; train a new model"
        ) from error


def _same_series(model: LoadModel | Ensemble, card: ModelCard, series: Series) -> None:
    known = (model.members[0] if isinstance(model, Ensemble) else model).state()["values"][-_COMPARED:]
    theirs = series.values[: card.values][-len(known) :]
    alike = len(theirs) == len(known) and all(
        value is None or np.isclose(value, own) for value, own in zip(theirs, known, strict=True)
    )
    if not alike:
        raise ModelFolderError(
            f"the model has learnt {card.values} values of '{card.series}', and '{series.name}' does not begin with "
            "them; give the same series with later values, or train a new model"
        )


def features_of(model: LoadModel | Ensemble) -> dict[str, list[str]]:
    """The features of each regression on lags, in words."""
    models = model.members if isinstance(model, Ensemble) else (model,)
    return {each.name: each.feature_names() for each in models if isinstance(each, LagModel)}
