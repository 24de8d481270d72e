"""What every model of key frequencies has to do, and what sets the net apart."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.generators.hot_keys import zipf_windows
from benchmarks.rivals.key_scores import top_recall, total_variation

from foretide.errors import BadSeriesError, ForecastError, NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS
from foretide.forecasting.key_models import KeyEwma, LastWindow
from foretide.forecasting.key_net import KeyNet
from foretide.forecasting.settings import KeyNetSettings, TrainingBudget

SMALL = KeyNetSettings(
    candidates=60,
    lookback=8,
    horizon=2,
    hidden=12,
    retrain_every=0,
    budget=TrainingBudget(seeds=1, epochs=1, steps=5),
)
MODELS = {"last": LastWindow, "ewma": KeyEwma, "net": lambda: KeyNet(1, SMALL)}
STREAM = zipf_windows(1, 200, keys=150, rows=4000)
TRAINED = 60  # windows to train on: the same everywhere, so that everything compiles once


@pytest.fixture(params=MODELS, name="model")
def any_model(request):
    return MODELS[request.param]()


@pytest.fixture(scope="module")
def states():
    """The state of each model after the first windows; each test continues from it."""
    found = {}
    for name, make in MODELS.items():
        model = make()
        model.learn(STREAM[:TRAINED])
        found[name] = model.state()
    return found


@pytest.fixture(params=MODELS)
def learnt(request, states):
    model = MODELS[request.param]()
    model.restore(states[request.param])
    return model


def same(one, other):
    assert [each.keys for each in one] == [each.keys for each in other]
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left.mean, right.mean)
        np.testing.assert_array_equal(left.quantiles, right.quantiles)


def test_nothing_learnt_is_said_so(model):
    with pytest.raises(NotEnoughHistoryError):
        model.forecast(1)


def test_a_horizon_below_one_is_refused(model):
    model.learn(STREAM[:2])
    with pytest.raises(ForecastError, match="horizon"):
        model.forecast(0)


def test_shares_are_a_distribution_and_intervals_hold_their_middle(learnt):
    ahead = learnt.forecast(4)
    assert len(ahead) == 4
    for each in ahead:
        assert 0.5 < each.mean.sum() <= 1 + 1e-6
        assert (np.diff(each.mean) <= 0).all()
        assert each.quantiles.shape == (len(each.keys), len(LEVELS))
        assert (np.diff(each.quantiles, axis=1) >= 0).all()
        assert (each.quantiles >= 0).all()
        assert (each.quantiles <= 1).all()


def test_a_stream_that_never_changes_is_foreseen(model):
    model.learn([{"a": 600, "b": 300, "c": 100}] * TRAINED)
    for each in model.forecast(3):
        assert each.top(3) == ("a", "b", "c")
        np.testing.assert_allclose(each.mean, [0.6, 0.3, 0.1], atol=0.03)


def test_windows_without_rows_say_nothing(model):
    model.learn([{}, {"a": 0}, None])
    assert model.forecast(1)[0].keys == ()
    model.learn([{"a": 3}, {}, None])
    assert model.forecast(2)[1].top(1) == ("a",)


def test_gaps_change_nothing(learnt):
    before = learnt.forecast(2)
    learnt.learn([None, {}])
    same(before, learnt.forecast(2))


@pytest.mark.parametrize("count", [float("nan"), float("inf"), -1.0])
def test_what_is_no_count_is_refused_and_leaves_the_model_as_it_was(model, count):
    model.learn(STREAM[:3])
    before = model.forecast(1)
    with pytest.raises(BadSeriesError, match="'odd'"):
        model.learn([{"fine": 1.0}, {"odd": count}])
    same(before, model.forecast(1))


def test_huge_counts_are_shares_like_others(model):
    model.learn([{"a": 1e307, "b": 3e307}] * TRAINED)
    mean = model.forecast(1)[0].shares()
    assert mean["b"] == pytest.approx(0.75, abs=0.05)


def test_going_on_after_a_restart_gives_the_same(learnt):
    later = type(learnt)() if not isinstance(learnt, KeyNet) else KeyNet(99, SMALL)
    later.restore(learnt.state())
    same(learnt.forecast(3), later.forecast(3))
    learnt.learn(STREAM[TRAINED : TRAINED + 10])
    later.learn(STREAM[TRAINED : TRAINED + 10])
    same(learnt.forecast(3), later.forecast(3))


def test_the_state_is_made_of_plain_values_and_arrays(learnt):
    for value in learnt.state().values():
        assert isinstance(value, bool | int | float | str | list | np.ndarray)


def test_a_key_never_seen_in_training_can_become_hot():
    model = KeyNet(1, SMALL)
    model.learn([{"a": 600, "b": 400}] * TRAINED)
    model.learn([{"a": 500, "new": 500}] * 3)
    assert set(model.forecast(1)[0].top(2)) == {"a", "new"}


def test_the_seed_decides_the_weights(states):
    one, same_seed, other = KeyNet(1, SMALL), KeyNet(1, SMALL), KeyNet(2, SMALL)
    one.restore(states["net"])
    for model in (same_seed, other):
        model.learn(STREAM[:TRAINED])
    same(one.forecast(1), same_seed.forecast(1))
    assert not np.array_equal(one.state()["weight00"], other.state()["weight00"])


def test_training_again_goes_on_from_the_weights(states):
    model = KeyNet(1, SMALL)
    model.restore(states["net"])
    before = model.state()["weight00"]
    model.retrain()
    assert model.trainings == 2
    assert np.abs(model.state()["weight00"] - before).max() < 0.2


@pytest.mark.soak
def test_the_net_finds_more_of_the_next_top_keys_than_the_last_window_does():
    settings = replace(SMALL, first_training=140, budget=TrainingBudget(seeds=1, epochs=15))
    scores = {}
    for model in (LastWindow(), KeyNet(1, settings)):
        model.learn(STREAM[:140])
        found = []
        for window in STREAM[140:]:
            ahead = model.forecast(1)[0]
            found.append((top_recall(ahead, window), total_variation(ahead, window, 50)))
            model.learn([window])
        scores[model.name] = np.mean(found, axis=0)
    assert scores["key-net"][0] > scores["last-window"][0]
    assert scores["key-net"][1] < scores["last-window"][1]
