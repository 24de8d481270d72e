"""What executors send about themselves, over a real socket."""

from __future__ import annotations

import socket
import time

import pytest

from foretide.metrics.metric import Reading
from foretide.probes.executor_metrics import PORT_SETTING, ExecutorMetrics, SentMetrics, own_address


@pytest.fixture
def receiver():
    opened = ExecutorMetrics.open("127.0.0.1")
    yield opened
    opened.close()


def send(receiver, *lines):
    """Send lines as Spark's sink does, one packet each, and wait until the last of them is there."""
    last = lines[-1].split()[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for line in lines:
            sender.sendto(f"{line}\n".encode(), ("127.0.0.1", receiver.port))
        end = time.monotonic() + 20
        while float(last) not in receiver.readings("app-1").get("3", Reading(0, 0, {})).values.values():
            assert time.monotonic() < end
            time.sleep(0.01)


def lines(heap, milliseconds):
    return (
        f"app-1.3.jvm.G1-Young-Generation.time {milliseconds} 1700000000",
        "app-1.3.jvm.G1-Young-Generation.count 2 1700000000",
        "app-1.3.jvm.direct.count 77 1700000000",
        "app-1.3.jvm.pools.G1-Old-Gen.used 12 1700000000",
        "app-1.3.ExecutorMetrics.ProcessTreeJVMRSSMemory 0 1700000000",
        "not a metric",
        f"app-1.3.jvm.heap.used {heap} 1700000000",
    )


def by_metric(samples):
    assert {sample.subject for sample in samples} == {"3"}
    return {sample.metric: sample.value for sample in samples}


def test_gauges_come_with_the_first_report_and_rates_with_the_second(receiver):
    sent = SentMetrics(receiver, "app-1")
    send(receiver, *lines(heap=5000, milliseconds=40))
    assert by_metric(sent.sample({})) == {"worker_heap_bytes": 5000, "worker_old_generation_bytes": 12}
    assert sent.sample({}) == []  # nothing new
    send(receiver, *lines(heap=6000, milliseconds=90))
    later = by_metric(sent.sample({}))
    assert later["worker_heap_bytes"] == 6000
    assert later["worker_gc_ms_per_second"] > 0
    assert later["worker_gc_per_second"] == 0


def test_executors_of_this_host_and_of_other_applications_are_left_out(receiver):
    send(receiver, *lines(heap=5000, milliseconds=40))
    assert SentMetrics(receiver, "app-1").sample({"3": 4711}) == []
    assert SentMetrics(receiver, "app-2").sample({}) == []
    assert SentMetrics(None, "app-1").sample({}) == []


def test_a_session_finds_the_receiver_by_the_port_in_its_settings(receiver):
    settings = receiver.settings()
    assert ExecutorMetrics.on(int(settings[PORT_SETTING])) is ExecutorMetrics.open("127.0.0.1") is receiver
    receiver.close()
    assert ExecutorMetrics.on(receiver.port) is None


def test_the_own_address_is_that_of_the_route_to_the_other_host():
    assert own_address("127.0.0.2") == "127.0.0.1"
    assert own_address("no such host") == own_address(None) == socket.gethostname()
