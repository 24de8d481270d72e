"""Generated trouble: one worker at a time, announced by what its machine reads."""

from itertools import pairwise

import numpy as np
import pytest
from benchmarks.generators.announced import reading, troubles

from foretide.errors import WorkloadError


def test_trouble_comes_one_after_the_other_and_is_announced():
    found = troubles(4, 2000.0, ["a", "b"])
    assert len(found) > 10
    assert all(two.start - two.lead >= one.end for one, two in pairwise(found))
    rng = np.random.default_rng(1)
    one = found[0]
    assert reading(rng, found, one.worker, one.start - 1) > 5 * reading(rng, found, one.worker, one.start + 1)
    assert one.slows(one.start)
    assert not one.slows(one.start - 1)
    with pytest.raises(WorkloadError):
        troubles(1, 100.0, [])
