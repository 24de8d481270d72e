"""Fitted trees and kernels of scikit-learn as arrays: NumPy forecasts by them, and saves them without pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from foretide.forecasting.forecaster import Floats, State

Places = NDArray[np.int64]


class Rule(Protocol):
    """From features (rows x columns) to targets (rows x targets)."""

    def __call__(self, features: Floats) -> Floats: ...  # noqa: D102

    def arrays(self) -> dict[str, Any]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees of which each row follows a path in each: to the left where the feature is at most the threshold.

    Attributes:
        feature: Trees x nodes.
        threshold: Trees x nodes.
        left: The next node; that of a leaf is the leaf itself, as on the right.
        right: The next node.
        value: Trees x nodes x targets; the outcome is their sum over the trees, with the weight of each tree in it.
        start: By target, what is added to the sum.
        single: Whether features are compared in single precision.
    """

    feature: Places
    threshold: Floats
    left: Places
    right: Places
    value: Floats
    start: Floats
    single: bool

    def __call__(self, features: Floats) -> Floats:
        """Walk down all trees at once."""
        seen = features.astype(np.float32).astype(np.float64) if self.single else features
        rows, trees = np.arange(len(seen))[:, None], np.arange(len(self.feature))[None, :]
        node = np.zeros((len(seen), len(self.feature)), dtype=np.int64)
        while True:
            low = seen[rows, self.feature[trees, node]] <= self.threshold[trees, node]
            following = np.where(low, self.left[trees, node], self.right[trees, node])
            if (following == node).all():
                found: Floats = self.value[trees, node].sum(axis=1) + self.start
                return found
            node = following

    def arrays(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    @classmethod
    def of(cls, arrays: State) -> Self:
        """From its arrays."""
        names = ("feature", "threshold", "left", "right", "value", "start")
        return cls(**{name: np.array(arrays[name]) for name in names}, single=bool(arrays["single"]))

    @classmethod
    def joined(cls, trees: Sequence[Mapping[str, Any]], start: Floats, *, single: bool) -> Self:
        """From arrays for each tree, which may have different numbers of nodes."""
        size = max(len(tree["feature"]) for tree in trees)
        padded = {
            name: np.stack([_padded(np.asarray(tree[name]), size) for tree in trees])
            for name in ("feature", "threshold", "left", "right", "value")
        }
        leaf = padded["left"] < 0
        itself = np.broadcast_to(np.arange(size), leaf.shape)
        left, right = (np.where(leaf, itself, padded[name]).astype(np.int64) for name in ("left", "right"))
        feature = np.maximum(padded["feature"], 0).astype(np.int64)
        return cls(feature, padded["threshold"], left, right, padded["value"], start, single)

    @classmethod
    def of_forest(cls, forest: Any) -> Self:
        """A fitted random forest: the average of its trees."""
        count = len(forest.estimators_)
        parts = [
            {
                "feature": each.feature, "threshold": each.threshold, "left": each.children_left,
                "right": each.children_right, "value": each.value[:, :, 0] / count,
            }
            for each in (one.tree_ for one in forest.estimators_)
        ]  # fmt: skip
        return cls.joined(parts, np.zeros(parts[0]["value"].shape[1]), single=True)

    @classmethod
    def of_boosting(cls, boosting: Any) -> Self:
        """A fitted histogram gradient boosting of one target: the sum of its trees."""
        parts = []
        for nodes in (one.nodes for each in boosting._predictors for one in each):  # noqa: SLF001 it has no public form
            leaf = nodes["is_leaf"].astype(bool)
            parts.append({
                "feature": nodes["feature_idx"].astype(np.int64), "threshold": nodes["num_threshold"],
                "left": np.where(leaf, -1, nodes["left"].astype(np.int64)),
                "right": np.where(leaf, -1, nodes["right"].astype(np.int64)), "value": nodes["value"][:, None],
            })  # fmt: skip
        return cls.joined(parts, np.ravel(boosting._baseline_prediction)[:1], single=False)  # noqa: SLF001


def _padded(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Longer, by leaves that no row reaches."""
    fill = -1 if array.dtype.kind == "i" else 0
    return np.pad(array, [(0, size - len(array)), *[(0, 0)] * (array.ndim - 1)], constant_values=fill)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A sum of radial kernels around support vectors, for one target."""

    vectors: Floats
    weights: Floats
    constant: float
    gamma: float

    def __call__(self, features: Floats) -> Floats:
        """The sum for each row."""
        squares = (features**2).sum(axis=1)[:, None] + (self.vectors**2).sum(axis=1)
        apart = np.maximum(squares - 2 * features @ self.vectors.T, 0.0)
        found: Floats = (np.exp(-self.gamma * apart) @ self.weights + self.constant)[:, None]
        return found

    def arrays(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    @classmethod
    def of(cls, arrays: State) -> Self:
        """From its arrays."""
        return cls(
            np.array(arrays["vectors"]), np.array(arrays["weights"]), float(arrays["constant"]), float(arrays["gamma"])
        )

    @classmethod
    def of_svr(cls, svr: Any) -> Self:
        """A fitted support vector regression with a radial kernel and a fixed gamma."""
        return cls(svr.support_vectors_, svr.dual_coef_[0], float(svr.intercept_[0]), float(svr.gamma))
