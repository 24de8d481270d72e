from __future__ import annotations

import json
import re

import numpy as np
import pytest

from foretide.errors import BadSeriesError, ForecastError, ModelFolderError
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


def test_a_model_of_a_series_in_seconds_has_the_day_as_a_season_and_can_be_loaded(series, tmp_path):
    model, card = train(Series("load", series.values, 1.0), "ridge", horizons=(1,))
    save_model(tmp_path, model, card)
    assert load_model(tmp_path)[1].seasons == (86_400, 604_800)


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
        load_model(tmp_path / ("n" * 300))
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
    assert load_series(str(file), "rows") == Series("load", (5.0, None, 7.0), 300.0, 1767226200.0)
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


TIMES = [f"2026-01-01T00:{minute:02},{minute}" for minute in range(0, 60, 5)]
NUMBERS = [f"{second},{second}" for second in range(0, 60, 5)]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (TIMES[::-1], "row 2 of .* is not later than that of row 1"),
        ([*TIMES[:4], TIMES[5], TIMES[4], *TIMES[6:]], "row 6 of .*'2026-01-01T00:20' is not later than that of row 5"),
        ([*TIMES[:4], TIMES[3], *TIMES[4:]], "row 5 of .* is not later"),
        (["2026-01-01T00:00,5"] * 12, "row 2 of .* is not later"),
        ([*TIMES[:4], "never,5", *TIMES[4:]], "row 5 of .*'never' is not a time"),
        ([*TIMES[:4], ",5", *TIMES[4:]], "row 5 of .* is not a time"),
        ([*NUMBERS[:4], "never,5", *NUMBERS[4:]], "row 5 of .*'never' is not a time"),
        ([*NUMBERS[:4], "never,5", *NUMBERS[3::-1]], "row 5 of .*'never' is not a time"),
        ([*TIMES[:4], "2026-01-01T00:19,hello", *TIMES[4:]], "row 5 of .*'hello' is not a number"),
        ([*TIMES[:4], "2026-01-01T00:19,inf", *TIMES[4:]], "value 5 of 13 must be between 0 and .* got inf"),
        ([*TIMES[:4], "2026-01-01T00:19,1e16", *TIMES[4:]], "value 5 of 13 must be between 0 and"),
        ([*TIMES[:4], "2026-01-01T00:19," + "9" * 400, *TIMES[4:]], "value 5 of 13 must be|row 5 of"),
    ],
)
def test_rows_that_are_no_series_are_named(tmp_path, rows, says):
    (tmp_path / "load.csv").write_text("\n".join(["time,rows", *rows, ""]))
    with pytest.raises(BadSeriesError, match=says):
        load_series(str(tmp_path / "load.csv"))


def test_times_as_numbers_must_rise_too(tmp_path):
    (tmp_path / "load.csv").write_text("timestamp,rows\n10,1\n20,2\n15,3\n")
    with pytest.raises(BadSeriesError, match=r"row 3 of .* is not later than that of row 2"):
        load_series(str(tmp_path / "load.csv"))


def test_a_first_column_of_names_is_not_taken_for_times(tmp_path):
    (tmp_path / "load.csv").write_text("host,rows\nb,1\na,2\na,5e-324\n")
    assert load_series(str(tmp_path / "load.csv")) == Series("load", (1.0, 2.0, 5e-324), None)


@pytest.mark.parametrize("content", [b"", bytes(range(256)), "rows\n1\n".encode("utf-16")])
def test_a_file_that_is_no_csv_is_refused(tmp_path, content):
    (tmp_path / "load.csv").write_bytes(content)
    with pytest.raises(ForecastError, match=r"load.csv' cannot be read"):
        load_series(str(tmp_path / "load.csv"))


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("values", "many", "values: expected int"),
        ("values", 1e308, "values must be between 0 and"),
        ("values", -1, "values must be between 0 and"),
        ("scores", None, "scores: expected"),
        ("scores", [], "scores: expected"),
        ("scores", {"1": {"mape": 0.1}}, "scores.1 lacks coverage_80, coverage_95, mae, pinball, relative_rmse, rmse"),
        ("scores", {"1": {"rmse": "small"}}, "scores"),
        ("horizons", [], "horizons must be between 1 and 10,000"),
        ("horizons", [10**20], "horizons must be between 1 and 10,000"),
        ("seasons", [1], "seasons must be between 2"),
        ("model", 5, "model: expected str"),
    ],
)
def test_a_damaged_description_is_refused_when_the_model_is_loaded(series, tmp_path, name, value, says):
    save_model(tmp_path, *train(first(series, 400), "ewma", horizons=(1,)))
    about = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(about | {name: value}))
    with pytest.raises(ModelFolderError, match=re.escape(says)):
        load_model(tmp_path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": 1, "state": ' + '{"a":' * 100_000])
def test_a_description_that_is_nested_too_deeply_is_refused(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelFolderError, match="nested too deeply"):
        load_model(tmp_path)


@pytest.mark.parametrize("value", [7.0, "text", None, []])
def test_a_state_that_no_model_can_go_on_from_is_damaged(series, tmp_path, value):
    """Whether that shows when the model is loaded or when it learns, it is one kind of error."""
    save_model(tmp_path, *train(first(series, 130), "ewma", horizons=(1,)))
    about = json.loads((tmp_path / "model.json").read_text())
    refused = set()
    for name in about["state"]:
        damaged = about | {"state": about["state"] | {name: value}}
        (tmp_path / "model.json").write_text(json.dumps(damaged))
        try:
            continue_training(*load_model(tmp_path), series)
        except ModelFolderError:
            refused.add(name)
    assert "values" in refused
