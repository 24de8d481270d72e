import numpy as np
import pytest

from foretide.workloads.taxi import PASSENGERS, TaxiOrders, VehiclePositions


def cells(generator, first, last):
    return generator.rows(first, last)["cell"].to_numpy()


def shares(generator, first, last):
    return np.bincount(cells(generator, first, last), minlength=generator.cells) / (last - first)


def hottest(generator, first, last):
    return int(shares(generator, first, last).argmax())


def test_an_order_is_known_by_its_number():
    assert TaxiOrders(seed=1).rows(10, 15)["order_id"].to_pylist() == list(range(10, 15))


@pytest.mark.parametrize("zipf", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("kind", [TaxiOrders, VehiclePositions])
def test_cells_follow_zipf(kind, zipf):
    found = np.sort(shares(kind(seed=1, cells=20, zipf=zipf), 0, 100_000))[::-1]
    expected = np.arange(1, 21.0) ** -zipf
    np.testing.assert_allclose(found, expected / expected.sum(), atol=0.006)


def test_orders_and_positions_share_their_hot_spots_but_not_their_rows():
    orders, positions = TaxiOrders(seed=4, cells=500), VehiclePositions(seed=4, cells=500)
    top = [set(np.argsort(-shares(kind, 0, 100_000))[:10]) for kind in (orders, positions)]
    assert len(top[0] & top[1]) >= 9
    assert (cells(orders, 0, 1000) != cells(positions, 0, 1000)).any()
    assert hottest(orders, 0, 10_000) != hottest(TaxiOrders(seed=5, cells=500), 0, 10_000)


def test_hot_spots_of_both_move_together_though_there_are_more_positions():
    orders = TaxiOrders(seed=4, cells=500, zipf=1.5, move_every=10_000)
    positions = VehiclePositions(seed=4, cells=500, zipf=1.5, move_every=50_000)
    found = []
    for turn in range(5):
        hot = hottest(orders, 10_000 * turn, 10_000 * turn + 2000)
        assert hot == hottest(positions, 50_000 * turn, 50_000 * turn + 10_000)
        found.append(hot)
    assert len(set(found)) > 3


def test_hot_spots_fade_over_into_each_other():
    city = TaxiOrders(seed=4, cells=500, zipf=1.5, move_every=50_000)
    old, new = hottest(city, 0, 1000), hottest(city, 50_000, 51_000)
    steps = [shares(city, first, first + 10_000) for first in range(0, 50_000, 10_000)]
    falling, rising = [step[old] for step in steps], [step[new] for step in steps]
    assert falling == sorted(falling, reverse=True)
    assert rising == sorted(rising)
    assert falling[2] == pytest.approx(rising[2], rel=0.15)


def test_without_moving_everything_stays():
    city = TaxiOrders(seed=4, zipf=1.5)
    assert hottest(city, 0, 1000) == hottest(city, 10**9, 10**9 + 1000)


def test_passengers_and_fares_are_plausible():
    orders = TaxiOrders(seed=2).rows(0, 100_000)
    found = np.bincount(orders["passengers"].to_numpy())[1:] / 100_000
    np.testing.assert_allclose(found, PASSENGERS, atol=0.005)
    fares = orders["fare"].to_numpy()
    assert np.median(fares) == pytest.approx(11, rel=0.02)
    assert fares.min() > 0


def test_vehicles_report_equally_often_and_are_free_as_told():
    rows = VehiclePositions(seed=2, vehicles=10, free_share=0.25).rows(0, 100_000)
    np.testing.assert_allclose(np.bincount(rows["vehicle_id"].to_numpy()), 10_000, rtol=0.05)
    assert rows["free"].to_numpy(zero_copy_only=False).mean() == pytest.approx(0.25, abs=0.01)
