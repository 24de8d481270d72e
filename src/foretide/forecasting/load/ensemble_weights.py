"""The weights of a mix, from the errors its experts have made: for each horizon, once for the mean, once for the rest.

- Quantiles: weights fall exponentially with the recent average loss. The loss is the pinball loss of logarithms, a
  proper score that no spike can dominate.
- Mean: half from ML-Poly (Gaillard, Stoltz and van Erven, 2014), which is never much worse than the best expert, half
  from the weights whose mixed squared error would have been smallest, which use that experts err differently.
- The last value alone, where the mix was worse than it by more than chance explains.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foretide.forecasting.forecaster import LEVELS, Floats, State
from foretide.forecasting.history import Mask

RECENT = 0.998
"""What an error weighs after one more step: about the last 500 steps count."""

_LONG = 0.9995
_LONGEST = 0.9999
_SHARPNESS = 30.0
_FEWEST = 30.0
_STEPS_BETWEEN = 16
_ITERATIONS = 40
_FLOOR = 1e-3
_CLEARLY = 2.0
_BY_HORIZON = (
    "seen", "largest", "mixed_loss", "mean_excess", "mean_excess_squares", "quantile_excess", "quantile_excess_squares",
)  # fmt: skip


def log_pinball(truth: Floats, quantiles: Floats) -> Floats:
    """The pinball loss of logarithms, averaged over levels (the last axis of `quantiles`)."""
    errors = np.log1p(truth)[..., None] - np.log1p(quantiles)
    loss: Floats = np.maximum(LEVELS * errors, (LEVELS - 1) * errors).mean(axis=-1)
    return loss


@dataclass
class Weights:
    """Online weights of experts at some horizons. Expert 0 is the last value, to fall back to.

    All arrays are horizons x experts, but for `products` (horizons x experts x experts) and those by horizon alone:
    `seen`, `largest`, and for the losses of the mix in excess of the last value's their sum and sum of squares.
    """

    horizons: int
    experts: int
    arrays: dict[str, Floats] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        shape = (self.horizons, self.experts)
        names = ("loss", "square", "regret", "regret_squares")
        self.arrays = self.arrays or {
            **{name: np.zeros(shape) for name in names},
            "products": np.zeros((*shape, self.experts)),
            "stacked": np.full(shape, 1 / self.experts),
            **{name: np.zeros(self.horizons) for name in _BY_HORIZON},
        }

    # ---- taking errors in

    def update(self, known: Mask, error: Floats, loss: Floats, mixed_error: Floats, mixed_loss: Floats) -> None:
        """What the value that just came says about the forecasts of it, where there were any (`known`, by horizon).

        Args:
            known: By horizon, whether there was a forecast and the value is no gap.
            error: Mean less truth of each expert, horizons x experts.
            loss: Of the quantiles of each expert, horizons x experts.
            mixed_error: Of the mix itself, before any fall-back.
            mixed_loss: Likewise.
        """
        self.steps += 1
        if not known.any():
            return
        held, new = self.arrays, known.astype(np.float64)
        recent, long, longest = (1 - (1 - factor) * new for factor in (RECENT, _LONG, _LONGEST))
        for name, value in (("loss", loss), ("square", error**2)):
            held[name] = recent[:, None] * held[name] + new[:, None] * value
        held["mixed_loss"] = recent * held["mixed_loss"] + new * mixed_loss
        held["seen"] = recent * held["seen"] + new
        for name, excess in (("mean", mixed_error**2 - error[:, 0] ** 2), ("quantile", mixed_loss - loss[:, 0])):
            held[f"{name}_excess"] = long * held[f"{name}_excess"] + new * excess
            held[f"{name}_excess_squares"] = long * held[f"{name}_excess_squares"] + new * excess**2
        products = (new[:, None] * error)[:, :, None] * error[:, None, :]
        held["products"] = longest[:, None, None] * held["products"] + products
        self._regrets(new, error, mixed_error)

    def _regrets(self, new: Floats, error: Floats, mixed: Floats) -> None:
        """How much better each expert would have been than the mix, by the slope of the squared error."""
        held = self.arrays
        regret = (2 * new * mixed)[:, None] * (mixed[:, None] - error)
        held["regret"] = held["regret"] + regret
        held["regret_squares"] = held["regret_squares"] + regret**2
        held["largest"] = np.maximum(held["largest"], (regret**2).max(axis=1))

    def restack(self) -> None:
        """Every few steps: find the weights with the smallest mixed squared error, from those found last."""
        if self.steps % _STEPS_BETWEEN:
            return
        products = self.arrays["products"]
        scale = np.trace(products, axis1=1, axis2=2)[:, None]
        known = scale[:, 0] > 0
        weights = np.maximum(self.arrays["stacked"][known], _FLOOR)
        weights /= weights.sum(axis=1, keepdims=True)
        scaled = products[known] / scale[known, :, None]
        for _ in range(_ITERATIONS):
            slope = np.matmul(scaled, weights[:, :, None])[:, :, 0]
            least = slope.min(axis=1, keepdims=True)
            weights = weights * np.exp(-(slope - least) / (np.abs(slope).max(axis=1, keepdims=True) + 1e-300))
            weights /= weights.sum(axis=1, keepdims=True)
        self.arrays["stacked"][known] = weights

    # ---- the weights

    def for_mean(self, awake: Mask) -> Floats:
        """Horizons x experts, adding up to 1; before any fall-back."""
        held = self.arrays
        rate = 1 / (held["largest"][:, None] + held["regret_squares"] + 1e-300)
        gained = np.maximum(held["regret"], 0.0) * rate
        poly = _shares(gained * awake)
        stacked = _shares(held["stacked"] * awake)
        return 0.5 * poly + 0.5 * stacked

    def for_quantiles(self, awake: Mask) -> Floats:
        """Horizons x experts, adding up to 1; before any fall-back."""
        loss = np.where(awake, self.arrays["loss"], np.inf)
        least = loss.min(axis=1, keepdims=True)
        excess = np.where(awake, (self.arrays["loss"] - least) / (least + 1e-300), np.inf)
        return _shares(
            np.exp(-np.minimum(_SHARPNESS * np.where(least > 0, excess, np.sign(excess) * 50), 700.0)) * awake
        )

    def young(self) -> Mask:
        """By horizon, whether too few forecasts were checked to trust anyone but the last value."""
        return self.arrays["seen"] < _FEWEST

    def mean_falls_back(self) -> Mask:
        """By horizon, whether the last value's mean is the one to use."""
        return self.young() | self._worse("mean_excess")

    def quantiles_fall_back(self) -> Mask:
        """By horizon, whether the last value's quantiles are the ones to use."""
        return self.young() | self._worse("quantile_excess")

    def _worse(self, excess: str) -> Mask:
        """Whether the mix did worse than the last value by more than two standard errors: one spike is no proof."""
        worse: Mask = self.arrays[excess] > _CLEARLY * np.sqrt(self.arrays[f"{excess}_squares"])
        return worse

    def recent(self, name: str) -> Floats:
        """A recent average: "loss" or "square" by horizon and expert, "mixed_loss" by horizon."""
        seen = np.maximum(self.arrays["seen"], 1e-9)
        total = self.arrays[name]
        return total / (seen if total.ndim == 1 else seen[:, None])

    # ---- keeping

    def state(self) -> dict[str, Any]:
        """All sums."""
        return {"steps": self.steps, **{name: array.copy() for name, array in self.arrays.items()}}

    def restore(self, state: State) -> None:
        """Go on from kept sums."""
        self.steps = int(state["steps"])
        self.arrays = {name: np.array(state[name]) for name in self.arrays}


def _shares(weights: Floats) -> Floats:
    """Rows that add up to 1; all on expert 0 where there is no weight at all."""
    total = weights.sum(axis=1, keepdims=True)
    shares: Floats = weights / np.where(total > 0, total, 1.0)
    shares[total[:, 0] <= 0, 0] = 1.0
    return shares
