"""Machines, every 15 seconds: CPU, memory, paging, disk, network, sockets, pressure.

The subject is the host, and `host/core<N>` for the metrics of one core. Disks and interfaces are summed, cores are
subjects of their own. Counters have the names that node_exporter gives them, without its prefix.
"""

from __future__ import annotations

from foretide.metrics.metric import Gauge, Level, Mean, Metric, Rate, Rule, Share


def _machine(name: str, unit: str, meaning: str) -> Metric:
    return Metric(f"machine_{name}", unit, Level.MACHINE, meaning)


def _gauge(name: str, unit: str, meaning: str, key: str, scale: float = 1.0) -> Rule:
    return Gauge(_machine(name, unit, meaning), key, scale)


def _rate(name: str, unit: str, meaning: str, key: str, scale: float = 1.0) -> Rule:
    return Rate(_machine(name, unit, meaning), key, scale)


def _mean(name: str, unit: str, meaning: str, total: str, count: str, scale: float) -> Rule:
    return Mean(_machine(name, unit, meaning), total, count, scale)


def _cpu(mode: str, meaning: str) -> Rule:
    return Share(_machine(f"cpu_{mode}_percent", "percent", meaning), f"cpu_{mode}", "cpu_total", 100)


def _core(name: str, meaning: str, part: str) -> Rule:
    return Share(_machine(name, "percent", meaning), part, "total", 100)


def _memory(name: str, meaning: str, field: str) -> Rule:
    return Gauge(_machine(name, "bytes", meaning), f"memory_{field}_bytes")


def _netstat(name: str, unit: str, meaning: str, field: str) -> Rule:
    return Rate(_machine(name, unit, meaning), f"netstat_{field}")


def _pressure(name: str, meaning: str, field: str) -> Rule:
    return Rate(_machine(name, "percent", meaning), f"pressure_{field}_seconds_total", 100)


CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The parts of a core's time. `guest` is not one of them: the kernel includes it in `user`."""

_CPU: tuple[Rule, ...] = (
    _gauge("cores", "count", "Cores that are switched on.", "cores"),
    _cpu("busy", "Time all cores together were not idle, stolen time included."),
    _cpu("user", "Time in user mode at normal priority, of all cores."),
    _cpu("nice", "Time in user mode at low priority, of all cores."),
    _cpu("system", "Time in the kernel, of all cores."),
    _cpu("idle", "Time with nothing to do, of all cores."),
    _cpu("iowait", "Time idle while a disk was awaited, of all cores."),
    _cpu("irq", "Time on hardware interrupts, of all cores."),
    _cpu("softirq", "Time on soft interrupts, network packets above all, of all cores."),
    _cpu("steal", "Time the hypervisor gave to other machines, of all cores."),
    _cpu("guest", "Time spent on running virtual machines, of all cores."),
)

BUSIEST_CORE = _machine("busiest_core_percent", "percent", "Time the busiest core was not idle.")
"""The largest `core_busy_percent` of a host."""

CORE_RULES: tuple[Rule, ...] = (
    _core("core_busy_percent", "Time this core was not idle, stolen time included.", "busy"),
    _core("core_user_percent", "Time of this core in user mode, low priority included.", "user_or_nice"),
    _core("core_system_percent", "Time of this core in the kernel, interrupts included.", "kernel"),
    _core("core_iowait_percent", "Time this core was idle while a disk was awaited.", "iowait"),
    _core("core_steal_percent", "Time the hypervisor took this core away.", "steal"),
)
"""The metrics of one core."""

_RUN_QUEUE: tuple[Rule, ...] = (
    _gauge("running_processes", "count", "Threads that run or are ready to run, the measuring one included.",
           "procs_running"),
    _gauge("blocked_processes", "count", "Threads that wait for a disk.", "procs_blocked"),
    _gauge("load_1m", "count", "Threads that ran or waited, averaged over a minute.", "load1"),
    _gauge("load_5m", "count", "Threads that ran or waited, averaged over five minutes.", "load5"),
    _gauge("load_15m", "count", "Threads that ran or waited, averaged over a quarter of an hour.", "load15"),
    _rate("context_switches_per_second", "switches/s", "Changes from one thread to another.", "context_switches_total"),
    _rate("interrupts_per_second", "interrupts/s", "Interrupts served.", "intr_total"),
    _rate("forks_per_second", "forks/s", "Processes and threads started.", "forks_total"),
)  # fmt: skip
_MEMORY: tuple[Rule, ...] = (
    _memory("memory_total_bytes", "Memory there is.", "MemTotal"),
    _memory("memory_available_bytes", "Memory programs could have without swapping.", "MemAvailable"),
    _memory("memory_used_bytes", "Memory that is not available.", "used"),
    _gauge("memory_used_percent", "percent", "Memory that is not available, of all there is.",
           "memory_used_share", 100),
    _memory("memory_free_bytes", "Memory used for nothing at all.", "MemFree"),
    _memory("memory_buffers_bytes", "Memory that holds blocks of disks.", "Buffers"),
    _memory("memory_cached_bytes", "Memory that holds parts of files.", "Cached"),
    _memory("memory_active_bytes", "Memory used a short while ago.", "Active"),
    _memory("memory_inactive_bytes", "Memory not used for a while, which goes first.", "Inactive"),
    _memory("memory_dirty_bytes", "Memory that waits to be written to disk.", "Dirty"),
    _memory("memory_writeback_bytes", "Memory that is being written to disk.", "Writeback"),
    _memory("memory_anonymous_bytes", "Memory of programs that no file stands behind.", "AnonPages"),
    _memory("memory_mapped_bytes", "Memory of files that programs have mapped.", "Mapped"),
    _memory("memory_shared_bytes", "Memory shared between processes, and RAM disks.", "Shmem"),
    _memory("memory_slab_bytes", "Memory of the kernel's own structures.", "Slab"),
    _memory("memory_page_tables_bytes", "Memory of page tables.", "PageTables"),
    _memory("memory_kernel_stack_bytes", "Memory of the kernel's stacks, which grows with the threads.", "KernelStack"),
    _memory("memory_committed_bytes", "Memory that was promised to programs.", "Committed_AS"),
    _gauge("memory_committed_percent", "percent", "Memory that was promised, of the most the kernel would promise.",
           "memory_committed_share", 100),
    _memory("swap_total_bytes", "Swap space there is.", "SwapTotal"),
    _memory("swap_used_bytes", "Swap space in use.", "swap_used"),
)  # fmt: skip
_PAGING: tuple[Rule, ...] = (
    _rate("page_in_bytes_per_second", "bytes/s", "Bytes brought in from disks.", "vmstat_pgpgin", 1024),
    _rate("page_out_bytes_per_second", "bytes/s", "Bytes sent out to disks.", "vmstat_pgpgout", 1024),
    _rate("swap_in_pages_per_second", "pages/s", "Pages brought back from swap.", "vmstat_pswpin"),
    _rate("swap_out_pages_per_second", "pages/s", "Pages sent to swap.", "vmstat_pswpout"),
    _rate("page_faults_per_second", "faults/s", "Page faults of any kind.", "vmstat_pgfault"),
    _rate("major_page_faults_per_second", "faults/s", "Page faults that had to read from disk.", "vmstat_pgmajfault"),
    _rate("oom_kills_per_second", "kills/s", "Processes the kernel killed for want of memory.", "vmstat_oom_kill"),
)
_DISK: tuple[Rule, ...] = (
    _rate("disk_reads_per_second", "reads/s", "Reads that disks finished.", "disk_reads_completed_total"),
    _rate("disk_writes_per_second", "writes/s", "Writes that disks finished.", "disk_writes_completed_total"),
    _rate("disk_read_bytes_per_second", "bytes/s", "Bytes read from disks.", "disk_read_bytes_total"),
    _rate("disk_write_bytes_per_second", "bytes/s", "Bytes written to disks.", "disk_written_bytes_total"),
    _rate("disk_merged_reads_per_second", "reads/s", "Reads joined with a neighbour before they went to a disk.",
          "disk_reads_merged_total"),
    _rate("disk_merged_writes_per_second", "writes/s", "Writes joined with a neighbour before they went to a disk.",
          "disk_writes_merged_total"),
    _mean("disk_read_wait_ms", "ms", "Average time from asking for a read to its end.",
          "disk_read_time_seconds_total", "disk_reads_completed_total", 1000),
    _mean("disk_write_wait_ms", "ms", "Average time from asking for a write to its end.",
          "disk_write_time_seconds_total", "disk_writes_completed_total", 1000),
    _rate("disk_busy_percent", "percent", "Time disks were at work, summed: two disks at work all the time are 200.",
          "disk_io_time_seconds_total", 100),
    _rate("disk_queue_length", "count", "Reads and writes under way, on average.",
          "disk_io_time_weighted_seconds_total"),
    _gauge("disk_in_flight", "count", "Reads and writes under way at this moment.", "disk_io_now"),
    _gauge("root_filesystem_free_bytes", "bytes", "Space left for programs on the root file system.",
           "filesystem_avail_bytes"),
    _gauge("root_filesystem_used_percent", "percent", "Space on the root file system that is no longer free.",
           "filesystem_used_share", 100),
)  # fmt: skip
_NETWORK: tuple[Rule, ...] = (
    _rate("received_bytes_per_second", "bytes/s", "Bytes received, loopback and virtual interfaces left out.",
          "network_receive_bytes_total"),
    _rate("sent_bytes_per_second", "bytes/s", "Bytes sent, loopback and virtual interfaces left out.",
          "network_transmit_bytes_total"),
    _rate("received_packets_per_second", "packets/s", "Packets received.", "network_receive_packets_total"),
    _rate("sent_packets_per_second", "packets/s", "Packets sent.", "network_transmit_packets_total"),
    _rate("receive_errors_per_second", "packets/s", "Packets received damaged.", "network_receive_errs_total"),
    _rate("send_errors_per_second", "packets/s", "Packets that could not be sent.", "network_transmit_errs_total"),
    _rate("receive_drops_per_second", "packets/s", "Packets dropped on arrival.", "network_receive_drop_total"),
    _rate("send_drops_per_second", "packets/s", "Packets dropped before they were sent.",
          "network_transmit_drop_total"),
    _rate("loopback_bytes_per_second", "bytes/s", "Bytes processes of this host sent one another.",
          "loopback_receive_bytes_total"),
    _netstat("tcp_received_segments_per_second", "segments/s", "TCP segments received.", "Tcp_InSegs"),
    _netstat("tcp_sent_segments_per_second", "segments/s", "TCP segments sent.", "Tcp_OutSegs"),
    _netstat("tcp_retransmitted_segments_per_second", "segments/s", "TCP segments that had to be sent again.",
             "Tcp_RetransSegs"),
    _netstat("tcp_active_opens_per_second", "connections/s", "TCP connections opened to others.", "Tcp_ActiveOpens"),
    _netstat("tcp_passive_opens_per_second", "connections/s", "TCP connections others opened.", "Tcp_PassiveOpens"),
    _netstat("tcp_resets_per_second", "segments/s", "TCP resets sent.", "Tcp_OutRsts"),
    _netstat("tcp_receive_errors_per_second", "segments/s", "TCP segments received damaged.", "Tcp_InErrs"),
    _netstat("tcp_timeouts_per_second", "count/s", "TCP timers that ran out before an answer came.",
             "TcpExt_TCPTimeouts"),
    _netstat("tcp_listen_overflows_per_second", "connections/s", "TCP connections refused for a full queue.",
             "TcpExt_ListenOverflows"),
    _netstat("udp_received_datagrams_per_second", "datagrams/s", "UDP datagrams received.", "Udp_InDatagrams"),
    _netstat("udp_sent_datagrams_per_second", "datagrams/s", "UDP datagrams sent.", "Udp_OutDatagrams"),
)  # fmt: skip
_SOCKETS: tuple[Rule, ...] = (
    _gauge("sockets", "count", "Sockets of all kinds.", "sockstat_sockets_used"),
    _gauge("tcp_sockets", "count", "TCP sockets in use.", "sockstat_TCP_inuse"),
    _gauge("tcp_established", "count", "TCP connections that stand.", "netstat_Tcp_CurrEstab"),
    _gauge("tcp_orphaned_sockets", "count", "TCP sockets that no process holds any more.", "sockstat_TCP_orphan"),
    _gauge("tcp_waiting_sockets", "count", "Closed TCP connections that wait for late segments.", "sockstat_TCP_tw"),
    _gauge("tcp_allocated_sockets", "count", "TCP sockets the kernel keeps in memory.", "sockstat_TCP_alloc"),
    _gauge("tcp_memory_bytes", "bytes", "Memory of TCP's buffers.", "sockstat_TCP_mem_bytes"),
    _gauge("udp_sockets", "count", "UDP sockets in use.", "sockstat_UDP_inuse"),
    _gauge("open_file_handles", "count", "Files, sockets and pipes open in all processes.", "filefd_allocated"),
)
_PRESSURE: tuple[Rule, ...] = (
    _pressure("cpu_pressure_percent", "Time in which some thread waited for a core.", "cpu_waiting"),
    _pressure("memory_pressure_percent", "Time in which some thread waited for memory.", "memory_waiting"),
    _pressure("memory_stall_percent", "Time in which nothing could run for want of memory.", "memory_stalled"),
    _pressure("io_pressure_percent", "Time in which some thread waited for a disk.", "io_waiting"),
    _pressure("io_stall_percent", "Time in which nothing could run for waiting on a disk.", "io_stalled"),
)
"""The kernel's pressure stall information."""

_AFTER_CORES = (*_RUN_QUEUE, *_MEMORY, *_PAGING, *_DISK, *_NETWORK, *_SOCKETS, *_PRESSURE)
HOST_RULES: tuple[Rule, ...] = (*_CPU, *_AFTER_CORES)
"""The metrics of a host, except for that of its busiest core."""

CORE: tuple[Metric, ...] = tuple(rule.metric for rule in CORE_RULES)
MACHINE: tuple[Metric, ...] = (
    *(rule.metric for rule in _CPU),
    BUSIEST_CORE,
    *CORE,
    *(rule.metric for rule in _AFTER_CORES),
)
