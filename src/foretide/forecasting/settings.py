"""Settings of the nets, and the packages that they need. Imports neither NumPy nor JAX."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec

NET_PACKAGES = ("jax", "equinox", "optax")
NETS = ("interference", "plain", "flat")
MISSING_PACKAGES = "nets need JAX, Equinox and Optax: pip install 'foretide[forecast]'"


def nets_installed() -> bool:
    """Whether the packages that nets need are installed."""
    return all(map(find_spec, NET_PACKAGES))


@dataclass(frozen=True, slots=True)
class TrainingBudget:
    """How long a net trains: the same for every net of a comparison.

    Attributes:
        seeds: Nets that are trained from different seeds.
        kept: Nets that are kept, those with the lowest validation loss; of several the mean is the forecast.
        epochs: Maximum number of epochs; the validation loss is computed after each.
        steps: Gradient steps in an epoch.
        patience: Epochs without a lower validation loss after which training stops.
        rate: The initial learning rate of Adam; it decays to a tenth.
        decay: Weight decay.
        validation: The share of the history that is held out for validation.
    """

    seeds: int = 3
    kept: int = 1
    epochs: int = 60
    steps: int = 20
    patience: int = 12
    rate: float = 4e-3
    decay: float = 1e-4
    validation: float = 0.2


@dataclass(frozen=True, slots=True)
class WorkerNetSettings:
    """The net that forecasts workers, its targets, and how it is trained.

    Attributes:
        net: 'interference' (two tiers), or one of its ablations: 'plain' (a worker alone), 'flat' (all side by side).
        targets: The features of a worker that are forecast; they are never negative.
        process_features: Features of a worker with one scale for the whole machine; others have a scale per worker.
        portable: Learn from the features of `portable_features` only, whose scale suits workers that were never seen.
        horizon: Steps ahead that are learnt; beyond them the forecast is constant and its intervals widen.
        hidden: Hidden units of each GRU layer.
        sigmoid: Forecast the level through a sigmoid, as in the paper, not the change from the last value.
        targets_only: Let tier 2 see the targets of a worker only, as in the paper, not all features of that worker.
        first_training: Steps of history before the first training; until then the last value is the forecast.
        retrain_every: Steps after which training continues from the present weights; 0 leaves that to `retrain`.
        keep: Maximum number of steps that are remembered.
        budget: How long to train.
    """

    net: str = "interference"
    targets: tuple[str, ...] = ("cpu", "sending_time", "queuing_time")
    process_features: frozenset[str] = frozenset({"cpu"})
    portable: bool = False
    horizon: int = 6
    hidden: int = 24
    sigmoid: bool = False
    targets_only: bool = False
    first_training: int = 120
    retrain_every: int = 720
    keep: int = 2160
    budget: TrainingBudget = field(default_factory=TrainingBudget)

    def __post_init__(self) -> None:
        if self.net not in NETS:
            raise ValueError(f"net must be one of {', '.join(NETS)}, got '{self.net}'")
        if not self.targets:
            raise ValueError("targets must name at least one feature")
        for name in ("horizon", "hidden", "first_training", "keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class KeyNetSettings:
    """The net that forecasts the keys of a stream, and how it is trained.

    Attributes:
        candidates: Keys that are forecast, the most frequent recent ones; all others together are one more.
        lookback: Windows that the encoder reads.
        horizon: Windows ahead that are learnt; beyond them the forecast is constant.
        hidden: Hidden units of encoder and decoder.
        first_training: Windows before the first training; until then an EWMA is the forecast.
        retrain_every: Windows after which training continues from the present weights; 0 leaves that to `retrain`.
        keep: Maximum number of windows that are remembered.
        budget: How long to train.
    """

    candidates: int = 100
    lookback: int = 16
    horizon: int = 3
    hidden: int = 16
    first_training: int = 60
    retrain_every: int = 200
    keep: int = 600
    budget: TrainingBudget = field(default_factory=lambda: TrainingBudget(seeds=2))
