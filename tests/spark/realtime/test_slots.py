"""Slots are counted before anything is started."""

from __future__ import annotations

import pytest

from foretide.errors import TopologyError
from foretide.spark.realtime.slots import Slots


def test_enough_slots_are_no_problem():
    Slots({"read": 2, "parse": 4}, control=2).check("urls", 8)


def test_too_few_slots_are_refused_with_what_each_operator_needs():
    with pytest.raises(TopologyError) as refused:
        Slots({"read": 2, "parse": 4}, control=2).check("urls", 6)
    text = str(refused.value)
    assert "K_max is 6 slots" in text
    assert "needs 8 (read 2, parse 4, control 2), 2 more than there are" in text
