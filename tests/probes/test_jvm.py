"""What a JVM publishes, read from a real one and compared with the JDK's own tools where they are."""

from __future__ import annotations

import shutil
import struct
import subprocess
import textwrap
from contextlib import contextmanager

import pytest

from foretide.metrics.worker_metrics import JVM, JVM_RULES, PROCESS
from foretide.probes.workers import JvmProbe, WorkerProbe, figures, parse_hsperfdata, published_file

PROGRAM = textwrap.dedent("""
    import java.util.ArrayList;
    import java.util.List;
    public class Churn {
        public static void main(String[] words) throws Exception {
            List<byte[]> kept = new ArrayList<>();
            System.out.println("ready");
            while (System.in.read() >= 0) {
                for (int i = 0; i < 4000; i++) {
                    byte[] block = new byte[50000];
                    if (i % 100 == 0) kept.add(block);
                }
                System.gc();
                System.out.println(kept.size());
            }
        }
    }
""")


@contextmanager
def jvm(folder, *options):
    """A JVM that makes garbage and collects it whenever it is sent a letter."""
    source = folder / "Churn.java"
    source.write_text(PROGRAM)
    words = ["java", "-Xmx128m", *options, str(source)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def churn(process):
    process.stdin.write("x")
    process.stdin.flush()
    process.stdout.readline()


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    with jvm(tmp_path_factory.mktemp("java")) as process:
        churn(process)
        yield process


def test_a_running_jvm_shows_heap_and_metaspace_collections_classes_and_threads(java):
    found = JvmProbe(java.pid).read()
    assert 1_500_000 < found["heap_bytes"] <= found["heap_capacity_bytes"] <= 129 << 20
    assert 1 << 20 < found["non_heap_bytes"] < 128 << 20
    assert found["old_generation_bytes"] <= found["heap_bytes"]
    assert found["loaded_classes"] > 400
    assert found["jvm_threads"] >= 1
    assert {rule.key for rule in JVM_RULES} == found.keys()


def test_garbage_collections_are_counted_and_timed(java):
    probe = JvmProbe(java.pid)
    before = probe.read()
    churn(java)
    after = probe.read()
    assert after["gc_count"] >= before["gc_count"] + 1
    assert after["gc_ms"] > before["gc_ms"]
    assert after["safepoint_ms"] > before["safepoint_ms"]


@pytest.mark.skipif(shutil.which("jcmd") is None, reason="there is a JRE but no JDK")
def test_every_number_is_the_one_that_the_jdks_own_tool_shows(java):
    tool = subprocess.run(["jcmd", str(java.pid), "PerfCounter.print"], capture_output=True, text=True, check=True)
    shown = dict(line.split("=", 1) for line in tool.stdout.splitlines() if "=" in line)
    read = parse_hsperfdata(published_file(java.pid).read_bytes())
    resting = [name for name in read if name.startswith(("sun.gc.", "java.threads.", "java.cls.", "sun.os.hrt.freq"))]
    assert len(resting) > 60
    assert {name: str(read[name]) for name in resting} == {name: shown[name] for name in resting}


def test_a_worker_joins_what_process_and_jvm_show(java):
    worker = WorkerProbe("3", java.pid)
    worker.sample()
    churn(java)
    samples = worker.sample()
    names = {metric.name for metric in (*PROCESS, *JVM)} | {"worker_heap_bytes", "worker_non_heap_bytes"}
    assert {sample.metric for sample in samples} == names
    assert {sample.subject for sample in samples} == {"3"}
    assert len(names) >= 24
    found = {sample.metric: sample.value for sample in samples}
    assert found["worker_gc_per_second"] > 0
    assert found["worker_gc_ms_per_second"] > 0
    assert not worker.gone


def test_a_jvm_that_publishes_nothing_shows_its_process_alone(tmp_path):
    with jvm(tmp_path, "-XX:-UsePerfData") as process:
        assert published_file(process.pid) is None
        worker = WorkerProbe("3", process.pid)
        worker.sample()
        assert {sample.metric for sample in worker.sample()} == {metric.name for metric in PROCESS}
        process.kill()
        process.wait()
        assert worker.gone
        assert worker.sample() == []


def test_a_process_that_is_no_jvm_or_is_gone_shows_nothing():
    with subprocess.Popen(["sleep", "60"]) as process:
        assert JvmProbe(process.pid).read() == {}
        process.kill()
    assert JvmProbe(process.pid).read() == {}


def entry(order, name, kind, value, vector=0):
    text = name.encode() + b"\0"
    start = 20 + len(text) + (-len(text) % 8)
    head = struct.pack(f"{order}iiicBBBi", start + len(value), 20, vector, kind, 0, 1, 1, start)
    return head + text.ljust(start - 20, b"\0") + value


def file(order, *entries, major=2, ready=1):
    head = struct.pack(">I", 0xCAFEC0C0) + struct.pack(
        f"{order}BBBBiiqii", int(order == "<"), major, 0, ready, 0, 0, 0, 32, len(entries)
    )
    return head + b"".join(entries)


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders_are_read_and_texts_passed_over(order):
    number = struct.pack(f"{order}q", 42)
    data = file(order, entry(order, "a", b"B", b"words\0", 6), entry(order, "sun.gc.metaspace.used", b"J", number))
    assert parse_hsperfdata(data) == {"sun.gc.metaspace.used": 42}


def test_a_file_that_is_not_ready_not_ours_or_cut_short_gives_what_is_sure():
    number = entry("<", "a", b"J", struct.pack("<q", 1))
    assert parse_hsperfdata(file("<", number, ready=0)) == {}
    assert parse_hsperfdata(file("<", number, major=3)) == {}
    assert parse_hsperfdata(b"") == parse_hsperfdata(b"\0" * 64) == {}
    whole = file("<", number, entry("<", "b", b"J", struct.pack("<q", 2)))
    assert parse_hsperfdata(whole) == {"a": 1, "b": 2}
    assert all(parse_hsperfdata(whole[:cut]) in ({}, {"a": 1}) for cut in range(len(whole)))


def test_figures_are_worked_out_from_ticks_and_parts():
    numbers = {
        "sun.os.hrt.frequency": 1_000_000,
        "sun.gc.collector.0.time": 2_000,
        "sun.gc.collector.1.time": 3_000,
        "sun.gc.generation.0.space.0.used": 10,
        "sun.gc.generation.1.space.0.used": 5,
        "java.cls.loadedClasses": 100,
        "java.cls.sharedLoadedClasses": 50,
        "java.cls.unloadedClasses": 7,
    }
    assert figures(numbers) == {"gc_ms": 5.0, "heap_bytes": 15.0, "old_generation_bytes": 5.0, "loaded_classes": 143.0}
    assert figures({"sun.gc.collector.0.time": 2_000}) == {}


def test_sizes_that_a_collector_has_not_published_yet_are_not_known():
    assert figures({"sun.gc.generation.0.space.0.used": 0, "sun.gc.metaspace.used": 0}) == {}
