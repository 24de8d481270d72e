from __future__ import annotations

import numpy as np
import pytest

from foretide.forecasting import history as history_module
from foretide.forecasting.history import History, windows
from foretide.forecasting.load import base
from foretide.forecasting.load.registry import make


@pytest.mark.parametrize("name", ["ewma"])
def test_what_is_old_is_forgotten_and_nothing_changes_by_how_the_series_was_cut(name, monkeypatch):
    limit = 2_000
    for module in (history_module, base):
        monkeypatch.setattr(module, "LIMIT", limit)
    rng = np.random.default_rng(1)
    values = (1000 + 300 * np.sin(np.arange(3_050) / 7) + rng.normal(0, 50, 3_050)).tolist()
    whole, pieces = (make(name, (1, 3), ()) for _ in range(2))
    whole.learn(values)
    for start in range(0, len(values), 732):
        pieces.learn(values[start : start + 732])
    for model in (whole, pieces):
        assert limit <= len(model.state()["values"]) <= 1.5 * limit
        assert len(model.state()["centres"]) == len(model.state()["values"])
    assert pieces.forecast(5).quantiles == pytest.approx(whole.forecast(5).quantiles, rel=1e-9)


def test_gaps_take_the_value_before_them_also_across_pieces():
    history = History()
    history.extend(*history.bridge(np.array([0.0, 3.0, 0.0]), np.array([False, True, False])))
    history.extend(*history.bridge(np.array([0.0, 5.0]), np.array([False, True])))
    assert history.values.tolist() == [3.0, 3.0, 3.0, 5.0]
    assert history.known.tolist() == [True, False, False, True]


def test_windows_end_at_each_position_and_are_padded_with_the_oldest():
    values = np.arange(6.0)
    assert windows(values, 4, 3).tolist() == [[2.0, 3.0, 4.0], [3.0, 4.0, 5.0]]
    assert windows(values[:1], 0, 3).tolist() == [[0.0, 0.0, 0.0]]
