"""Feed and collector as processes, with a real broker between them."""

from __future__ import annotations

import tempfile

import pytest

from foretide.errors import KafkaError
from foretide.kafka.children import Child, Collector, Feed
from foretide.kafka.latency import Account
from foretide.spark.kafka_broker import Broker, create_topics
from foretide.workloads.curve import Curve
from foretide.workloads.requests import RequestLines
from helpers import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.apart]


def test_every_row_arrives_once_with_its_times(tmp_path):
    with Broker(tmp_path) as broker:
        create_topics(broker.address, ["requests"], 2)
        collector = Collector(broker.address, "requests").start()
        feed = Feed(broker.address, "requests", RequestLines(seed=1), Curve.constant(500.0, 2.0)).start()
        assert feed.running
        assert feed.wait(60)
        live = wait_for(lambda: (found := collector.live()) and found.received == 1000 and found)
        sent, received = feed.stop(), collector.stop()
        endless = Feed(broker.address, "requests", RequestLines(seed=1), Curve.constant(100.0)).start()
        assert endless.stop().failed == 0
        with pytest.raises(KafkaError, match="topic 'none' does not exist"):
            Collector(broker.address, "none").start()
    assert live.latency.tuples <= 1000
    assert sent.failed == received.unreadable == 0
    assert Account.of(sent, received) == Account(1000, 0, 0, 0)
    assert (sent.sent >= sent.due).all()
    assert (received.received >= received.due).all()
    assert sent.due[0] == feed.start_time + 2000
    assert (received.due == sent.due[received.row]).all()
    assert (received.record_milliseconds(sent) == 0).all()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_start_that_is_cut_off_leaves_neither_process_nor_folder(tmp_path, monkeypatch, error):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = Child("foretide.kafka.collect", "collector")

    def cut_off(_):
        raise error

    with pytest.raises(error):
        child._launch(cut_off)
    assert not child.running
    assert list(tmp_path.iterdir()) == []
