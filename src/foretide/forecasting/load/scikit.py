"""Random forest, gradient boosting and support vectors on lags, fitted by scikit-learn and followed in NumPy.

What was fitted is kept as arrays: it needs no scikit-learn to forecast, and a restart fits nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, ClassVar

import numpy as np

from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.load.lags import LagModel, missing_extra
from foretide.forecasting.load.trees import Kernel, Trees


def _one_thread() -> AbstractContextManager[Any]:
    """Limit numerical libraries to one thread: forecasts are small, and the pipeline needs the cores."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1)
    return context


@cache
def _controller() -> Any:
    import sklearn.ensemble  # type: ignore[import-untyped,unused-ignore]  # noqa: F401, PLC0415 - loads what is limited
    import threadpoolctl  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 comes with scikit-learn

    return threadpoolctl.ThreadpoolController()


class ScikitModel(LagModel):
    """Regressors of scikit-learn."""

    needs: ClassVar[tuple[str, ...]] = ("sklearn",)
    refit_every = 2000

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rules: list[Trees | Kernel] = []
        self._scale: tuple[Floats, Floats] = (np.zeros(0), np.ones(0))

    @property
    def ready(self) -> bool:
        """Whether it has been fitted."""
        return bool(self._rules)

    @abstractmethod
    def make(self) -> Any:
        """A regressor that was not fitted yet."""

    @abstractmethod
    def rule(self, fitted: Any) -> Trees | Kernel:
        """A fitted regressor as arrays."""

    def regress(self, features: Floats, targets: Floats) -> None:
        """Fit to scaled features."""
        self._scale = (features.mean(axis=0), features.std(axis=0) + 1e-9)
        scaled = (features - self._scale[0]) / self._scale[1]
        try:
            with _one_thread():
                self._rules = [self.rule(each) for each in self.fit_all(scaled, targets)]
        except ImportError as error:
            raise missing_extra(self.name, error) from error

    def fit_all(self, scaled: Floats, targets: Floats) -> list[Any]:
        """One regressor a horizon."""
        return [self.make().fit(scaled, target) for target in targets.T]

    def regressed(self, features: Floats) -> Floats:
        """The output of each rule."""
        scaled = (features - self._scale[0]) / self._scale[1]
        return np.concatenate([rule(scaled) for rule in self._rules], axis=1)

    def fitted(self) -> dict[str, Any]:
        """The scale and the rules."""
        rules = {str(place): rule.arrays() for place, rule in enumerate(self._rules)}
        return super().fitted() | {"middle": self._scale[0], "scale": self._scale[1], "rules": rules}

    def restore_fitted(self, found: State) -> None:
        """Restore them."""
        super().restore_fitted(found)
        self._scale = (np.array(found["middle"]), np.array(found["scale"]))
        rules = [found["rules"][str(place)] for place in range(len(found["rules"]))]
        self._rules = [Kernel.of(each) if "vectors" in each else Trees.of(each) for each in rules]


class RandomForest(ScikitModel):
    """60 random trees on lags (pa-sps: RF)."""

    name: ClassVar[str] = "random forest"
    train_rows = 4000

    def fit_all(self, scaled: Floats, targets: Floats) -> list[Any]:
        """One forest for all horizons."""
        return [self.make().fit(scaled, targets if targets.shape[1] > 1 else targets[:, 0])]

    def make(self) -> Any:
        """Few enough trees, with large enough leaves, to be fitted while a pipeline runs."""
        from sklearn import ensemble  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 an extra

        return ensemble.RandomForestRegressor(
            60, min_samples_leaf=8, max_features=0.4, max_samples=0.7, random_state=self.seed, n_jobs=1
        )

    def rule(self, fitted: Any) -> Trees:
        """Its trees."""
        return Trees.of_forest(fitted)


class GradientBoosting(ScikitModel):
    """Boosted small trees on lags, by absolute errors."""

    name: ClassVar[str] = "gradient boosting"
    train_rows = 6000

    def make(self) -> Any:
        """With early stopping on a held-out share."""
        from sklearn import ensemble  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 an extra

        return ensemble.HistGradientBoostingRegressor(
            loss="absolute_error", max_iter=150, learning_rate=0.06, max_leaf_nodes=12, min_samples_leaf=30,
            early_stopping=True, validation_fraction=0.15, n_iter_no_change=8, random_state=self.seed,
        )  # fmt: skip

    def rule(self, fitted: Any) -> Trees:
        """Its trees."""
        return Trees.of_boosting(fitted)


class SupportVectors(ScikitModel):
    """Support vector regression on lags, with a radial kernel."""

    name: ClassVar[str] = "svr"
    train_rows = 1500

    def make(self) -> Any:
        """A narrow tube: nearly absolute errors."""
        from sklearn.svm import SVR  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 an extra

        return SVR(C=0.5, epsilon=0.05, gamma=0.01, cache_size=100)

    def rule(self, fitted: Any) -> Kernel:
        """Its support vectors."""
        return Kernel.of_svr(fitted)
