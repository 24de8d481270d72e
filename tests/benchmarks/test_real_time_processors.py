"""What the benchmark of DRS makes of the spans in which allocations were in force."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.real_time_processors import CASES, Span, compared

from foretide.kafka.latency import Received
from foretide.queueing.network import Flow, Network, Operator

CASE = CASES[0]
MODEL = Network((Operator("parse", 200.0), Operator("out", 100.0)), (Flow("parse", "out"),), {"parse": 50.0})


def received(milliseconds):
    """Ten tuples in each second, which take as long as is given for that second."""
    due = np.arange(len(milliseconds) * 10, dtype=np.int64) * 100_000
    took = np.repeat(np.array(milliseconds, dtype=np.int64) * 1000, 10)
    return Received(np.arange(due.size), due, due + took, (due + took) // 1000)


def test_a_stall_in_one_span_decides_nothing():
    spans = [Span((3, 5), place, place + 1) for place in range(3)] + [Span((4, 4), 3, 4), Span((3, 5), 4, 5, twin=True)]
    rows, goal = compared(CASE, MODEL, (3, 5), received([20, 900, 22, 21, 24]), spans)
    assert [(row["allocation"], row["measured"]) for row in rows] == [("4:4", 21), ("3:5 (recommended)", 22)]
    assert goal["above the best, %"] == pytest.approx(100 / 21)
    assert goal["best or within 5 %"]
    assert goal["noise, %"] == pytest.approx(200 / 24)


def test_the_error_of_the_model_is_told_without_and_with_what_was_fitted():
    spans = [Span((3, 5), 0, 1), Span((3, 5), 1, 2, twin=True)]
    rows, goal = compared(CASE, MODEL, (3, 5), received([20, 20]), spans)
    alone = 100 * (rows[0]["model"] / 20 - 1)
    assert alone < -10
    assert rows[0]["error of the model, %"] == pytest.approx(alone)
    assert rows[0]["error with transport, %"] == pytest.approx(0)
    assert goal["mean error of the model, %"] == pytest.approx(-alone)
    assert goal["mean error with transport, %"] == pytest.approx(0)
