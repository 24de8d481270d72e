"""Remote machines: two real answers of node_exporter 1.5 served over HTTP, the real program where it is installed."""

from __future__ import annotations

import http.server
import lzma
import math
import re
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from foretide.metrics.machine_metrics import MACHINE
from foretide.probes.node_exporter import NodeExporter, ProbeUnavailableError, parse_node_exporter

HERE = Path(__file__).parent
EARLIER, LATER = (
    lzma.decompress((HERE / f"node_exporter_{moment}.txt.xz").read_bytes()).decode() for moment in ("earlier", "later")
)


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = self.server.answers.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    """Answers requests one after the other with what it is given, and says where."""
    servers = []

    def start(*answers):
        server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
        server.answers = [answer if isinstance(answer, tuple) else (200, answer) for answer in answers]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/metrics"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_remote_machine_gives_the_same_metrics_as_a_local_one(serve):
    ticks = iter([100.0, 105.0])
    machine = NodeExporter("b", serve(EARLIER, LATER), wall=lambda: 9.0, clock=lambda: next(ticks))
    gauges = machine.sample()
    found = {sample.metric: sample.value for sample in machine.sample()}
    assert {sample.metric for sample in gauges} < found.keys() < {metric.name for metric in MACHINE}
    # This exporter leaves out the loopback interface, and nothing was written to its disk in those seconds.
    missing = {metric.name for metric in MACHINE} - found.keys()
    assert missing == {"machine_loopback_bytes_per_second", "machine_disk_write_wait_ms"}
    assert all(math.isfinite(value) and value >= 0 for value in found.values())


def test_rates_of_a_remote_machine_are_those_worked_out_by_hand():
    before, after = parse_node_exporter(EARLIER, "b", 0, 100), parse_node_exporter(LATER, "b", 5, 105)
    assert after.values["context_switches_total"] - before.values["context_switches_total"] == 18_289_019 - 18_288_465
    assert before.cores["1"]["nice"] == 32.73
    assert before.disks["vda"]["reads_completed_total"] == 394_848
    assert before.networks["eth0"]["receive_bytes_total"] == 1_723_863_157
    from foretide.probes.machine import machine_samples

    found = {(sample.metric, sample.subject): sample.value for sample in machine_samples(before, after)}
    assert found["machine_context_switches_per_second", "b"] == pytest.approx(554 / 5)
    assert found["machine_tcp_received_segments_per_second", "b"] == pytest.approx(33 / 5)
    assert found["machine_disk_reads_per_second", "b"] == pytest.approx(2 / 5)
    busy, idle = 0.14 + 0.02 + 0.01, 4.99
    assert found["machine_core_busy_percent", "b/core0"] == pytest.approx(100 * busy / (busy + idle), abs=1e-6)
    size, left = 270_553_174_016, 80_832_618_496
    assert found["machine_root_filesystem_used_percent", "b"] == pytest.approx(100 * (1 - left / size))


def test_an_exporter_without_some_collectors_gives_the_rest(serve):
    cut = re.sub(r"(?m)^node_(pressure|vmstat|disk)_.*\n", "", EARLIER)
    found = {sample.metric for sample in NodeExporter("b", serve(cut)).sample()}
    assert "machine_load_1m" in found
    assert "machine_disk_in_flight" not in found


def test_numbers_that_are_none_and_broken_lines_are_passed_over():
    text = (
        'node_load1 NaN\nnode_load5 +Inf\nnode_load15 2\nnode_x{a="b\\"} c",d="e"} 1\nnode_y oops\nnode_\n# node_z 1\n'
    )
    assert parse_node_exporter(text, "b", 0, 0).values == {"load15": 2.0}


def test_a_machine_that_restarted_gives_gauges_alone(serve):
    machine = NodeExporter("b", serve(LATER, EARLIER))
    first = machine.sample()
    assert {sample.metric for sample in machine.sample()} == {sample.metric for sample in first}


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_nobody_there_is_said_with_host_and_reason():
    with pytest.raises(ProbeUnavailableError, match=r"machine 'b' cannot be measured.*node_exporter") as caught:
        NodeExporter("b", f"http://127.0.0.1:{free_port()}/metrics").sample()
    assert caught.value.host == "b"
    assert "refused" in caught.value.reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((503, "busy"), "status 503"),
        ("<html>hello</html>", "has no metrics of node_exporter"),
        ("", "no metrics of node_exporter"),
    ],
)
def test_another_answer_is_said_too(serve, answer, reason):
    with pytest.raises(ProbeUnavailableError, match=reason):
        NodeExporter("b", serve(answer)).sample()


@pytest.mark.parametrize("url", ["ftp://b/metrics", "b:9100", "http://", "http://b:port/"])
def test_an_address_that_makes_no_sense_is_said_too(url):
    with pytest.raises(ProbeUnavailableError):
        NodeExporter("b", url).sample()


def test_a_missed_answer_costs_one_sample_and_no_rate_after_it(serve):
    ticks = iter([100.0, 105.0])
    machine = NodeExporter("b", serve(EARLIER, (500, ""), LATER), clock=lambda: next(ticks))
    machine.sample()
    with pytest.raises(ProbeUnavailableError):
        machine.sample()
    found = {sample.metric: sample.value for sample in machine.sample()}
    assert found["machine_context_switches_per_second"] == pytest.approx(554 / 5)


def drip(listener, part):
    """A machine that answers a little at a time, for ever."""
    connection, _ = listener.accept()
    with connection:
        try:
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" if part else b"")
            while part:
                connection.sendall(part)
                time.sleep(0.02)
            connection.recv(1 << 16)
            connection.recv(1)
        except OSError:
            pass


@pytest.mark.parametrize("part", [b"", b"node_load1 1\n"], ids=["silent", "dripping"])
def test_a_machine_that_is_slow_is_given_up(part):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener, part))
        thread.start()
        with pytest.raises(ProbeUnavailableError, match=r"tim|long"):
            NodeExporter("b", f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout=0.2).sample()
        thread.join()


def test_the_usual_address_follows_from_the_host():
    assert NodeExporter("b").url == "http://b:9100/metrics"
    assert NodeExporter("::1").url == "http://[::1]:9100/metrics"


@pytest.mark.skipif(shutil.which("prometheus-node-exporter") is None, reason="node_exporter is not installed")
def test_the_real_program_gives_at_least_57_features():
    port = free_port()
    with subprocess.Popen(
        ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL
    ) as program:
        try:
            machine = NodeExporter("b", f"http://127.0.0.1:{port}/metrics")
            for _ in range(100):
                try:
                    machine.sample()
                    break
                except ProbeUnavailableError:
                    time.sleep(0.1)
            assert len({sample.metric for sample in machine.sample()}) >= 57
        finally:
            program.terminate()
