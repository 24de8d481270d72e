"""Machines, every 15 seconds: CPU, memory, paging, disk, network, sockets, pressure.

The subject is the host, and `host/core<N>` for the features of one core. Each name counts once, however many cores,
disks and interfaces there are: disks and interfaces are summed, cores are subjects of their own.
"""

from __future__ import annotations

from foretide.metrics.metric import Level, Metric


def _machine(name: str, unit: str, meaning: str) -> Metric:
    return Metric(f"machine_{name}", unit, Level.MACHINE, meaning)


CPU: tuple[Metric, ...] = (
    _machine("cores", "count", "Cores that are switched on."),
    _machine("cpu_busy_percent", "percent", "Time all cores together were not idle, stolen time included."),
    _machine("cpu_user_percent", "percent", "Time in user mode at normal priority, of all cores."),
    _machine("cpu_nice_percent", "percent", "Time in user mode at low priority, of all cores."),
    _machine("cpu_system_percent", "percent", "Time in the kernel, of all cores."),
    _machine("cpu_idle_percent", "percent", "Time with nothing to do, of all cores."),
    _machine("cpu_iowait_percent", "percent", "Time idle while a disk was awaited, of all cores."),
    _machine("cpu_irq_percent", "percent", "Time on hardware interrupts, of all cores."),
    _machine("cpu_softirq_percent", "percent", "Time on soft interrupts, network packets above all, of all cores."),
    _machine("cpu_steal_percent", "percent", "Time the hypervisor gave to other machines, of all cores."),
    _machine("cpu_guest_percent", "percent", "Time spent on running virtual machines, of all cores."),
    _machine("busiest_core_percent", "percent", "Time the busiest core was not idle."),
)
CORE: tuple[Metric, ...] = (
    _machine("core_busy_percent", "percent", "Time this core was not idle, stolen time included."),
    _machine("core_user_percent", "percent", "Time of this core in user mode, low priority included."),
    _machine("core_system_percent", "percent", "Time of this core in the kernel, interrupts included."),
    _machine("core_iowait_percent", "percent", "Time this core was idle while a disk was awaited."),
    _machine("core_steal_percent", "percent", "Time the hypervisor took this core away."),
)
"""Features of one core; their subject is `host/core<N>`."""

RUN_QUEUE: tuple[Metric, ...] = (
    _machine("running_processes", "count", "Threads that run or are ready to run, the measuring one included."),
    _machine("blocked_processes", "count", "Threads that wait for a disk."),
    _machine("load_1m", "count", "Threads that ran or waited, averaged over a minute."),
    _machine("load_5m", "count", "Threads that ran or waited, averaged over five minutes."),
    _machine("load_15m", "count", "Threads that ran or waited, averaged over a quarter of an hour."),
    _machine("context_switches_per_second", "switches/s", "Changes from one thread to another."),
    _machine("interrupts_per_second", "interrupts/s", "Interrupts served."),
    _machine("forks_per_second", "forks/s", "Processes and threads started."),
)
MEMORY: tuple[Metric, ...] = (
    _machine("memory_total_bytes", "bytes", "Memory there is."),
    _machine("memory_available_bytes", "bytes", "Memory programs could have without swapping."),
    _machine("memory_used_bytes", "bytes", "Memory that is not available."),
    _machine("memory_used_percent", "percent", "Memory that is not available, of all there is."),
    _machine("memory_free_bytes", "bytes", "Memory used for nothing at all."),
    _machine("memory_buffers_bytes", "bytes", "Memory that holds blocks of disks."),
    _machine("memory_cached_bytes", "bytes", "Memory that holds parts of files."),
    _machine("memory_active_bytes", "bytes", "Memory used a short while ago."),
    _machine("memory_inactive_bytes", "bytes", "Memory not used for a while, which goes first."),
    _machine("memory_dirty_bytes", "bytes", "Memory that waits to be written to disk."),
    _machine("memory_writeback_bytes", "bytes", "Memory that is being written to disk."),
    _machine("memory_anonymous_bytes", "bytes", "Memory of programs that no file stands behind."),
    _machine("memory_mapped_bytes", "bytes", "Memory of files that programs have mapped."),
    _machine("memory_shared_bytes", "bytes", "Memory shared between processes, and RAM disks."),
    _machine("memory_slab_bytes", "bytes", "Memory of the kernel's own structures."),
    _machine("memory_page_tables_bytes", "bytes", "Memory of page tables."),
    _machine("memory_kernel_stack_bytes", "bytes", "Memory of the kernel's stacks, which grows with the threads."),
    _machine("memory_committed_bytes", "bytes", "Memory that was promised to programs."),
    _machine("memory_committed_percent", "percent", "Memory that was promised, of the most the kernel would promise."),
    _machine("swap_total_bytes", "bytes", "Swap space there is."),
    _machine("swap_used_bytes", "bytes", "Swap space in use."),
)
PAGING: tuple[Metric, ...] = (
    _machine("page_in_bytes_per_second", "bytes/s", "Bytes brought in from disks."),
    _machine("page_out_bytes_per_second", "bytes/s", "Bytes sent out to disks."),
    _machine("swap_in_pages_per_second", "pages/s", "Pages brought back from swap."),
    _machine("swap_out_pages_per_second", "pages/s", "Pages sent to swap."),
    _machine("page_faults_per_second", "faults/s", "Page faults of any kind."),
    _machine("major_page_faults_per_second", "faults/s", "Page faults that had to read from disk."),
    _machine("oom_kills_per_second", "kills/s", "Processes the kernel killed for want of memory."),
)
DISK: tuple[Metric, ...] = (
    _machine("disk_reads_per_second", "reads/s", "Reads that disks finished."),
    _machine("disk_writes_per_second", "writes/s", "Writes that disks finished."),
    _machine("disk_read_bytes_per_second", "bytes/s", "Bytes read from disks."),
    _machine("disk_write_bytes_per_second", "bytes/s", "Bytes written to disks."),
    _machine("disk_merged_reads_per_second", "reads/s", "Reads joined with a neighbour before they went to a disk."),
    _machine("disk_merged_writes_per_second", "writes/s", "Writes joined with a neighbour before they went to a disk."),
    _machine("disk_read_wait_ms", "ms", "Average time from asking for a read to its end."),
    _machine("disk_write_wait_ms", "ms", "Average time from asking for a write to its end."),
    _machine(
        "disk_busy_percent", "percent", "Time disks were at work, summed: two disks at work all the time are 200."
    ),
    _machine("disk_queue_length", "count", "Reads and writes under way, on average."),
    _machine("disk_in_flight", "count", "Reads and writes under way at this moment."),
    _machine("root_filesystem_free_bytes", "bytes", "Space left for programs on the root file system."),
    _machine("root_filesystem_used_percent", "percent", "Space on the root file system that is no longer free."),
)
NETWORK: tuple[Metric, ...] = (
    _machine("received_bytes_per_second", "bytes/s", "Bytes received, loopback and virtual interfaces left out."),
    _machine("sent_bytes_per_second", "bytes/s", "Bytes sent, loopback and virtual interfaces left out."),
    _machine("received_packets_per_second", "packets/s", "Packets received."),
    _machine("sent_packets_per_second", "packets/s", "Packets sent."),
    _machine("receive_errors_per_second", "packets/s", "Packets received damaged."),
    _machine("send_errors_per_second", "packets/s", "Packets that could not be sent."),
    _machine("receive_drops_per_second", "packets/s", "Packets dropped on arrival."),
    _machine("send_drops_per_second", "packets/s", "Packets dropped before they were sent."),
    _machine("loopback_bytes_per_second", "bytes/s", "Bytes processes of this host sent one another."),
    _machine("tcp_received_segments_per_second", "segments/s", "TCP segments received."),
    _machine("tcp_sent_segments_per_second", "segments/s", "TCP segments sent."),
    _machine("tcp_retransmitted_segments_per_second", "segments/s", "TCP segments that had to be sent again."),
    _machine("tcp_active_opens_per_second", "connections/s", "TCP connections opened to others."),
    _machine("tcp_passive_opens_per_second", "connections/s", "TCP connections others opened."),
    _machine("tcp_resets_per_second", "segments/s", "TCP resets sent."),
    _machine("tcp_receive_errors_per_second", "segments/s", "TCP segments received damaged."),
    _machine("tcp_timeouts_per_second", "count/s", "TCP timers that ran out before an answer came."),
    _machine("tcp_listen_overflows_per_second", "connections/s", "TCP connections refused for a full queue."),
    _machine("udp_received_datagrams_per_second", "datagrams/s", "UDP datagrams received."),
    _machine("udp_sent_datagrams_per_second", "datagrams/s", "UDP datagrams sent."),
)
SOCKETS: tuple[Metric, ...] = (
    _machine("sockets", "count", "Sockets of all kinds."),
    _machine("tcp_sockets", "count", "TCP sockets in use."),
    _machine("tcp_established", "count", "TCP connections that stand."),
    _machine("tcp_orphaned_sockets", "count", "TCP sockets that no process holds any more."),
    _machine("tcp_waiting_sockets", "count", "Closed TCP connections that wait for late segments."),
    _machine("tcp_allocated_sockets", "count", "TCP sockets the kernel keeps in memory."),
    _machine("tcp_memory_bytes", "bytes", "Memory of TCP's buffers."),
    _machine("udp_sockets", "count", "UDP sockets in use."),
    _machine("open_file_handles", "count", "Files, sockets and pipes open in all processes."),
)
PRESSURE: tuple[Metric, ...] = (
    _machine("cpu_pressure_percent", "percent", "Time in which some thread waited for a core."),
    _machine("memory_pressure_percent", "percent", "Time in which some thread waited for memory."),
    _machine("memory_stall_percent", "percent", "Time in which nothing could run for want of memory."),
    _machine("io_pressure_percent", "percent", "Time in which some thread waited for a disk."),
    _machine("io_stall_percent", "percent", "Time in which nothing could run for waiting on a disk."),
)
"""The kernel's pressure stall information."""

MACHINE: tuple[Metric, ...] = (
    *(*CPU, *CORE, *RUN_QUEUE),
    *(*MEMORY, *PAGING, *DISK),
    *(*NETWORK, *SOCKETS, *PRESSURE),
)
