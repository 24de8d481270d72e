"""The nets that come along: they fit the live settings, answer from the beginning, and are small."""

import subprocess
import sys

import numpy as np
from benchmarks.generators.hot_keys import zipf_windows

from foretide.forecasting.key_models import LastWindow, distance, shares_of
from foretide.forecasting.key_net import KeyNet
from foretide.forecasting.pretrained import FOLDER, pretrained_keys
from foretide.forecasting.settings import KeyNetSettings

MAX_BYTES = 400_000


def test_they_are_small():
    assert 0 < sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < MAX_BYTES


def test_hot_keys_that_move_are_foreseen_better_than_by_the_last_window():
    settings = KeyNetSettings(first_training=0, retrain_every=0)
    errors = {"net": [], "last": []}
    models = {"net": KeyNet(1, settings, pretrained_keys(settings)), "last": LastWindow()}
    for number, window in enumerate(zipf_windows(seed=77, windows=60, rows=10_000)):
        for name, model in models.items():
            if number:
                errors[name].append(distance(model.forecast(1)[0].shares(), shares_of(window)))
            model.learn([window])
    assert np.mean(errors["net"][5:]) < np.mean(errors["last"][5:])


def test_they_need_no_jax():
    code = (
        "import sys; sys.modules['jax'] = None;"
        "from foretide.forecasting.key_net import KeyNet;"
        "from foretide.forecasting.pretrained import pretrained_keys;"
        "from foretide.forecasting.settings import KeyNetSettings;"
        "net = KeyNet(1, KeyNetSettings(first_training=0), pretrained_keys(KeyNetSettings()));"
        "net.learn([{'a': 3, 'b': 1}]); print(len(net.forecast(1)[0].keys))"
    )
    assert int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) >= 2
