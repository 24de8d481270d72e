import numpy as np
import pytest

from foretide.errors import WorkloadError
from foretide.workloads.plates import Plates, owners


def test_about_five_in_a_hundred_speed():
    speeds = Plates(seed=1).rows(0, 200_000)["speed"].to_numpy()
    assert (speeds > 130).mean() == pytest.approx(0.05, rel=0.05)
    assert (speeds > 0).all()


def test_limit_and_share_can_be_chosen():
    speeds = Plates(seed=1, limit=50, speeding=0.5, spread=0.3).rows(0, 200_000)["speed"].to_numpy()
    assert np.median(speeds) == pytest.approx(50, rel=0.01)
    assert np.log(speeds).std() == pytest.approx(0.3, rel=0.01)


def test_plates_are_about_equally_frequent():
    plates = Plates(seed=1, vehicles=10).rows(0, 100_000)["plate"].value_counts().to_pylist()
    assert len(plates) == 10
    np.testing.assert_allclose([plate["counts"] for plate in plates], 10_000, rtol=0.04)


def test_the_register_knows_every_plate_once():
    register = owners(2000, seed=3)
    assert register.column_names == ["plate", "name", "licence"]
    assert len(set(register["plate"].to_pylist())) == len(set(register["licence"].to_pylist())) == 2000
    seen = set(Plates(seed=9, vehicles=2000).rows(0, 50_000)["plate"].to_pylist())
    assert seen <= set(register["plate"].to_pylist())


def test_the_register_follows_from_its_seed():
    assert owners(100, seed=3) == owners(100, seed=3)
    assert owners(100, seed=3)["name"] != owners(100, seed=4)["name"]
    assert owners(100, seed=3)["plate"] == owners(100, seed=4)["plate"]
    assert owners(50, seed=3) == owners(100, seed=3).slice(0, 50)


@pytest.mark.parametrize(("vehicles", "seed"), [(0, 1), (10**8, 1), (1.5, 1), (10, -1), (10, None)])
def test_a_bad_register_is_refused(vehicles, seed):
    with pytest.raises(WorkloadError, match="must be a whole number"):
        owners(vehicles, seed)
