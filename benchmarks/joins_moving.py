"""Moving hot keys, without Spark: plans for what is foreseen, for the last window, and only once balance is lost.

    python -m benchmarks joins_moving [--quick]

The net is the one that comes with Foretide, not trained further.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generators.hot_keys import zipf_windows
from foretide.forecasting.key_models import Key, KeyEwma, KeyModel, KeyVote, LastWindow
from foretide.forecasting.key_net import KeyNet
from foretide.forecasting.pretrained import pretrained_keys
from foretide.forecasting.settings import KeyNetSettings
from foretide.joins.placement.salts import tail_partition
from foretide.joins.plan import NO_PLAN, JoinPlan, KeyLoad, TailLoad, fill
from foretide.joins.planning.planner import plan_join, predict
from foretide.joins.settings import JoinSettings

PARTITIONS, MOST, ROWS = 8, 64, 20_000
BEST = "best of late (as live)"
LEARNT = 20
"""Windows that all have seen before they are asked."""

STILL = KeyNetSettings(first_training=0, retrain_every=0)


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    """All figures."""
    return {f"imbalance of {PARTITIONS} partitions, moving hot keys": moving_keys(quick=quick)}


def moving_keys(*, quick: bool) -> list[dict[str, Any]]:
    """The plan of every choice for each window, laid over what then came."""
    windows = zipf_windows(
        seed=11, windows=LEARNT + (10 if quick else 60), keys=400, zipf=1.0, rows=ROWS, rise=4, fall=6
    )
    settings = JoinSettings(max_keys=MOST)
    net = KeyNet(1, STILL, pretrained_keys(STILL))
    models: dict[str, KeyModel] = {"last window": LastWindow(), "smoothed": KeyEwma(), "net (forecast)": net}
    vote = KeyVote()
    found: dict[str, list[float]] = {name: [] for name in ("no plan", *models, BEST, "reactive")}
    kept = NO_PLAN
    for number, window in enumerate(windows):
        if number >= LEARNT:
            actual = [KeyLoad(key, rows, rows) for key, rows in window.items()]
            found["no plan"].append(laid(NO_PLAN, actual))
            for name, model in models.items():
                expected = model.forecast(1)[0].shares()
                found[name].append(laid(planned(expected, settings), actual))
                if isinstance(model, KeyNet):
                    vote.add(model.name, expected)
            best = vote.best
            found[BEST].append(laid(planned({} if best is None else best.shares, settings), actual))
            found["reactive"].append(laid(kept, actual))
            if found["reactive"][-1] > settings.reactive_above:
                kept = planned({key: rows / ROWS for key, rows in window.items()}, settings)
        counts: dict[Key, float] = {key: float(rows) for key, rows in window.items()}
        for model in models.values():
            model.learn([counts])
        vote.learn(counts)
    return [
        {
            "choice": name,
            "LI mean": float(np.mean(values)),
            "LI p90": float(np.quantile(values, 0.9)),
            "windows": len(values),
        }
        for name, values in found.items()
    ]


def default_partition(key: int) -> int:
    return tail_partition(key * 2_654_435_761 % 2**31, PARTITIONS)


def tail_of(keys: list[KeyLoad]) -> list[TailLoad]:
    """Rows of these keys on each partition when the hash alone places them."""
    by_hash = fill(NO_PLAN, keys, [TailLoad(0.0, 0.0)] * PARTITIONS, default_partition)
    return [TailLoad(left, right) for left, right in zip(by_hash.left, by_hash.right, strict=True)]


def planned(shares: Any, settings: JoinSettings) -> JoinPlan:
    loads = sorted((KeyLoad(key, share * ROWS, share * ROWS) for key, share in shares.items()), key=lambda k: -k.left)
    hot, rest = loads[:MOST], loads[MOST:]
    return plan_join(hot, tail_of(rest), PARTITIONS, settings, default_partition=default_partition)


def laid(plan: JoinPlan, actual: list[KeyLoad]) -> float:
    """LI of a plan over the keys that came: those without a grid go where the hash sends them."""
    hot = [load for load in actual if load.key in plan.grids]
    rest = [load for load in actual if load.key not in plan.grids]
    return predict(plan, hot, tail_of(rest), default_partition).imbalance
