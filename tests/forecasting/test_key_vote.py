"""Of several forecasts of key frequencies the one that did best of late is asked, and none that does worse."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.forecasting.key_models import KeyVote, distance

EVEN = {"a": 50.0, "b": 50.0}


def noisy(seed, windows):
    rng = np.random.default_rng(seed)
    for _ in range(windows):
        hot = rng.binomial(100, 0.5)
        yield {"a": float(hot), "b": float(100 - hot)}


def test_before_the_first_window_nobody_knows_anything():
    assert KeyVote().best is None
    vote = KeyVote()
    vote.learn({"a": 0.0})
    assert vote.best is None, "a window in which nothing occurred says nothing"


def test_the_last_window_is_asked_until_others_have_shown_what_they_can():
    vote = KeyVote()
    vote.learn({"a": 9.0, "b": 1.0})
    assert vote.best.model == "last-window"
    assert vote.best.shares == pytest.approx({"a": 0.9, "b": 0.1})


def test_smoothing_wins_where_only_noise_moves_and_the_last_window_where_keys_do():
    still, moving = KeyVote(), KeyVote()
    for window in noisy(3, 40):
        still.learn(window)
    for step in range(40):
        moving.learn({"a": 40.0 - step, "b": 1.0 + step})
    assert still.best.model == "key-ewma"
    assert moving.best.model == "last-window"
    assert moving.errors["last-window"] < moving.errors["key-ewma"]


def test_another_model_is_asked_once_it_was_right_often_enough_and_only_while_it_speaks():
    vote = KeyVote()
    asked = []
    for step in range(8):
        vote.learn({"a": 10.0, "b": 0.0} if step % 2 else {"a": 0.0, "b": 10.0})
        vote.add("net", {"b": 1.0} if step % 2 else {"a": 1.0})
        asked.append(vote.best.model)
    assert asked[:3] == ["last-window"] * 3
    assert asked[-4:] == ["net"] * 4
    vote.learn(EVEN)
    assert vote.best.model != "net", "it has said nothing of the next window"


def test_a_model_that_does_worse_is_not_asked():
    vote = KeyVote()
    for window in noisy(5, 20):
        vote.learn(window)
        vote.add("net", {"c": 1.0})
        assert vote.best.model != "net"
    assert vote.errors["net"] == pytest.approx(1.0)


def test_the_distance_is_0_for_equals_1_for_strangers_and_the_same_both_ways():
    one, other = {"a": 0.5, "b": 0.5}, {"b": 0.2, "c": 0.8}
    assert distance(one, one) == 0.0
    assert distance({"a": 1.0}, {"b": 1.0}) == 1.0
    assert distance(one, other) == distance(other, one) == pytest.approx(0.8)
