from itertools import pairwise

import numpy as np
import pytest
from benchmarks.generators.hot_keys import zipf_windows

from foretide.errors import WorkloadError


def top(window, count=20):
    return set(sorted(window, key=lambda key: -window[key])[:count])


def test_each_window_has_its_rows_and_a_seed_says_all():
    made = zipf_windows(5, 10, keys=50, rows=300)
    assert [sum(window.values()) for window in made] == [300] * 10
    assert made == zipf_windows(5, 10, keys=50, rows=300)
    assert made != zipf_windows(6, 10, keys=50, rows=300)


def test_without_spells_it_is_plain_zipf():
    counts = np.zeros(20)
    for window in zipf_windows(1, 20, keys=20, zipf=1.0, rows=10_000, spells=0):
        for key, count in window.items():
            counts[key] += count
    expected = 1 / np.arange(1, 21)
    np.testing.assert_allclose(counts / counts.sum(), expected / expected.sum(), atol=0.004)


def test_hot_keys_move_on_and_do_so_step_by_step():
    made = zipf_windows(1, 120)
    near = np.mean([len(top(one) & top(next_one)) / 20 for one, next_one in pairwise(made)])
    far = np.mean([len(top(one) & top(later)) / 20 for one, later in zip(made, made[30:], strict=False)])
    assert 0.8 < near < 0.97
    assert far < near - 0.1


def test_a_spell_rises_and_falls():
    made = zipf_windows(1, 60, keys=200, zipf=0, rows=20_000, spells=0.2, rise=10, fall=10)
    hot = max(range(200), key=lambda key: max(window.get(key, 0) for window in made))
    counts = np.array([window.get(hot, 0) for window in made])
    peak = int(counts.argmax())
    assert counts[peak] > 5 * np.median(counts)
    around = counts[max(0, peak - 4) : peak + 5]
    assert (around > np.median(counts)).all()


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"windows": -1}, {"zipf": float("nan")}, {"rise": 0}, {"keys": 0}])
def test_a_wrong_description_is_refused(wrong):
    with pytest.raises(WorkloadError, match=next(iter(wrong))):
        zipf_windows(**{"seed": 1, "windows": 2, **wrong})


def test_no_windows_and_no_rows_are_fine():
    assert zipf_windows(1, 0) == []
    assert zipf_windows(1, 2, rows=0) == [{}, {}]
