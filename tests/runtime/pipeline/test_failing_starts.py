"""A submit, or a control loop, that cannot start leaves nothing: no query, thread, port or open file."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

import foretide as ft

QUIET = {"workers_every": 0, "machines_every": 0}


def left(spark):
    """Active queries, Foretide's threads, ports that this process listens on, and its open files."""
    links = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    sockets = {link[8:-1] for link in links if link.startswith("socket:[")}
    tables = [Path(f"/proc/net/{table}").read_text().splitlines()[1:] for table in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table]
    ports = {line[1] for line in lines if line[3] == "0A" and line[9] in sockets}
    files = {link for link in links if link.startswith("/") and not link.startswith(("/dev", "/proc"))}
    threads = {thread for thread in threading.enumerate() if "foretide" in thread.name}
    return {query.name for query in spark.streams.active}, threads, ports, files


def numbers(spark):
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().select("value")


def topology(name):
    bolt = ft.Bolt("work", lambda df: df, [ft.From("numbers")], pool=2)
    return ft.Topology(name, [ft.Spout("numbers", ft.Stream(numbers))], [bolt])


@pytest.fixture
def taken_port():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_submit_that_fails_leaves_nothing(spark, start, tmp_path, taken_port):
    start(topology("twice"))
    before = left(spark)
    served = ft.MonitorSettings(prometheus_port=0, **QUIET)
    taken = ft.MonitorSettings(prometheus_port=taken_port, webhook="http://127.0.0.1:9/x", **QUIET)
    for name, settings, why in [
        ("refused", {"output_mode": "complete", "monitoring": served}, "[Cc]omplete"),
        ("twice", {"monitoring": served}, "twice"),
        ("served", {"monitoring": taken}, f"port {taken_port}"),
    ]:
        sink, checkpoint = ft.Parquet(str(tmp_path / name / "out")), str(tmp_path / name / "checkpoint")
        with pytest.raises(Exception, match=why):
            start(topology(name), sink, checkpoint, **settings)
        assert left(spark) == before, name


def test_a_submit_that_is_interrupted_leaves_no_query(spark, start, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("foretide.runtime.pipeline.query.QueryReader", interrupted)
    before = left(spark)
    with pytest.raises(KeyboardInterrupt):
        start(topology("interrupted"))
    assert left(spark) == before


def test_a_control_loop_that_cannot_start_leaves_nothing(spark, tmp_path, taken_port):
    edge = ft.edge("work", ft.Dynamic(by=("value",)), pool=2, control_folder=str(tmp_path / "control"))
    writer = numbers(spark).transform(edge).writeStream.queryName("plain").format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    settings = ft.Settings(monitoring=ft.MonitorSettings(prometheus_port=taken_port, **QUIET))
    try:
        before = left(spark)
        with pytest.raises(ft.errors.MonitoringError, match=f"port {taken_port}"):
            ft.control(query, ["replicas"], settings=settings, control_folder=str(tmp_path / "control"))
        assert left(spark) == before
    finally:
        query.stop()
