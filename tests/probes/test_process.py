"""A worker's process: by hand, and with real processes that work, have children, and die."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from foretide.metrics.worker_metrics import PROCESS, PROCESS_RULES, WORKER
from foretide.probes.process import ProcessCounters, ProcessProbe, ThreadCounters, process_samples, read_stat

EARLIER = ProcessCounters(
    at=1000.0,
    clock=10.0,
    values={"user_seconds": 4.0, "children_user_seconds": 1.0, "minor_faults": 100.0, "rss_bytes": 5.0},
    threads={1: ThreadCounters(10, 2, 1.0), 2: ThreadCounters(50, 9, 3.0), 3: ThreadCounters(7, 7, 0.0)},
)
LATER = ProcessCounters(
    at=1005.0,
    clock=15.0,
    values={"user_seconds": 9.0, "children_user_seconds": 3.0, "minor_faults": 150.0, "rss_bytes": 8.0},
    threads={1: ThreadCounters(20, 4, 1.5), 2: ThreadCounters(5, 1, 0.25), 4: ThreadCounters(30, 0, 0.25)},
)


def values(before, after):
    return {sample.metric: sample.value for sample in process_samples("3", before, after)}


def test_samples_are_those_worked_out_by_hand():
    """Thread 2 is a new one with a used id, thread 3 has ended, thread 4 is new."""
    assert values(EARLIER, LATER) == pytest.approx(
        {
            "worker_cpu_user_percent": 100.0,
            "worker_children_cpu_user_percent": 40.0,
            "worker_minor_faults_per_second": 10.0,
            "worker_rss_bytes": 8.0,
            "worker_voluntary_switches_per_second": (10 + 5 + 30) / 5,
            "worker_involuntary_switches_per_second": (2 + 1 + 0) / 5,
            "worker_cpu_wait_percent": (0.5 + 0.25 + 0.25) / 5 * 100,
        }
    )


def test_a_first_reading_and_a_clock_that_jumps_back_give_gauges_alone():
    assert values(None, LATER) == values(EARLIER, replace(LATER, clock=9.0)) == {"worker_rss_bytes": 8.0}


def test_the_life_of_another_jvm_below_that_ended_is_no_rate_of_this_worker():
    with_executors = replace(EARLIER, apart=frozenset({71, 72}))
    assert values(with_executors, replace(LATER, apart=frozenset({71}))) == {"worker_rss_bytes": 8.0}
    assert "worker_cpu_user_percent" in values(with_executors, replace(LATER, apart=frozenset({71, 72, 73})))


def test_a_reading_without_totals_gives_gauges_and_none_of_the_rates_that_need_them():
    torn = replace(LATER, values={"rss_bytes": 8.0})
    assert "worker_cpu_user_percent" not in values(EARLIER, torn)
    assert "worker_cpu_user_percent" not in values(torn, replace(LATER, clock=20.0))


def test_every_rule_makes_a_metric_of_the_catalogue_and_every_metric_has_a_rule():
    assert tuple(rule.metric for rule in PROCESS_RULES) == PROCESS
    assert set(PROCESS) < set(WORKER)


@contextmanager
def program(code, *arguments, name=None):
    """A Python program that says something when it is ready, and is ended whatever the test does."""
    words = [name or sys.executable, "-c", textwrap.dedent(code), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, executable=sys.executable, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


BURN = """
    import sys, time
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
    print("done", flush=True)
    sys.stdin.readline()
"""
PARENT = """
    import subprocess, sys
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=pipe, stdout=pipe, text=True)
    print(child.stdout.readline(), end="", flush=True)
    for line in sys.stdin:
        if line == "reap\\n":
            child.stdin.close()
            child.wait()
            print("reaped", flush=True)
        else:
            child.stdin.write(line)
            child.stdin.flush()
            print(child.stdout.readline(), end="", flush=True)
"""


def say(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline()


def total(counters, *names):
    return sum(counters.values[name] for name in names)


CPU = ("user_seconds", "system_seconds")
CHILDREN_CPU = ("children_user_seconds", "children_system_seconds")


def test_work_of_a_process_shows_as_its_own():
    with program(BURN) as process:
        probe = ProcessProbe(process.pid)
        before = probe.read()
        say(process, "burn")
        after = probe.read()
    assert total(after, *CPU) - total(before, *CPU) >= 0.28
    assert total(after, *CHILDREN_CPU) == 0
    found = {sample.metric: sample.value for sample in process_samples("3", before, after)}
    assert found.keys() == {metric.name for metric in PROCESS}
    assert found["worker_cpu_user_percent"] + found["worker_cpu_system_percent"] > 5
    assert found["worker_rss_bytes"] > 1 << 20
    assert found["worker_threads"] == 1
    assert found["worker_open_files"] >= 3


def test_work_of_a_child_counts_and_shows_apart_and_stays_counted_when_the_child_has_ended():
    with program(PARENT, textwrap.dedent(BURN)) as process:
        probe = ProcessProbe(process.pid)
        before = probe.read()
        assert before.values["children"] == 1
        say(process, "burn")
        after = probe.read()
        say(process, "reap")
        reaped = probe.read()
    worked = total(after, *CHILDREN_CPU) - total(before, *CHILDREN_CPU)
    assert worked >= 0.28
    assert total(after, *CPU) - total(before, *CPU) >= worked - 1e-9
    assert reaped.values["children"] == 0
    assert total(reaped, *CHILDREN_CPU) >= total(after, *CHILDREN_CPU)
    assert total(reaped, "minor_faults") >= total(after, "minor_faults")
    assert total(reaped, "rchar") >= total(after, "rchar")


def test_another_jvm_below_is_a_worker_of_its_own():
    """The kernel knows a program by the first 15 letters of its file, so a copy of the name is enough."""
    named_java = textwrap.dedent("""
        from pathlib import Path
        Path("/proc/self/comm").write_text("java")
    """)
    with program(PARENT, named_java + textwrap.dedent(BURN)) as process:
        counters = ProcessProbe(process.pid).read()
    assert len(counters.apart) == 1
    assert counters.values["children"] == 0


def test_context_switches_of_every_thread_count():
    code = """
        import threading, sys, time
        def nap():
            for _ in range(50): time.sleep(0.001)
            done.wait()
        done = threading.Event()
        threads = [threading.Thread(target=nap, daemon=True) for _ in range(4)]
        print("ready", flush=True)
        sys.stdin.readline()
        for thread in threads: thread.start()
        time.sleep(0.3)
        print("done", flush=True)
        sys.stdin.readline()
    """
    with program(code) as process:
        probe = ProcessProbe(process.pid)
        before = probe.read()
        say(process, "go")
        after = replace(probe.read(), clock=before.clock + 1)
    found = values(before, after)
    assert found["worker_threads"] == 5
    assert found["worker_voluntary_switches_per_second"] >= 4 * 50


def test_a_process_killed_in_the_middle_of_a_reading_is_said_to_be_gone():
    with program(BURN) as process:

        def kill_then_tell():
            process.kill()
            process.wait()
            return 5.0

        probe = ProcessProbe(process.pid, clock=kill_then_tell)
        counters = probe.read()
        assert probe.gone
        assert process_samples("3", None, counters) == []


def test_a_process_that_has_ended_but_was_not_waited_for_is_gone():
    with program("print('ready', flush=True)") as process:
        probe = ProcessProbe(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert read_stat(process.pid).state == "Z"
        assert probe.gone
        assert probe.read().values == {}


def test_readings_while_children_come_and_go_are_whole_or_without_totals():
    code = """
        import subprocess, sys
        print("ready", flush=True)
        while True: subprocess.run([sys.executable, "-S", "-c", "sum(range(300000))"])
    """
    with program(code) as process:
        probe = ProcessProbe(process.pid)
        readings = []
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            readings.append(probe.read())
    totals = [total(reading, *CPU) for reading in readings if "user_seconds" in reading.values]
    assert len(totals) > 20
    assert totals == sorted(totals)
    assert totals[-1] - totals[0] < 3.5


def test_another_process_with_the_same_id_is_not_the_same_worker():
    with program(BURN) as process:
        probe = ProcessProbe(process.pid)
        assert not probe.gone
        probe._started -= 1
        assert probe.gone
        assert probe.read().values == {}


def test_an_id_that_nobody_has_is_gone():
    with program(BURN) as process:
        pass
    assert ProcessProbe(process.pid).gone
    assert ProcessProbe(process.pid).read().values == {}
