"""The nets that come with Foretide: trained on recordings, so that there are forecasts from the first minute on.

`python -m benchmarks.train_nets` makes them. They are arrays and numbers, and need no JAX.
"""

from __future__ import annotations

from pathlib import Path

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.saved import load_state
from foretide.forecasting.settings import KeyNetSettings, WorkerNetSettings
from foretide.forecasting.worker_model import WorkerModel

FOLDER = Path(__file__).parent / "weights"


def has_pretrained_workers(settings: WorkerNetSettings) -> bool:
    """Whether there is a net for these settings: it sees portable features."""
    return settings.portable and (FOLDER / "workers" / "model.json").exists()


def pretrained_workers(settings: WorkerNetSettings) -> WorkerModel | None:
    """The net for these settings, if its targets and sizes are theirs."""
    if not has_pretrained_workers(settings):
        return None
    state, about = load_state(FOLDER / "workers")
    same = all(about[name] == value for name, value in shape_of(settings).items())
    return WorkerModel.restored(settings, state) if same else None


def pretrained_keys(settings: KeyNetSettings) -> list[Floats] | None:
    """The weights of the net of keys, if they are of that size."""
    if not (FOLDER / "keys" / "model.json").exists():
        return None
    state, about = load_state(FOLDER / "keys")
    return [state[name] for name in sorted(state)] if about["hidden"] == settings.hidden else None


def shape_of(settings: WorkerNetSettings) -> dict[str, object]:
    """What the settings have in common with a net that was trained for them."""
    return {
        "net": settings.net,
        "targets": list(settings.targets),
        "horizon": settings.horizon,
        "hidden": settings.hidden,
        "sigmoid": settings.sigmoid,
        "targets_only": settings.targets_only,
    }
