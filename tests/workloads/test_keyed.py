import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.workloads.keyed import Keyed, permuted
from foretide.workloads.randomness import words


def keys(generator, first, last):
    return generator.rows(first, last)["key"].to_numpy()


def counts(generator, rows=200_000):
    return np.bincount(keys(generator, 0, rows), minlength=generator.keys)


def test_the_value_is_the_rows_own_number():
    assert Keyed(seed=1).rows(10, 15)["value"].to_pylist() == list(range(10, 15))


@pytest.mark.parametrize("zipf", [0.5, 1.0, 2.0])
def test_keys_follow_zipf(zipf):
    found = counts(Keyed(seed=1, keys=20, zipf=zipf))
    expected = np.arange(1, 21.0) ** -zipf
    np.testing.assert_allclose(found / found.sum(), expected / expected.sum(), atol=0.004)


def test_exponent_zero_is_uniform():
    np.testing.assert_allclose(counts(Keyed(seed=1, keys=20, zipf=0)), 10_000, rtol=0.04)


@pytest.mark.parametrize("share", [0.2, 0.9, 1.0])
def test_the_hot_key_gets_its_share(share):
    found = counts(Keyed(seed=1, keys=50, zipf=0, hot_share=share))
    assert found[0] / found.sum() == pytest.approx(share, rel=0.02)
    np.testing.assert_allclose(found[1:] / found.sum(), (1 - share) / 49, atol=0.002)


def test_a_single_key_gets_all():
    assert set(keys(Keyed(seed=1, keys=1, change_every=3, hot_share=0.5), 0, 100)) == {0}


def test_hot_keys_move_only_at_a_change():
    moving, still = Keyed(seed=1, keys=1000, change_every=5000), Keyed(seed=1, keys=1000)
    hot = []
    for first in range(0, 50_000, 5000):
        ranks, moved = keys(still, first, first + 5000), keys(moving, first, first + 5000)
        pairs = set(zip(ranks.tolist(), moved.tolist(), strict=True))
        assert len(pairs) == len({rank for rank, _ in pairs}) == len({key for _, key in pairs})
        hot.append(dict(pairs)[0])
    assert len(set(hot)) > 8


def test_every_key_becomes_hot_about_equally_often():
    found = counts(Keyed(seed=1, keys=10, hot_share=1.0, change_every=2))
    np.testing.assert_allclose(found, 20_000, rtol=0.05)


def test_neighbouring_ranks_go_to_unrelated_keys():
    size, epochs = 1000, 20_000
    salts = np.stack([words(1, f"s{n}", 0, epochs) for n in range(4)])
    first, second = (permuted(np.full(epochs, rank, dtype=np.uint64), size, salts).astype(int) for rank in (0, 1))
    distances = np.bincount((second - first) % size, minlength=size)
    assert distances[0] == 0
    assert distances.max() < 60


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(0, 2**64 - 1))
def test_equal_salts_make_a_permutation(size, seed):
    salts = np.repeat(words(seed, "s", 0, 4)[:, None], size, axis=1)
    assert sorted(permuted(np.arange(size, dtype=np.uint64), size, salts).tolist()) == list(range(size))
