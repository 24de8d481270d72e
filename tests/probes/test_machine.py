"""A machine's samples: worked out by hand, and from the machine the tests run on."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from foretide.metrics.machine_metrics import CORE, CORE_RULES, HOST_RULES, MACHINE
from foretide.probes.machine import LocalMachine, MachineCounters, machine_samples

BUSY = dict.fromkeys(("nice", "iowait", "irq", "softirq", "steal"), 0.0)

EARLIER = MachineCounters(
    "a",
    at=1000.0,
    clock=100.0,
    values={"context_switches_total": 500.0, "load1": 9.0, "vmstat_pgpgin": 10.0},
    cores={"0": {**BUSY, "user": 10, "system": 5, "idle": 85}, "1": {**BUSY, "user": 0, "system": 0, "idle": 100}},
    disks={"sda": {"reads_completed_total": 10, "read_time_seconds_total": 1.0, "io_time_seconds_total": 3.0}},
    networks={"eth0": {"receive_bytes_total": 1000}, "lo": {"receive_bytes_total": 50}},
)
LATER = MachineCounters(
    "a",
    at=1010.0,
    clock=110.0,
    values={
        "context_switches_total": 700.0,
        "load1": 1.5,
        "vmstat_pgpgin": 30.0,
        "memory_MemTotal_bytes": 1000.0,
        "memory_MemAvailable_bytes": 250.0,
    },
    cores={
        "0": {**BUSY, "user": 14, "system": 6, "idle": 88, "iowait": 2},
        "1": {**BUSY, "user": 1, "system": 0, "idle": 109},
    },
    disks={"sda": {"reads_completed_total": 30, "read_time_seconds_total": 1.5, "io_time_seconds_total": 4.0}},
    networks={"eth0": {"receive_bytes_total": 6000}, "lo": {"receive_bytes_total": 250}},
)


def values(before, after):
    return {(sample.metric, sample.subject): sample.value for sample in machine_samples(before, after)}


def test_samples_are_those_worked_out_by_hand():
    found = values(EARLIER, LATER)
    assert found == pytest.approx(
        {
            ("machine_cpu_busy_percent", "a"): 30.0,
            ("machine_cpu_user_percent", "a"): 25.0,
            ("machine_cpu_nice_percent", "a"): 0.0,
            ("machine_cpu_system_percent", "a"): 5.0,
            ("machine_cpu_idle_percent", "a"): 60.0,
            ("machine_cpu_iowait_percent", "a"): 10.0,
            ("machine_cpu_irq_percent", "a"): 0.0,
            ("machine_cpu_softirq_percent", "a"): 0.0,
            ("machine_cpu_steal_percent", "a"): 0.0,
            ("machine_cores", "a"): 2,
            ("machine_load_1m", "a"): 1.5,
            ("machine_context_switches_per_second", "a"): 20.0,
            ("machine_memory_total_bytes", "a"): 1000.0,
            ("machine_memory_available_bytes", "a"): 250.0,
            ("machine_memory_used_bytes", "a"): 750.0,
            ("machine_memory_used_percent", "a"): 75.0,
            ("machine_page_in_bytes_per_second", "a"): 2048.0,
            ("machine_disk_reads_per_second", "a"): 2.0,
            ("machine_disk_read_wait_ms", "a"): 25.0,
            ("machine_disk_busy_percent", "a"): 10.0,
            ("machine_received_bytes_per_second", "a"): 500.0,
            ("machine_loopback_bytes_per_second", "a"): 20.0,
            ("machine_busiest_core_percent", "a"): 50.0,
            ("machine_core_busy_percent", "a/core0"): 50.0,
            ("machine_core_user_percent", "a/core0"): 40.0,
            ("machine_core_system_percent", "a/core0"): 10.0,
            ("machine_core_iowait_percent", "a/core0"): 20.0,
            ("machine_core_steal_percent", "a/core0"): 0.0,
            ("machine_core_busy_percent", "a/core1"): 10.0,
            ("machine_core_user_percent", "a/core1"): 10.0,
            ("machine_core_system_percent", "a/core1"): 0.0,
            ("machine_core_iowait_percent", "a/core1"): 0.0,
            ("machine_core_steal_percent", "a/core1"): 0.0,
        }
    )


def test_a_first_reading_and_one_after_a_restart_give_gauges_alone():
    restarted = replace(LATER, values={**LATER.values, "context_switches_total": 499.0, "vmstat_pgpgin": 11.0})
    assert values(None, LATER).keys() == values(EARLIER, restarted).keys()
    assert ("machine_load_1m", "a") in values(None, LATER)
    assert ("machine_page_in_bytes_per_second", "a") not in values(EARLIER, restarted)


def test_a_clock_that_jumps_back_gives_gauges_alone():
    assert values(EARLIER, replace(LATER, clock=99.0)) == values(None, LATER)


def test_disks_interfaces_and_cores_that_come_or_go_are_no_burst_of_work():
    new_disk = {"reads_completed_total": 1e9, "read_time_seconds_total": 1e6, "io_time_seconds_total": 1e6}
    grown = replace(
        LATER,
        disks={**LATER.disks, "sdb": new_disk},
        networks={**LATER.networks, "eth1": {"receive_bytes_total": 1e12}},
        cores={**LATER.cores, "2": {**BUSY, "user": 1e6, "system": 0, "idle": 0}},
    )
    found = values(EARLIER, grown)
    assert found.pop(("machine_cores", "a")) == 3
    assert found == {key: value for key, value in values(EARLIER, LATER).items() if key[0] != "machine_cores"}
    back = replace(EARLIER, disks=grown.disks, networks=grown.networks, cores=grown.cores)
    assert values(back, replace(LATER, disks=LATER.disks)).keys() <= values(EARLIER, LATER).keys()


def test_a_core_that_did_nothing_is_zero_percent_busy_whatever_rounding_does():
    for step in range(200):
        idle = {**BUSY, "user": 0.1 * step, "system": 0.3, "idle": 1234.1 + 0.37 * step, "iowait": 0.7}
        still = {**idle, "idle": idle["idle"] + 0.01}
        found = values(replace(EARLIER, cores={"0": idle}), replace(LATER, cores={"0": still}))
        assert found["machine_core_busy_percent", "a/core0"] == 0.0


def test_parts_of_disks_and_interfaces_inside_the_host_are_not_counted_twice():
    disks = dict.fromkeys(("sda", "sda1", "dm-0", "loop3", "nvme0n1p2", "md127"), LATER.disks["sda"])
    networks = dict.fromkeys(("eth0", "docker0", "veth1a2b", "br-12ab", "lo"), LATER.networks["eth0"])
    earlier = replace(
        EARLIER,
        disks=dict.fromkeys(disks, EARLIER.disks["sda"]),
        networks=dict.fromkeys(networks, EARLIER.networks["eth0"]),
    )
    found = values(earlier, replace(LATER, disks=disks, networks=networks))
    assert found["machine_disk_reads_per_second", "a"] == 2.0
    assert found["machine_received_bytes_per_second", "a"] == 500.0


def test_every_rule_makes_a_metric_of_the_catalogue_and_every_metric_has_a_rule():
    made = [rule.metric.name for rule in (*HOST_RULES, *CORE_RULES)] + ["machine_busiest_core_percent"]
    assert len(made) == len(set(made))
    assert set(made) == {metric.name for metric in MACHINE}
    assert {rule.metric for rule in CORE_RULES} == set(CORE)


BURN = "import time; end = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def burn(seconds):
    subprocess.run([sys.executable, "-c", BURN.format(seconds)], check=True)


def test_the_machine_the_tests_run_on_shows_at_least_57_features_and_a_busy_core():
    machine = LocalMachine("here")
    first = machine.sample()
    burn(0.4)
    later = machine.sample()
    assert len({sample.metric for sample in later}) >= 57
    assert {sample.metric for sample in first} < {sample.metric for sample in later}
    assert all(math.isfinite(sample.value) and sample.value >= 0 for sample in later)
    found = {sample.metric: sample.value for sample in later if sample.subject == "here"}
    assert found["machine_busiest_core_percent"] > 10
    assert found["machine_cpu_busy_percent"] <= 100
    assert 0 < found["machine_memory_used_bytes"] < found["machine_memory_total_bytes"]
    assert {sample.subject for sample in later} == {
        "here",
        *(f"here/core{core}" for core in range(int(found["machine_cores"]))),
    }


FILES = {
    "stat": "cpu  0 0 0 0\ncpu0 100 10 50 800 20 1 2 3 4 0\nintr 77 1 2\nctxt 900\nprocesses 12\nprocs_running 3\n",
    "loadavg": "0.50 1.25 2.00 3/200 4711\n",
    "meminfo": "MemTotal:  2000 kB\nMemAvailable:  500 kB\nHugePages_Total:  0\n",
    "vmstat": "nr_free_pages 5\npgpgin 20\npgfault 60\n",
    "diskstats": " 8 0 sda 4 1 16 200 8 2 64 400 1 300 700 0 0 0 0\n",
    "net/dev": "head\nhead\n eth0: 1000 10 0 1 0 0 0 0 2000 20 0 0 0 0 0 0\n",
    "net/snmp": "Tcp: ActiveOpens CurrEstab\nTcp: 6 4\n",
    "net/netstat": "TcpExt: TCPTimeouts\nTcpExt: 2\n",
    "net/sockstat": "sockets: used 40\nTCP: inuse 7 orphan 0 tw 1 alloc 9 mem 3\n",
    "pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n",
    "sys/fs/file-nr": "800 0 9000\n",
}


@pytest.fixture
def proc(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_kernels_files_are_read_in_the_units_of_node_exporter(proc):
    counters = LocalMachine("a", proc, wall=lambda: 5.0, clock=lambda: 7.0).read()
    assert (counters.at, counters.clock) == (5.0, 7.0)
    assert counters.cores["0"]["user"] == pytest.approx(1.0)
    assert counters.cores["0"]["steal"] == pytest.approx(0.03)
    expected = {
        "context_switches_total": 900,
        "intr_total": 77,
        "forks_total": 12,
        "procs_running": 3,
        "load15": 2.0,
        "memory_MemTotal_bytes": 2_048_000,
        "vmstat_pgpgin": 20,
        "netstat_Tcp_CurrEstab": 4,
        "netstat_TcpExt_TCPTimeouts": 2,
        "sockstat_sockets_used": 40,
        "sockstat_TCP_mem_bytes": 3 * os.sysconf("SC_PAGE_SIZE"),
        "pressure_cpu_waiting_seconds_total": 2.5,
        "filefd_allocated": 800,
    }
    assert {key: counters.values[key] for key in expected} == expected
    assert counters.disks["sda"]["read_bytes_total"] == 16 * 512
    assert counters.disks["sda"]["write_time_seconds_total"] == pytest.approx(0.4)
    assert counters.disks["sda"]["io_time_weighted_seconds_total"] == pytest.approx(0.7)
    assert counters.networks["eth0"]["receive_drop_total"] == 1
    assert counters.networks["eth0"]["transmit_bytes_total"] == 2000


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_kernel_without_one_of_the_files_shows_the_rest(proc, name):
    whole = {sample.metric for sample in LocalMachine("a", proc).sample()}
    before = LocalMachine("a", proc).read()
    (proc / name).unlink()
    counters = LocalMachine("a", proc).read()
    assert {sample.metric for sample in machine_samples(None, counters)} <= whole
    assert len(counters.values) + len(counters.cores) > 0
    machine_samples(before, counters)


def test_a_proc_folder_that_is_not_there_leaves_what_needs_none(tmp_path):
    shutil.rmtree(tmp_path)
    found = {sample.metric for sample in LocalMachine("a", Path(tmp_path)).sample()}
    assert found == {"machine_root_filesystem_free_bytes", "machine_root_filesystem_used_percent"}
