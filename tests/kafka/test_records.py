"""The records that a feed makes and a collector reads."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError, KafkaException

from foretide.kafka.collect import Arrival, end_of, parsed
from foretide.kafka.feed import chunks
from foretide.workloads.curve import Curve
from foretide.workloads.requests import RequestLines


def test_a_feed_makes_every_row_once_with_its_due_time():
    curve, generator = Curve.steps([(1.0, 600.0), (1.0, 300.0)]), RequestLines(seed=3)
    made = [each for chunk in chunks(generator, curve, start=1_000_000) for each in chunk]
    records = [json.loads(value) for _, value in made]
    assert [record["row"] for record in records] == list(range(900))
    assert [record["due"] for record in records] == [due for due, _ in made]
    assert made[0][0] == 1_000_000 + round(1e6 / 600)
    assert made[-1][0] == 3_000_000
    assert [record["line"] for record in records] == generator.rows(0, 900)["line"].to_pylist()


def test_an_endless_curve_gives_rows_for_ever():
    source = chunks(RequestLines(seed=3), Curve.constant(10.0), start=0)
    rows = [json.loads(value)["row"] for _ in range(5) for _, value in next(source)]
    assert rows == list(range(len(rows)))


def arrival(value, received=7):
    return Arrival(value, received, 3)


def test_records_are_read_whatever_else_they_contain():
    good = [arrival(b'{"row":%d,"due":%d,"host":"a","n":{"x":[1]}}' % (n, 10 * n), n + 100) for n in range(500)]
    found = parsed(good)
    assert found.row.tolist() == list(range(500))
    assert found.due.tolist() == list(range(0, 5000, 10))
    assert found.received.tolist() == list(range(100, 600))
    assert found.unreadable == 0


def test_what_cannot_be_read_is_counted_and_spoils_nothing():
    bad = [b"not json", None, b"", b"[1]", b'{"row": 1}', b'{"row": "x", "due": 1}', b'{"row": -4, "due": 1}', b"\xff"]
    values = [b'{"row":1,"due":2}', *bad, b'{"due":4,"row":3}']
    found = parsed([arrival(value) for value in values])
    assert (found.row.tolist(), found.due.tolist(), found.unreadable) == ([1, 3], [2, 4], len(bad))
    assert parsed([]).row.size == 0


class Unready:
    """A consumer whose broker refuses the first requests."""

    def __init__(self, refusals):
        self.refusals = refusals

    def get_watermark_offsets(self, _place, timeout):
        assert timeout > 0
        self.refusals -= 1
        if self.refusals >= 0:
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
        return 0, 17


def test_a_partition_without_a_leader_yet_is_asked_for_again():
    assert end_of(Unready(2), None) == 17
    with pytest.raises(KafkaException):
        end_of(Unready(1_000_000), None, seconds=0.01)
