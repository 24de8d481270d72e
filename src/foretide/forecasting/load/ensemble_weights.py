"""The weights of an ensemble, from the errors of its members: for each horizon, of the mean and of the quantiles.

- Quantiles: weights fall exponentially with the recent average loss. The loss is the pinball loss of logarithms, a
  proper score that no spike can dominate.
- Mean: half from ML-Poly (Gaillard, Stoltz and van Erven, 2014), which is never much worse than the best member, half
  from the weights whose combined squared error would have been smallest, which use that members err differently.
- The last value alone, where the ensemble was significantly worse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foretide.forecasting.forecaster import LEVELS, Floats, State
from foretide.forecasting.history import Mask

_RECENT_MEMORY = 0.998
"""The factor by which an error fades in a step: about the last 500 steps count."""

_LONG_MEMORY = 0.9995
_LONGEST_MEMORY = 0.9999
_SHARPNESS = 30.0
_MIN_CHECKED = 30.0
_RESTACK_EVERY = 16
_ITERATIONS = 40
_FLOOR = 1e-3
_STANDARD_ERRORS = 2.0
_BY_HORIZON = (
    "seen", "largest", "combined_loss", "mean_excess", "mean_excess_squares", "quantile_excess",
    "quantile_excess_squares",
)  # fmt: skip


def log_pinball(truth: Floats, quantiles: Floats) -> Floats:
    """The pinball loss of logarithms, averaged over levels (the last axis of `quantiles`)."""
    errors = np.log1p(truth)[..., None] - np.log1p(quantiles)
    loss: Floats = np.maximum(LEVELS * errors, (LEVELS - 1) * errors).mean(axis=-1)
    return loss


@dataclass
class Weights:
    """Online weights of members at some horizons. Member 0 is the last value, to fall back to.

    All arrays are horizons x members, but for `products` (horizons x members x members) and those by horizon alone:
    `seen`, `largest`, and for the losses of the ensemble in excess of the last value's their sum and sum of squares.
    """

    horizons: int
    members: int
    arrays: dict[str, Floats] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        shape = (self.horizons, self.members)
        names = ("loss", "square", "regret", "regret_squares")
        self.arrays = self.arrays or {
            **{name: np.zeros(shape) for name in names},
            "products": np.zeros((*shape, self.members)),
            "stacked": np.full(shape, 1 / self.members),
            **{name: np.zeros(self.horizons) for name in _BY_HORIZON},
        }

    # ---- errors

    def update(self, known: Mask, error: Floats, loss: Floats, combined_error: Floats, combined_loss: Floats) -> None:
        """Add the errors of the forecasts of the newest value, where there were any (`known`, by horizon).

        Args:
            known: By horizon, whether there was a forecast and the value is no gap.
            error: Mean less truth of each member, horizons x members.
            loss: Of the quantiles of each member, horizons x members.
            combined_error: Mean less truth of the ensemble, before any fall-back.
            combined_loss: Loss of the ensemble, before any fall-back.
        """
        self.steps += 1
        if not known.any():
            return
        sums, new = self.arrays, known.astype(np.float64)
        recent, long, longest = (1 - (1 - factor) * new for factor in (_RECENT_MEMORY, _LONG_MEMORY, _LONGEST_MEMORY))
        for name, value in (("loss", loss), ("square", error**2)):
            sums[name] = recent[:, None] * sums[name] + new[:, None] * value
        sums["combined_loss"] = recent * sums["combined_loss"] + new * combined_loss
        sums["seen"] = recent * sums["seen"] + new
        for name, excess in (("mean", combined_error**2 - error[:, 0] ** 2), ("quantile", combined_loss - loss[:, 0])):
            sums[f"{name}_excess"] = long * sums[f"{name}_excess"] + new * excess
            sums[f"{name}_excess_squares"] = long * sums[f"{name}_excess_squares"] + new * excess**2
        products = (new[:, None] * error)[:, :, None] * error[:, None, :]
        sums["products"] = longest[:, None, None] * sums["products"] + products
        self._regrets(new, error, combined_error)

    def _regrets(self, new: Floats, error: Floats, combined: Floats) -> None:
        """Add how much better each member would have been than the ensemble, by the slope of the squared error."""
        sums = self.arrays
        regret = (2 * new * combined)[:, None] * (combined[:, None] - error)
        sums["regret"] = sums["regret"] + regret
        sums["regret_squares"] = sums["regret_squares"] + regret**2
        sums["largest"] = np.maximum(sums["largest"], (regret**2).max(axis=1))

    def restack(self) -> None:
        """Every few steps, find the weights with the smallest combined squared error, from the last ones."""
        if self.steps % _RESTACK_EVERY:
            return
        products = self.arrays["products"]
        scale = np.trace(products, axis1=1, axis2=2)[:, None]
        known = scale[:, 0] > 0
        weights = np.maximum(self.arrays["stacked"][known], _FLOOR)
        weights /= weights.sum(axis=1, keepdims=True)
        scaled = products[known] / scale[known, :, None]
        for _ in range(_ITERATIONS):
            slope = np.matmul(scaled, weights[:, :, None])[:, :, 0]
            smallest = slope.min(axis=1, keepdims=True)
            weights = weights * np.exp(-(slope - smallest) / (np.abs(slope).max(axis=1, keepdims=True) + 1e-300))
            weights /= weights.sum(axis=1, keepdims=True)
        self.arrays["stacked"][known] = weights

    # ---- the weights

    def for_mean(self, ready: Mask) -> Floats:
        """Horizons x members, adding up to 1; before any fall-back."""
        sums = self.arrays
        rate = 1 / (sums["largest"][:, None] + sums["regret_squares"] + 1e-300)
        gained = np.maximum(sums["regret"], 0.0) * rate
        poly = _shares(gained * ready)
        stacked = _shares(sums["stacked"] * ready)
        return 0.5 * poly + 0.5 * stacked

    def for_quantiles(self, ready: Mask) -> Floats:
        """Horizons x members, adding up to 1; before any fall-back."""
        loss = np.where(ready, self.arrays["loss"], np.inf)
        smallest = loss.min(axis=1, keepdims=True)
        excess = np.where(ready, (self.arrays["loss"] - smallest) / (smallest + 1e-300), np.inf)
        return _shares(
            np.exp(-np.minimum(_SHARPNESS * np.where(smallest > 0, excess, np.sign(excess) * 50), 700.0)) * ready
        )

    def too_few_checked(self) -> Mask:
        """By horizon, whether too few forecasts were checked to use anything but the last value."""
        return self.arrays["seen"] < _MIN_CHECKED

    def mean_falls_back(self) -> Mask:
        """By horizon, whether the mean is that of the last value."""
        return self.too_few_checked() | self._worse("mean_excess")

    def quantiles_fall_back(self) -> Mask:
        """By horizon, whether the quantiles are those of the last value."""
        return self.too_few_checked() | self._worse("quantile_excess")

    def _worse(self, excess: str) -> Mask:
        """By horizon, whether the ensemble was worse than the last value by more than two standard errors."""
        worse: Mask = self.arrays[excess] > _STANDARD_ERRORS * np.sqrt(self.arrays[f"{excess}_squares"])
        return worse

    def recent(self, name: str) -> Floats:
        """A recent average: "loss" or "square" by horizon and member, "combined_loss" by horizon."""
        seen = np.maximum(self.arrays["seen"], 1e-9)
        total = self.arrays[name]
        return total / (seen if total.ndim == 1 else seen[:, None])

    # ---- state

    def state(self) -> dict[str, Any]:
        """All sums."""
        return {"steps": self.steps, **{name: array.copy() for name, array in self.arrays.items()}}

    def restore(self, state: State) -> None:
        """Continue from saved sums."""
        self.steps = int(state["steps"])
        self.arrays = {name: np.array(state[name]) for name in self.arrays}


def _shares(weights: Floats) -> Floats:
    """Rows that add up to 1; all on member 0 where every weight is 0."""
    total = weights.sum(axis=1, keepdims=True)
    shares: Floats = weights / np.where(total > 0, total, 1.0)
    shares[total[:, 0] <= 0, 0] = 1.0
    return shares
