"""What the offsets of a batch tell, and that every record of a source or sink has a port."""

import pytest

import foretide as ft
from foretide.spark.sinks import sink_port
from foretide.spark.sources.registry import source_port, source_range
from foretide.topology.sinks import Sink
from foretide.topology.sources import Source
from foretide.workloads.keyed import Keyed


def taken(start, end, latest=None):
    return source_range(start, end, latest or {}, input_rows=0)


def test_a_source_that_counts_rows_says_how_many_it_handed_out():
    assert taken({"spout": "lines", "row": 40}, {"spout": "lines", "row": 100}).rows == 60
    assert taken({"row": 40}, {"row": 40}).rows == 0


def test_a_first_batch_has_no_start_and_begins_at_row_0():
    assert taken({}, {"spout": "lines", "row": 7}).rows == 7


def test_a_source_that_does_not_count_rows_says_nothing_of_them():
    other = taken({"logOffset": 1}, {"logOffset": 2}, {"logOffset": 9})
    assert (other.spout, other.rows, other.backlog) == (None, None, None)


def test_the_backlog_is_what_was_due_but_not_taken_and_never_negative():
    assert taken({}, {"row": 10}, {"row": 25}).backlog == 15
    assert taken({}, {"row": 10}, {"row": 5}).backlog == 0
    assert taken({}, {"row": 10}).backlog is None


REPLAY = ft.Replay(Keyed(seed=1), ft.Curve.constant(10, 2), max_rows=5)


@pytest.mark.parametrize("kind", Source.__subclasses__())
def test_every_kind_of_source_has_a_port(kind):
    assert source_port(object.__new__(kind) if kind is not ft.Replay else REPLAY).load


@pytest.mark.parametrize("kind", Sink.__subclasses__())
def test_every_kind_of_sink_has_a_port(kind):
    assert sink_port(object.__new__(kind)).start


@pytest.mark.parametrize("source", [ft.Rate(1), ft.Files("in", "n int"), ft.Stream(lambda spark: None)])
def test_what_a_plain_spark_source_cannot_tell_is_unknown(source):
    port, batch = source_port(source), taken({"logOffset": 1}, {"logOffset": 2})
    assert (port.total_rows, port.is_over(batch), port.origin(batch), port.input_table(batch)) == (None,) * 4
    assert port.arrival_times(batch, [0]) is None


def test_a_replay_is_over_with_the_batch_that_took_the_last_row():
    port = source_port(REPLAY)
    assert [port.is_over(taken({"row": 0}, {"row": row})) for row in (19, 20)] == [False, True]
    assert port.is_over(taken({}, {"logOffset": 20})) is None
