"""Which counters make which metric of a machine.

Counters carry the names that node_exporter gives them, without its prefix, so a remote machine needs no translation.
"""

from __future__ import annotations

from foretide.probes.rules import Gauge, Mean, Rate, Rule, Share

CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The parts a core's time falls into. `guest` is no part of its own: the kernel counts it in `user` as well."""

CORE_RULES: tuple[Rule, ...] = (
    Share("machine_core_busy_percent", "busy", "total", 100),
    Share("machine_core_user_percent", "user_or_nice", "total", 100),
    Share("machine_core_system_percent", "kernel", "total", 100),
    Share("machine_core_iowait_percent", "iowait", "total", 100),
    Share("machine_core_steal_percent", "steal", "total", 100),
)

_CPU: tuple[Rule, ...] = tuple(
    Share(f"machine_cpu_{mode}_percent", f"cpu_{mode}", "cpu_total", 100) for mode in ("busy", *CPU_MODES, "guest")
)

_RUN_QUEUE: tuple[Rule, ...] = (
    Gauge("machine_cores", "cores"),
    Gauge("machine_running_processes", "procs_running"),
    Gauge("machine_blocked_processes", "procs_blocked"),
    Gauge("machine_load_1m", "load1"),
    Gauge("machine_load_5m", "load5"),
    Gauge("machine_load_15m", "load15"),
    Rate("machine_context_switches_per_second", "context_switches_total"),
    Rate("machine_interrupts_per_second", "intr_total"),
    Rate("machine_forks_per_second", "forks_total"),
)

_MEMORY: tuple[Rule, ...] = (
    Gauge("machine_memory_total_bytes", "memory_MemTotal_bytes"),
    Gauge("machine_memory_available_bytes", "memory_MemAvailable_bytes"),
    Gauge("machine_memory_used_bytes", "memory_used_bytes"),
    Gauge("machine_memory_used_percent", "memory_used_share", 100),
    Gauge("machine_memory_free_bytes", "memory_MemFree_bytes"),
    Gauge("machine_memory_buffers_bytes", "memory_Buffers_bytes"),
    Gauge("machine_memory_cached_bytes", "memory_Cached_bytes"),
    Gauge("machine_memory_active_bytes", "memory_Active_bytes"),
    Gauge("machine_memory_inactive_bytes", "memory_Inactive_bytes"),
    Gauge("machine_memory_dirty_bytes", "memory_Dirty_bytes"),
    Gauge("machine_memory_writeback_bytes", "memory_Writeback_bytes"),
    Gauge("machine_memory_anonymous_bytes", "memory_AnonPages_bytes"),
    Gauge("machine_memory_mapped_bytes", "memory_Mapped_bytes"),
    Gauge("machine_memory_shared_bytes", "memory_Shmem_bytes"),
    Gauge("machine_memory_slab_bytes", "memory_Slab_bytes"),
    Gauge("machine_memory_page_tables_bytes", "memory_PageTables_bytes"),
    Gauge("machine_memory_kernel_stack_bytes", "memory_KernelStack_bytes"),
    Gauge("machine_memory_committed_bytes", "memory_Committed_AS_bytes"),
    Gauge("machine_memory_committed_percent", "memory_committed_share", 100),
    Gauge("machine_swap_total_bytes", "memory_SwapTotal_bytes"),
    Gauge("machine_swap_used_bytes", "memory_swap_used_bytes"),
)

_PAGING: tuple[Rule, ...] = (
    Rate("machine_page_in_bytes_per_second", "vmstat_pgpgin", 1024),
    Rate("machine_page_out_bytes_per_second", "vmstat_pgpgout", 1024),
    Rate("machine_swap_in_pages_per_second", "vmstat_pswpin"),
    Rate("machine_swap_out_pages_per_second", "vmstat_pswpout"),
    Rate("machine_page_faults_per_second", "vmstat_pgfault"),
    Rate("machine_major_page_faults_per_second", "vmstat_pgmajfault"),
    Rate("machine_oom_kills_per_second", "vmstat_oom_kill"),
)

_DISK: tuple[Rule, ...] = (
    Rate("machine_disk_reads_per_second", "disk_reads_completed_total"),
    Rate("machine_disk_writes_per_second", "disk_writes_completed_total"),
    Rate("machine_disk_read_bytes_per_second", "disk_read_bytes_total"),
    Rate("machine_disk_write_bytes_per_second", "disk_written_bytes_total"),
    Rate("machine_disk_merged_reads_per_second", "disk_reads_merged_total"),
    Rate("machine_disk_merged_writes_per_second", "disk_writes_merged_total"),
    Mean("machine_disk_read_wait_ms", "disk_read_time_seconds_total", "disk_reads_completed_total", 1000),
    Mean("machine_disk_write_wait_ms", "disk_write_time_seconds_total", "disk_writes_completed_total", 1000),
    Rate("machine_disk_busy_percent", "disk_io_time_seconds_total", 100),
    Rate("machine_disk_queue_length", "disk_io_time_weighted_seconds_total"),
    Gauge("machine_disk_in_flight", "disk_io_now"),
    Gauge("machine_root_filesystem_free_bytes", "filesystem_avail_bytes"),
    Gauge("machine_root_filesystem_used_percent", "filesystem_used_share", 100),
)

_NETWORK: tuple[Rule, ...] = (
    Rate("machine_received_bytes_per_second", "network_receive_bytes_total"),
    Rate("machine_sent_bytes_per_second", "network_transmit_bytes_total"),
    Rate("machine_received_packets_per_second", "network_receive_packets_total"),
    Rate("machine_sent_packets_per_second", "network_transmit_packets_total"),
    Rate("machine_receive_errors_per_second", "network_receive_errs_total"),
    Rate("machine_send_errors_per_second", "network_transmit_errs_total"),
    Rate("machine_receive_drops_per_second", "network_receive_drop_total"),
    Rate("machine_send_drops_per_second", "network_transmit_drop_total"),
    Rate("machine_loopback_bytes_per_second", "loopback_receive_bytes_total"),
    Rate("machine_tcp_received_segments_per_second", "netstat_Tcp_InSegs"),
    Rate("machine_tcp_sent_segments_per_second", "netstat_Tcp_OutSegs"),
    Rate("machine_tcp_retransmitted_segments_per_second", "netstat_Tcp_RetransSegs"),
    Rate("machine_tcp_active_opens_per_second", "netstat_Tcp_ActiveOpens"),
    Rate("machine_tcp_passive_opens_per_second", "netstat_Tcp_PassiveOpens"),
    Rate("machine_tcp_resets_per_second", "netstat_Tcp_OutRsts"),
    Rate("machine_tcp_receive_errors_per_second", "netstat_Tcp_InErrs"),
    Rate("machine_tcp_timeouts_per_second", "netstat_TcpExt_TCPTimeouts"),
    Rate("machine_tcp_listen_overflows_per_second", "netstat_TcpExt_ListenOverflows"),
    Rate("machine_udp_received_datagrams_per_second", "netstat_Udp_InDatagrams"),
    Rate("machine_udp_sent_datagrams_per_second", "netstat_Udp_OutDatagrams"),
)

_SOCKETS: tuple[Rule, ...] = (
    Gauge("machine_sockets", "sockstat_sockets_used"),
    Gauge("machine_tcp_sockets", "sockstat_TCP_inuse"),
    Gauge("machine_tcp_established", "netstat_Tcp_CurrEstab"),
    Gauge("machine_tcp_orphaned_sockets", "sockstat_TCP_orphan"),
    Gauge("machine_tcp_waiting_sockets", "sockstat_TCP_tw"),
    Gauge("machine_tcp_allocated_sockets", "sockstat_TCP_alloc"),
    Gauge("machine_tcp_memory_bytes", "sockstat_TCP_mem_bytes"),
    Gauge("machine_udp_sockets", "sockstat_UDP_inuse"),
    Gauge("machine_open_file_handles", "filefd_allocated"),
)

_PRESSURE: tuple[Rule, ...] = (
    Rate("machine_cpu_pressure_percent", "pressure_cpu_waiting_seconds_total", 100),
    Rate("machine_memory_pressure_percent", "pressure_memory_waiting_seconds_total", 100),
    Rate("machine_memory_stall_percent", "pressure_memory_stalled_seconds_total", 100),
    Rate("machine_io_pressure_percent", "pressure_io_waiting_seconds_total", 100),
    Rate("machine_io_stall_percent", "pressure_io_stalled_seconds_total", 100),
)

HOST_RULES: tuple[Rule, ...] = (
    *(*_CPU, *_RUN_QUEUE, *_MEMORY),
    *(*_PAGING, *_DISK),
    *(*_NETWORK, *_SOCKETS, *_PRESSURE),
)
