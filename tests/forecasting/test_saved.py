from __future__ import annotations

import json

import numpy as np
import pytest

from foretide.errors import ForecastError, ModelFolderError
from foretide.forecasting.load.registry import NAMES
from foretide.forecasting.saved import continue_training, load_model, save_model, train
from foretide.forecasting.series import Series, load_series


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(1)
    curve = 100 + 60 * np.sin(np.arange(260) * 2 * np.pi / 24)
    return Series("daily", tuple((curve * rng.lognormal(0, 0.1, 260)).tolist()), 3600.0)


def first(series, size):
    return Series(series.name, series.values[:size], series.step_seconds)


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_model_goes_on_as_if_nothing_had_happened(name, series, tmp_path):
    model, card = train(first(series, 130), name, horizons=(1, 3), seed=3)
    save_model(tmp_path, model, card)
    again, same = load_model(tmp_path)
    assert same == card
    for each in (model, again):
        each.learn(series.values[130:150])
    assert np.array_equal(again.forecast(5).quantiles, model.forecast(5).quantiles)
    assert np.array_equal(again.forecast(5).mean, model.forecast(5).mean)


def test_the_card_tells_features_seasons_and_scores(series, tmp_path):
    model, card = train(series, "ridge", horizons=(1, 3))
    save_model(tmp_path, model, card)
    about = json.loads((tmp_path / "model.json").read_text())
    assert about["seasons"] == [24, 168]
    assert about["seed"] == 0
    assert about["scores"]["3"]["relative_rmse"] < 1
    assert "log of the value 24 back, less level" in about["features"]["ridge"]
    assert len(about["features"]["ridge"]) == len(np.array(model.state()["fitted"]["median_weights"]))


def test_saving_again_replaces_the_model_and_leaves_nothing_behind(series, tmp_path):
    for size in (100, 120):
        save_model(tmp_path, *train(first(series, size), "ewma", horizons=(1,)))
    assert load_model(tmp_path)[1].values == 120
    assert len(list(tmp_path.iterdir())) == 2


def test_going_on_learns_what_is_new_and_fits_again(series):
    model, card = train(first(series, 150), "neural net", horizons=(1,))
    fits = model.fits
    card = continue_training(model, card, series)
    assert card.values == model.count == 260
    assert model.fits > fits


def test_going_on_with_another_series_is_refused(series):
    model, card = train(first(series, 150), "ewma", horizons=(1,))
    other = Series("other", tuple(value + 5 for value in series.values), None)
    with pytest.raises(ModelFolderError, match="does not begin with them"):
        continue_training(model, card, other)
    with pytest.raises(ModelFolderError, match="does not begin with them"):
        continue_training(model, card, first(series, 100))


def test_folders_without_a_whole_model_of_ours_are_refused(series, tmp_path):
    with pytest.raises(ModelFolderError, match="there is no model"):
        load_model(tmp_path)
    save_model(tmp_path, *train(series, "ewma", horizons=(1,)))
    about = tmp_path / "model.json"
    text = about.read_text()
    for damage, says in (
        (text[: len(text) // 2], "cannot be read"),
        ("[]", "no model of this version"),
        (text.replace('"format": 1', '"format": 99'), "no model of this version"),
        (text.replace('"model": "ewma"', '"model": "oracle"'), "damaged"),
        (text.replace('"count"', '"county"'), "damaged"),
    ):
        assert damage != text
        about.write_text(damage)
        with pytest.raises(ModelFolderError, match=says):
            load_model(tmp_path)
    about.write_text(text)
    arrays = next(tmp_path.glob("*.npz"))
    arrays.write_bytes(arrays.read_bytes()[:-10])
    with pytest.raises(ModelFolderError, match="are not those of its model"):
        load_model(tmp_path)
    arrays.unlink()
    with pytest.raises(ModelFolderError, match="cannot be read"):
        load_model(tmp_path)


def test_a_file_is_read_with_its_step_and_its_gaps(tmp_path):
    file = tmp_path / "load.csv"
    file.write_text("time,host,rows,other\n2026-01-01T00:00,a,5,1\n2026-01-01T00:05,a,,2\n2026-01-01T00:10,b,7,3\n")
    assert load_series(str(file), "rows") == Series("load", (5.0, None, 7.0), 300.0)
    assert load_series(str(file)).values == (1.0, 2.0, 3.0)
    with pytest.raises(ForecastError, match="no column 'host' of numbers; it has rows, other"):
        load_series(str(file), "host")


def test_parquet_is_read_too_and_what_is_no_series_is_refused(tmp_path):
    import pandas as pd

    pd.DataFrame({"rows": [1.0, 2.0]}).to_parquet(tmp_path / "load.parquet")
    assert load_series(str(tmp_path / "load.parquet")) == Series("load", (1.0, 2.0), None)
    for name, content, says in (
        ("a.parquet", "nonsense", "cannot be read"),
        ("a.txt", "1", "must end in"),
        ("a.csv", "x\nhello\n", "no column of numbers"),
        ("b.csv", "x\n-1\n", "value 1 of 1 must be"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(ForecastError, match=says):
            load_series(str(tmp_path / name))
    with pytest.raises(ForecastError, match="neither a file nor a packaged trace"):
        load_series("weather")
