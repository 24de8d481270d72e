"""What the benchmark of real-time mode makes of what its feed and collector saw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from benchmarks.real_time import goals, latency_row, rate_row
from benchmarks.real_time_run import REPARTITION, ROUTED, Measured, Variant, measured, pooled
from benchmarks.report import markdown

from foretide.kafka.latency import Account, Latency, Received, Sent


def test_tuples_due_while_a_query_stood_still_are_told_apart():
    """A tuple a millisecond for 20 s, 2 ms each, but for 200 ms in which nothing comes out; the rest comes after it."""
    due = np.arange(20_000, dtype=np.int64) * 1000
    arrived = due + 2000
    still = (arrived > 12_000_000) & (arrived < 12_200_000)
    arrived[still] = 12_200_000
    variant = Variant(seconds=14.0, batch=60.0)
    received = Received(np.arange(20_000), due, arrived, arrived // 1000)
    found = measured(variant, 0, Sent(due, due), received, [12_050_000], 0.5)
    assert found.milliseconds.size == 14_000  # after 6 s of warming up
    assert found.boundaries == (200.0,)
    assert found.inside.sum() == 200
    assert Latency.of(found.milliseconds[~found.inside]).p99 == 2.0
    assert Latency.of(found.milliseconds).max > 195
    assert found.account == Account(20_000, 0, 0, 0)


def run_of(edge, milliseconds):
    values = np.array(milliseconds, dtype=np.float64)
    none = np.zeros(values.size, dtype=bool)
    return Measured(
        Variant(edge), values, values.astype(np.int64), none, (), Account(0, 0, 0, 0), Latency.of(values), 0, 1.5
    )


def test_goals_are_judged_over_all_runs():
    runs = [run_of(ROUTED, [3, 3, 3]), run_of(REPARTITION, [2, 2]), run_of(ROUTED, [3, 3, 90])]
    both = [(3.0, True), (90.0, False)]
    assert [(row["measured"], row["met"]) for row in goals(runs)] == [*both, *both, (1.5, False)]
    assert "| p50 below 4 ms, record to record | 3.000 | True |" in markdown({"goals": goals(runs)})


def test_runs_of_a_variant_are_pooled():
    one = replace(run_of(ROUTED, [1, 2]), boundaries=(200.0,), account=Account(5, 1, 0, 0), cores=0.5, load=1.0)
    two = replace(run_of(ROUTED, [3]), boundaries=(300.0,), account=Account(7, 0, 2, 0), cores=1.5, load=4.0)
    both = pooled([one, two])
    assert list(both.milliseconds) == [1, 2, 3]
    assert (both.boundaries, both.account, both.cores) == ((200.0, 300.0), Account(12, 1, 2, 0), 1.0)
    assert both.inside.size == both.records.size == 3
    assert both.load == 2.5


def test_rows_say_the_mode_and_the_load_of_the_machine():
    run = run_of(ROUTED, [1, 2])
    micro = replace(run, variant=Variant(batch=None))
    shown = [rate_row(run), rate_row(micro), latency_row(micro)]
    assert [row["mode"] for row in shown] == ["real time", "micro-batch, 0 seconds", "micro-batch, 0 seconds"]
    assert [row["boundary"] for row in shown[:2]] == ["none", "none"]
    assert [row["load of the machine"] for row in shown] == [1.5, 1.5, 1.5]
