"""What the comparison with other engines makes of their answers, and what it says where it cannot run."""

from __future__ import annotations

import doctest
import importlib
import json
import shutil

import numpy as np
import pytest
from benchmarks.peers import latency, slow_task, throughput
from benchmarks.peers.build import SOURCES, build, digest, folder_of, missing
from benchmarks.peers.kafka import Outcome
from benchmarks.peers.process import PeerError, Running, answer, command
from benchmarks.peers.rows import LINE, checksum, page
from benchmarks.peers.sides import FLINK, FLINK_ADAPTIVE, FORETIDE, LATENCY, STORM, STREAMS, THROUGHPUT, Side
from benchmarks.peers.throughput import Run, rate

from benchmarks import peers
from foretide.errors import EnvironmentNotReadyError
from foretide.kafka.latency import Account, Received, Sent


@pytest.mark.parametrize("module", ["build", "process", "rows", "sides", "throughput"])
def test_examples_of_the_modules_hold(module):
    assert doctest.testmod(importlib.import_module(f"benchmarks.peers.{module}")).failed == 0


def test_lines_of_libraries_are_no_answers():
    assert answer("SLF4J: no providers were found\n") is None
    assert answer('peer {"ready": true}\n') == {"ready": True}
    for line in ("peer {", "peer [1]", "peer nonsense"):
        with pytest.raises(PeerError, match="must answer with"):
            answer(line)


def test_a_side_that_ends_without_an_answer_is_an_error_with_what_it_said():
    side = Side("none", "No side", None, "benchmarks.peers.no_such_module")
    with Running(side, {}) as process, pytest.raises(PeerError, match=r"(?s)No side ended.*no_such_module"):
        process.answer(60.0)


def test_a_side_is_started_with_its_own_options_and_those_of_the_measurement():
    found = command(FLINK_ADAPTIVE, {"mode": "kafka"}, "/folder")
    assert found[0] == "java"
    assert found[-3:] == ["foretide.peers.FlinkPeer", "adaptive=true", "mode=kafka"]
    assert command(FORETIDE, {"mode": "kafka"}, "/folder")[-3:] == ["folder=/folder", "control=false", "mode=kafka"]


def test_sides_take_turns_to_and_fro():
    found = [each.name for each in peers.turns((FORETIDE, STORM, FLINK), 2, ())]
    assert found == ["foretide", "storm", "flink", "flink", "storm", "foretide"]
    assert [each.name for each in peers.turns((FORETIDE, STORM, FLINK), 1, ("flink",))] == ["flink"]


def test_titles_name_the_pinned_versions():
    assert all(each.title == "Foretide" or each.title.split(",")[0][-1].isdigit() for each in (*THROUGHPUT, *LATENCY))


def test_the_page_names_the_pinned_versions():
    page_text = (SOURCES.parents[1] / "docs" / "peers.md").read_text(encoding="utf-8")
    assert [each.title for each in (STORM, FLINK, STREAMS) if each.title not in " ".join(page_text.split())] == []


# ---- where it cannot run


def test_without_maven_or_java_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = peers.run(quick=True, folder=tmp_path)
    assert found == {
        "skipped": "the peers need Java 17 or newer and a JDK of Java 17 or newer and Maven: "
        "install it to compare with them"
    }


def test_what_maven_says_is_passed_on(monkeypatch, tmp_path):
    for name, text in (("mvn", "echo '[ERROR] no such artifact'; exit 1"), ("java", ""), ("javac", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("FORETIDE_PEERS", str(tmp_path / "cache"))
    with pytest.raises(EnvironmentNotReadyError, match="cannot build the peer storm: no such artifact"):
        build({"storm"})
    assert not folder_of("storm").exists()


@pytest.mark.soak
@pytest.mark.skipif(bool(missing()), reason="Maven or a JDK is missing")
def test_maven_builds_all_peers(monkeypatch, tmp_path):
    monkeypatch.setenv("FORETIDE_PEERS", str(tmp_path))
    build({"storm", "flink", "streams"})
    for profile, main in (("storm", "StormPeer"), ("flink", "FlinkPeer"), ("streams", "StreamsPeer")):
        assert (folder_of(profile) / "classes" / "foretide" / "peers" / f"{main}.class").is_file()


def test_changed_sources_are_built_anew(tmp_path):
    copy = tmp_path / "peers"
    shutil.copytree(SOURCES, copy)
    assert digest(copy) == digest(SOURCES)
    (copy / "src/main/java/foretide/peers/Workload.java").write_text("final class Workload {}")
    assert digest(copy) != digest(SOURCES)
    assert folder_of("storm", copy) != folder_of("storm")


def test_a_side_that_fails_is_named_and_the_others_are_compared(tmp_path):
    def measure(side):
        if side is STORM:
            raise PeerError("no answer")
        return [Run(side, ((1.0, 400), (2.0, 600)), 1.0)]

    found = peers.Found(tmp_path / "figures")
    found.add("rows/s", throughput, measure, (FORETIDE, STORM, FLINK))
    assert [row["side"] for row in found.figures["rows/s"]] == ["Foretide", FLINK.title]
    assert found.figures["failed"] == [{"table": "rows/s", "side": STORM.title, "why": "no answer"}]
    assert "no answer" in (tmp_path / "figures" / "peers.md").read_text()
    (raw, _) = json.loads(found.raw_path.read_text())["rows/s"]
    assert raw == {"side": "Foretide", "samples": [[1.0, 400], [2.0, 600]], "load": 1.0}


# ---- rows


def test_spark_makes_the_rows_whose_checksum_is_known(spark):
    rows = np.array([0, 1, 2, 999, 12_345, 40_000_000, 2_000_000_000])
    frame = spark.createDataFrame([(int(each),) for each in rows], "value long").selectExpr("value", f"{LINE} AS line")
    lines = {row.value: row.line for row in frame.collect()}
    assert lines == {
        int(row): f"{row} 1190146243.{row % 1000} http://en.wikipedia.org/wiki/Page_{number} -"
        for row, number in zip(rows, page(rows), strict=True)
    }


def test_the_checksum_is_that_of_all_rows():
    assert checksum(1_500_000) == int((page(np.arange(1_500_000)) + 1).sum())
    assert checksum(1) == 1


# ---- tables


def test_throughput_is_that_after_the_warm_up():
    run = Run(FORETIDE, ((10.0, 400), (11.0, 700), (12.0, 1000)), 1.0)
    assert run.rate == 300.0
    with pytest.raises(PeerError, match="too few"):
        rate([(1.0, 10)], 0.4)


def test_sides_are_compared_by_their_medians_with_the_first():
    runs = [Run(FORETIDE, ((1.0, 400), (2.0, 400 + rows)), 1.0) for rows in (300, 100, 200)]
    runs.append(Run(STORM, ((1.0, 400), (2.0, 500)), 2.0))
    first, second = throughput.table(runs)
    assert (first["rows/s"], first["lowest"], first["highest"], first["of the first"]) == (200, 100, 300, 1.0)
    assert (second["rows/s"], second["of the first"]) == (100, 0.5)


def test_latencies_of_several_runs_are_pooled():
    spans = [
        latency.Span(STORM, 500, np.array(each), np.array(each, dtype=np.float64), Account(3, lost, 0, 0), 1.0, 2.0)
        for each, lost in (([1, 1, 1], 0), ([5, 5, 9], 1))
    ]
    (row,) = latency.table(spans)
    assert (row["tuples"], row["p50"], row["p50 of the runs"], row["p99"], row["lost"]) == (6, 1, "1 to 5", 9, 1)


def test_the_first_seconds_of_a_load_are_left_out():
    due = np.arange(10, dtype=np.int64) * 1_000_000
    received = Received(np.arange(10), due, due + 4000, due // 1000 + 3)
    span = latency.seen(STORM, 1, Outcome(0, Sent(due, due), received, 60_000_000))
    assert span.records.tolist() == [3] * 7
    assert span.milliseconds.tolist() == [4.0] * 7


def test_tuples_that_never_come_out_have_failed():
    """A tuple each second; the slow task begins at 4 s. Row 8 never comes out, row 6 twice, the end is at 50 s."""
    due = np.arange(10, dtype=np.int64) * 1_000_000
    row = np.array([0, 1, 2, 3, 4, 5, 6, 6, 7, 9])
    took = np.array([1, 1, 1, 1, 20_000, 5, 31_000, 32_000, 6, 7]) * 1000
    outcome = Outcome(0, Sent(due, due), Received(row, due[row], due[row] + took, due[row] // 1000), 50_000_000)
    found = slow_task.slowed(STORM, outcome, 1_000_000, 4_000_000)
    assert found.before.tolist() == [1, 1, 1]
    assert found.after.tolist() == [20_000, 5, 31_000, 6, 42_000, 7]
    (shown,) = slow_task.table([found])
    assert (shown["p50 from 2 s on"], shown["p99 from 2 s on"]) == (7, 42_000)
    assert (shown["failed (over 30 s)"], shown["of"]) == (2, 6)
    assert (shown["not out at the end"], shown["doubled"]) == (1, 1)
