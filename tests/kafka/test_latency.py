"""Latency, losses and doubles from what was sent and received."""

from __future__ import annotations

import math

import numpy as np

from foretide.kafka.latency import Account, Latency, Received, Sent, Window


def received(rows, due, arrived):
    return Received(*(np.array(each, dtype=np.int64) for each in (rows, due, arrived, np.array(arrived) // 1000)))


def test_percentiles_are_values_that_occurred():
    found = Latency.of(np.array([1.0] * 98 + [50.0, 700.0]))
    assert (found.tuples, found.p50, found.p99, found.p999, found.max) == (100, 1.0, 50.0, 700.0, 700.0)
    assert math.isnan(Latency.of(np.empty(0)).p50)


def test_latency_counts_from_the_due_time_even_if_the_row_was_sent_late():
    due = np.array([0, 1000, 2000], dtype=np.int64)
    sent = Sent(due, np.array([0, 91_000, 92_000], dtype=np.int64))
    arrived = received([0, 1, 2], due, [3_000, 94_000, 95_000])
    assert arrived.milliseconds.tolist() == [3.0, 93.0, 93.0]
    assert arrived.record_milliseconds(sent).tolist() == [3, 3, 3]
    assert sent.lateness.max == 90.0


def test_rows_lost_doubled_and_unknown_are_told_apart():
    due = np.arange(5, dtype=np.int64)
    arrived = received([4, 0, 0, 0, 2, 7, -1], np.zeros(7), np.zeros(7))
    assert Account.of(Sent(due, due), arrived) == Account(sent=5, lost=2, doubled=2, unknown=2)
    assert Account.of(Sent(due, due), received(range(5), due, due)) == Account(5, 0, 0, 0)


def test_what_was_due_in_a_span():
    arrived = received(range(4), [10, 20, 30, 40], [1010, 1020, 1030, 1040])
    assert arrived.due_between(20, 40).row.tolist() == [1, 2]


def test_files_keep_everything(tmp_path):
    due = np.array([5, 6], dtype=np.int64)
    Sent(due, due + 1, 3).save(tmp_path / "sent.npz")
    again = Sent.load(tmp_path / "sent.npz")
    assert (again.due.tolist(), again.sent.tolist(), again.failed) == ([5, 6], [6, 7], 3)
    Received(due, due, due + 2, due, 9).save(tmp_path / "received.npz")
    found = Received.load(tmp_path / "received.npz")
    assert (found.row.tolist(), found.received.tolist(), found.unreadable) == ([5, 6], [7, 8], 9)


def test_a_window_forgets_what_is_older():
    window = Window(seconds=2.0)
    assert window.live(0).latency.tuples == 0
    window.add(received([0, 1], [0, 900_000], [500_000, 1_000_000]))
    window.add(received([2], [1_990_000], [2_000_000]))
    now = window.live(2_400_000)
    assert (now.received, now.latency.tuples, now.latency.max, now.rate) == (3, 3, 500.0, 1.5)
    later = window.live(3_500_000)
    assert (later.received, later.latency.tuples, later.latency.max) == (3, 1, 10.0)
