"""Arrivals and latency of a batch, against working out every row."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.metrics.batch import BatchReport, EventTimes
from foretide.metrics.from_batch import SpoutFigures
from foretide.runtime.monitoring.tuple_latency import QUANTILES, TupleLatency
from foretide.spark.sources.registry import source_port, source_range
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.sources import Rate, Replay
from foretide.workloads.curve import Curve
from foretide.workloads.requests import RequestLines

ORIGIN = 1_700_000_000.25
FINISHED = ORIGIN + 9.0
SOURCES = {
    "steady": source_port(Replay(RequestLines(1), Curve.steps([(2, 50), (1, 0), (3, 200)]))),
    "random": source_port(Replay(RequestLines(2), Curve.constant(40, 8).with_poisson_arrivals(seed=3))),
}
STEADY, RANDOM = SOURCES["steady"].plan, SOURCES["random"].plan
ARRIVALS = TupleLatency(SOURCES)


def latency_of(batch):
    return ARRIVALS.latency(batch, ARRIVALS.figures(batch))


def taken(spout, first, last):
    offset = {"spout": spout, "origin_ms": int(ORIGIN * 1000)}
    return source_range({**offset, "row": first}, {**offset, "row": last}, {}, last - first)


def report(*sources, rows=None, event_times=None):
    count = sum(source.input_rows for source in sources) if rows is None else rows
    return BatchReport(3, FINISHED, 1.0, count, None, None, tuple(sources), event_times=event_times or {})


def latencies(plan, first, last):
    return [FINISHED - ORIGIN - due for due in plan.due_seconds(first, last)]


def by_sorting(values, share):
    """The least latency that this share of the tuples stayed within."""
    return sorted(values)[max(1, math.ceil(Fraction(share).limit_denominator(100) * len(values))) - 1]


def spans(plan, most=200):
    def cut(first, count):
        return first, min(first + count, plan.total_rows)

    return st.builds(cut, st.integers(0, plan.total_rows - 1), st.integers(1, most))


@settings(deadline=None, max_examples=50)
@given(spans(STEADY))
def test_one_replay_is_exact(span):
    every = latencies(STEADY, *span)
    found = latency_of(report(taken("steady", *span)))
    assert found.pop("latency_mean_ms") == pytest.approx(sum(every) / len(every))
    assert found == {name: pytest.approx(by_sorting(every, share)) for name, share in QUANTILES.items()}


@settings(deadline=None, max_examples=50)
@given(spans(STEADY), spans(RANDOM))
def test_two_replays_are_mixed_as_one_sorted_batch(steady, random):
    every = [*latencies(STEADY, *steady), *latencies(RANDOM, *random)]
    found = latency_of(report(taken("steady", *steady), taken("random", *random)))
    assert found.pop("latency_mean_ms") == pytest.approx(sum(every) / len(every))
    assert found == {name: pytest.approx(by_sorting(every, share)) for name, share in QUANTILES.items()}


def test_large_batches_are_sampled_and_come_close():
    every = [*latencies(STEADY, 0, 700), *latencies(RANDOM, 0, 10)]
    found = latency_of(report(taken("steady", 0, 700), taken("random", 0, 10)))
    assert found.pop("latency_mean_ms") == pytest.approx(sum(every) / len(every), rel=0.01)
    assert found == {name: pytest.approx(by_sorting(every, share), abs=0.05) for name, share in QUANTILES.items()}


@settings(deadline=None, max_examples=50)
@given(spans(STEADY), spans(RANDOM))
def test_latency_never_falls_from_one_quantile_to_the_next(steady, random):
    found = latency_of(report(taken("steady", *steady), taken("random", *random)))
    p50, p95, p99 = (found[name] for name in QUANTILES)
    assert 0 <= p50 <= p95 <= p99


# ---- figures of single spouts


def test_even_arrivals_have_their_rate_and_no_variation():
    figures = ARRIVALS.figures(report(taken("steady", 0, 100)))["steady"]
    assert figures.arrival_rate == pytest.approx(50)
    assert figures.arrival_scv == pytest.approx(0, abs=1e-9)
    assert figures.tuples == 100
    assert figures.mean_latency == pytest.approx(9 - 1.01)  # rows fall due at 0.02, 0.04, ..., 2.00 s: mean 1.01


@settings(deadline=None, max_examples=50)
@given(spans(RANDOM, 320))
def test_random_arrivals_have_the_rate_and_variation_of_their_gaps(span):
    gaps = np.diff(RANDOM.due_seconds(*span))
    figures = ARRIVALS.figures(report(taken("random", *span)))["random"]
    if len(gaps):
        assert figures.arrival_rate == pytest.approx(len(gaps) / gaps.sum())
        assert figures.arrival_scv == pytest.approx(np.var(gaps) / np.mean(gaps) ** 2)
    else:
        assert (figures.arrival_rate, figures.arrival_scv) == (None, None)


def test_poisson_arrivals_vary_about_as_much_as_poisson_arrivals_do():
    assert ARRIVALS.figures(report(taken("random", 0, 320)))["random"].arrival_scv == pytest.approx(1, abs=0.35)


def test_a_first_batch_begins_at_row_0():
    first = source_range({}, taken("steady", 0, 10).end, {}, 10)
    assert ARRIVALS.figures(report(first)) == ARRIVALS.figures(report(taken("steady", 0, 10)))


# ---- event times

OBSERVED = EventTimes(400, FINISHED - 2, {0.01: FINISHED - 8, 0.05: FINISHED - 5, 0.5: FINISHED - 1.5})


def test_observed_event_times_tell_latency_from_the_oldest_tuples():
    batch = report(rows=400, event_times={"ticks": OBSERVED})
    assert ARRIVALS.figures(batch) == {"ticks": SpoutFigures(None, None, 2.0, 400)}
    assert latency_of(batch) == {
        "latency_mean_ms": 2.0,
        "latency_p50_ms": 1.5,
        "latency_p95_ms": 5.0,
        "latency_p99_ms": 8.0,
    }


def test_two_observed_spouts_have_a_mean_of_all_tuples_but_no_quantiles():
    other = EventTimes(100, FINISHED - 12, dict(OBSERVED.at))
    found = latency_of(report(rows=500, event_times={"ticks": OBSERVED, "tocks": other}))
    assert found == {"latency_mean_ms": pytest.approx(4.0)}  # (400 * 2 + 100 * 12) / 500


def test_spouts_whose_tuples_were_measured_together_at_the_sink_share_the_quantiles():
    both = report(rows=500, event_times={"ticks": OBSERVED, "tocks": replace(OBSERVED, tuples=100)})
    assert latency_of(both) == latency_of(report(rows=400, event_times={"ticks": OBSERVED}))


def test_a_replay_beside_an_observed_spout_has_a_mean_of_all_tuples_but_no_quantiles():
    found = latency_of(report(taken("steady", 0, 100), rows=500, event_times={"ticks": OBSERVED}))
    assert found == {"latency_mean_ms": pytest.approx((100 * (9 - 1.01) + 400 * 2) / 500)}


def test_a_replay_knows_better_than_its_own_observed_event_times():
    alone = latency_of(report(taken("steady", 0, 100)))
    assert latency_of(report(taken("steady", 0, 100), event_times={"steady": OBSERVED})) == alone


# ---- what is not known


@pytest.mark.parametrize(
    "batch",
    [
        report(),
        report(taken("steady", 5, 5)),
        report(taken("steady", 5, 5), taken("random", 9, 9)),
        report(source_range({}, {"logOffset": 1}, {}, 50)),
        report(taken("unheard of", 0, 50)),
    ],
)
def test_an_empty_batch_and_a_spout_without_a_clock_tell_nothing(batch):
    assert ARRIVALS.figures(batch) == {}
    assert latency_of(batch) == {}


def test_latency_of_only_some_of_the_tuples_is_not_latency_of_the_batch():
    batch = report(taken("steady", 0, 50), source_range({}, {"logOffset": 1}, {}, 50))
    assert set(ARRIVALS.figures(batch)) == {"steady"}
    assert latency_of(batch) == {}


def test_an_idle_spout_beside_a_busy_one_does_not_count():
    alone = latency_of(report(taken("steady", 0, 50)))
    assert latency_of(report(taken("steady", 0, 50), taken("random", 7, 7))) == alone != {}


def test_only_replays_that_wait_for_their_rows_have_a_clock():
    curve = Curve.constant(10, 1)
    spouts = [
        Spout("paced", Replay(RequestLines(1), curve)),
        Spout("hurried", Replay(RequestLines(1), curve, paced=False)),
        Spout("ticks", Rate(1)),
    ]
    bolt = Bolt("all", lambda frame: frame, [From(spout.id) for spout in spouts])
    batch = report(*(taken(spout.id, 0, 5) for spout in spouts))
    assert set(TupleLatency.of(Topology("app", spouts, [bolt])).figures(batch)) == {"paced"}
