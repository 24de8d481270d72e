"""Workers, every 5 seconds: what the paper's hook collects (its Table I), Spark's tasks, and the process itself.

The subject is the executor's id, or `driver` in local mode. "The worker" is the JVM with the Python processes below it.
Processor time is counted in percent of one core: two busy cores are 200.
"""

from __future__ import annotations

from foretide.metrics.metric import Level, Metric


def _worker(name: str, unit: str, meaning: str) -> Metric:
    return Metric(f"worker_{name}", unit, Level.WORKER, meaning)


TABLE_ONE: tuple[Metric, ...] = (
    _worker("tuple_execution_time_ms", "ms", "Average time the worker spends on one tuple."),
    _worker("inbound_tuples_per_second", "tuples/s", "Tuples that arrive at the worker's tasks."),
    _worker("inbound_queuing_time_ms", "ms", "Average time a tuple waits before a task of the worker takes it up."),
    _worker("outbound_batch_sending_time_ms", "ms", "Average time it takes to write one block of tuples for readers."),
    _worker("outbound_batches_per_second", "batches/s", "Blocks of tuples written for the readers downstream."),
    _worker("heap_bytes", "bytes", "Heap in use in the JVM."),
    _worker("non_heap_bytes", "bytes", "Metaspace in use in the JVM, compressed class space included."),
)
"""The features of the paper's Table I. The process id is no feature here: it names the worker, not its state."""

SPARK_TASKS: tuple[Metric, ...] = (
    _worker("task_run_ms_per_second", "ms/s", "Time tasks ran; 1000 is one task at work all the time."),
    _worker("task_cpu_ms_per_second", "ms/s", "Processor time of tasks inside the JVM."),
    _worker("task_deserialize_ms_per_second", "ms/s", "Time tasks spent on unpacking what they have to do."),
    _worker("task_gc_ms_per_second", "ms/s", "Time the JVM collected garbage while tasks ran, as Spark counts it."),
    _worker("fetch_wait_ms_per_second", "ms/s", "Time tasks waited for shuffle blocks of other workers."),
    _worker("shuffle_read_bytes_per_second", "bytes/s", "Bytes tasks read from shuffles, local and remote."),
    _worker("shuffle_write_bytes_per_second", "bytes/s", "Bytes tasks wrote to shuffles."),
    _worker("shuffle_write_ms_per_second", "ms/s", "Time tasks were blocked on writing shuffle data."),
    _worker("spilled_bytes_per_second", "bytes/s", "Bytes tasks spilled to disk for want of memory."),
    _worker("tasks_per_second", "tasks/s", "Tasks that finished."),
    _worker("failed_tasks_per_second", "tasks/s", "Tasks that failed."),
    _worker("active_tasks", "count", "Tasks that are running."),
    _worker("slowness", "ratio", "Time its tasks took over what the same tuples take on average, bolt by bolt."),
)
"""What Spark itself counts for every task, summed over an executor."""

PROCESS: tuple[Metric, ...] = (
    _worker("cpu_user_percent", "percent", "Processor time of the worker in user mode, in percent of one core."),
    _worker("cpu_system_percent", "percent", "Processor time of the worker in the kernel, in percent of one core."),
    _worker("children_cpu_user_percent", "percent", "The part of the user time that went to the Python processes."),
    _worker("children_cpu_system_percent", "percent", "The part of the kernel time that went to the Python processes."),
    _worker("cpu_wait_percent", "percent", "Time threads of the worker were ready but had no core, in percent."),
    _worker("rss_bytes", "bytes", "Memory of the JVM that is resident."),
    _worker("children_rss_bytes", "bytes", "Resident memory of the Python processes, shared pages counted in each."),
    _worker("virtual_bytes", "bytes", "Address space of the JVM."),
    _worker("swap_bytes", "bytes", "Memory of the worker that is swapped out."),
    _worker("minor_faults_per_second", "faults/s", "Page faults of the worker that needed no disk."),
    _worker("major_faults_per_second", "faults/s", "Page faults of the worker that had to read from disk."),
    _worker("threads", "count", "Threads of the JVM, as the kernel counts them."),
    _worker("children_threads", "count", "Threads of the Python processes."),
    _worker("children", "count", "Python processes below the JVM."),
    _worker("voluntary_switches_per_second", "switches/s", "Times a thread of the worker gave up its core to wait."),
    _worker("involuntary_switches_per_second", "switches/s", "Times a thread of the worker was put off its core."),
    _worker("disk_read_bytes_per_second", "bytes/s", "Bytes the worker had fetched from disks."),
    _worker("disk_write_bytes_per_second", "bytes/s", "Bytes the worker sent towards disks."),
    _worker("read_bytes_per_second", "bytes/s", "Bytes the worker read from files and pipes, cached ones included."),
    _worker("write_bytes_per_second", "bytes/s", "Bytes the worker wrote to files and pipes."),
    _worker("read_calls_per_second", "calls/s", "System calls of the worker that read."),
    _worker("write_calls_per_second", "calls/s", "System calls of the worker that write."),
    _worker("open_files", "count", "Files, sockets and pipes the worker holds open."),
)
"""What the kernel counts for the JVM and the processes below it."""

JVM: tuple[Metric, ...] = (
    _worker("heap_capacity_bytes", "bytes", "Heap the JVM has taken from the system."),
    _worker("old_generation_bytes", "bytes", "Heap in use by objects that have lived long."),
    _worker("gc_ms_per_second", "ms/s", "Time the JVM stood still for garbage collection."),
    _worker("gc_per_second", "count/s", "Pauses of the JVM for garbage collection."),
    _worker("safepoint_ms_per_second", "ms/s", "Time the JVM stood still for any reason, garbage collection included."),
    _worker("compile_ms_per_second", "ms/s", "Time the JVM spent on compiling code."),
    _worker("loaded_classes", "count", "Classes loaded in the JVM."),
    _worker("jvm_threads", "count", "Live Java threads."),
)
"""What the JVM publishes about itself, besides the two figures of Table I."""

WORKER: tuple[Metric, ...] = (*TABLE_ONE, *SPARK_TASKS, *PROCESS, *JVM)
