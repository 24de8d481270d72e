"""What is said of the target and the control loop at the end of a run."""

import io

import numpy as np
import pytest

from foretide.apps.experiment import Verification
from foretide.cli.console import Console
from foretide.cli.running.ending import (
    show_exactness,
    show_target,
    stopped_line,
    target_data,
    target_lines,
    target_verdict,
)
from foretide.cli.running.result_latency import ResultLatency
from foretide.control.target_record import TargetRecord
from foretide.control.world.setup import Latency, Target
from foretide.kafka.latency import Received

TARGET = Target(2.0)
TAKEN = Verification(1200, 5, 5, 0, 0)
MISSED = {"quantile": "p99", "seconds": 2.0, "measured": 5.9, "held": False, "batches": 40, "missed": 12}


def record(*seconds):
    """A record with a measurement every ten seconds."""
    found = TargetRecord(TARGET, cause="a lack of free cores", remedies=("more cores",))
    for place, each in enumerate(seconds):
        found = found.with_measured(each, at=100.0 + 10 * place)
    return found


def test_the_end_of_a_run_says_whether_the_target_was_held():
    held = target_verdict("p99", 6.0, 5.94, held=True, batches=9)
    assert held == "target p99 below 6 s: held, measured 5.94 s over all tuples; missed in 0 of 9 batches"
    assert "unknown" in target_verdict("p99", 6.0, None, held=None)


def test_a_run_that_holds_its_target_again_still_says_for_how_long_it_was_missed_and_why():
    assert list(target_lines(record(1.0, 3.0, 4.0, 1.0), MISSED)) == [
        "target p99 below 2 s: MISSED, measured 5.9 s over all tuples; missed in 12 of 40 batches",
        "  at the end, by the control loop: held, measured 1 s; missed in 2 of 4 measurements, 67 % of 30 s",
        "  likely cause of the last miss: a lack of free cores",
        "  what would have helped: more cores",
    ]


def test_where_no_due_times_are_known_the_loop_says_how_the_target_was_kept():
    lines = list(target_lines(record(1.0, 3.0), None))
    assert lines == [
        "target p99 below 2 s: MISSED, measured 3 s; missed in 1 of 2 measurements, 100 % of 10 s",
        "  likely cause: a lack of free cores",
        "  what would help: more cores",
    ]
    assert target_data(record(1.0, 3.0)) == {
        "quantile": "p99", "seconds": 2.0, "measured": 3.0, "held": False,
        "measurements": 2, "missed": 1, "missed_seconds": 10.0,
    }  # fmt: skip


def test_a_target_that_was_changed_meanwhile_is_named_beside_the_one_of_the_start():
    changed = TargetRecord(Target(9.0)).with_measured(3.0, at=1.0)
    assert list(target_lines(changed, MISSED))[1] == (
        "  at the end, by the control loop: target p99 below 9 s: held, measured 3 s; never missed in 1 measurement"
    )


def test_without_a_target_nothing_is_said_of_one():
    assert list(target_lines(TargetRecord(), None)) == []
    assert list(target_lines(None, None)) == []
    assert target_data(TargetRecord()) is None
    assert len(list(target_lines(None, MISSED))) == 1


def test_one_of_several_runs_is_named_in_the_first_line():
    text = io.StringIO()
    show_target(Console(file=text, width=200), record(1.0, 3.0), MISSED, "control on")
    first, *others = text.getvalue().splitlines()
    assert first.startswith("control on: target p99 below 2 s: MISSED")
    assert len(others) == 3
    assert not any(line.startswith("control on") for line in others)


@pytest.mark.parametrize(
    ("batch", "verification", "said"),
    [
        (-1, None, "stopped as requested before its first batch; not compared"),
        (7, None, "stopped as requested after batch 7; not compared"),
        (
            7,
            Verification(1200, 5, 5, 0, 0),
            "stopped as requested after batch 7; judged by the 1,200 rows that it took",
        ),
    ],
)
def test_a_run_that_was_stopped_says_what_it_is_judged_by(batch, verification, said):
    assert stopped_line(batch, verification) == said


def test_results_that_were_not_compared_are_neither_exact_nor_wrong():
    def said(*compared):
        text = io.StringIO()
        show_exactness(Console(file=text), compared, "exact", "wrong")
        return text.getvalue()

    good, bad = Verification(10, 5, 5, 0, 0), Verification(10, 5, 4, 1, 0)
    assert said(None, None) == ""
    assert said(good, None) == "exact\n"
    assert said(good, bad) == "wrong\n"


def received(due, seconds):
    """Records by the second in which their tuples were due, and how long they took."""
    due = np.array(due) * 1_000_000
    return Received(np.arange(due.size), due, due + (np.array(seconds) * 1e6).astype(np.int64), due // 1000)


def test_the_latency_through_kafka_is_judged_by_the_second():
    results = ResultLatency.of(received([103, 100, 100, 101], [0.5, 0.02, 0.04, 0.2]), origin=100.0)
    assert dict(results.by_second(0.99)) == pytest.approx({0: 0.04, 1: 0.2, 3: 0.5})
    assert dict(results.by_second(None))[0] == pytest.approx(0.03)
    assert results.quantile(0.5, 0.0, 1.0) == pytest.approx(0.02)
    assert results.quantile(0.99, 2.0, 3.0) is None
    compared = results.compared_with(Latency(p99="100ms"))
    assert compared == {
        "quantile": "p99", "seconds": 0.1, "measured": 0.5, "held": False, "intervals": 3, "missed": 2,
    }  # fmt: skip
    assert target_verdict(**compared).endswith("measured 500 ms over all tuples; missed in 2 of 3 seconds")
    assert results.compared_with(Latency(mean="1s"))["measured"] == pytest.approx(0.19)
    assert results.compared_with(Target()) is None


def test_a_run_without_results_has_no_latency():
    compared = ResultLatency.none().compared_with(Latency(p99="1s"))
    assert (compared["measured"], compared["held"], compared["intervals"]) == (None, None, 0)
    assert "unknown" in target_verdict(**compared)
