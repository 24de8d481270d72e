"""Workers, every 5 seconds: what the paper's hook collects (its Table I), Spark's tasks, and the process itself.

The subject is the executor's id, or `driver` in local mode. "The worker" is the JVM with the Python processes below it.
Processor time is counted in percent of one core: two busy cores are 200.
"""

from __future__ import annotations

from foretide.metrics.metric import Gauge, Level, Metric, Rate, Rule


def _worker(name: str, unit: str, meaning: str) -> Metric:
    return Metric(f"worker_{name}", unit, Level.WORKER, meaning)


def _gauge(name: str, unit: str, meaning: str, key: str) -> Rule:
    return Gauge(_worker(name, unit, meaning), key)


def _rate(name: str, unit: str, meaning: str, key: str, scale: float = 1.0) -> Rule:
    return Rate(_worker(name, unit, meaning), key, scale)


_HEAP_RULES: tuple[Rule, ...] = (
    _gauge("heap_bytes", "bytes", "Heap in use in the JVM.", "heap_bytes"),
    _gauge("non_heap_bytes", "bytes", "Metaspace in use in the JVM, compressed class space included.",
           "non_heap_bytes"),
)  # fmt: skip
TABLE_ONE: tuple[Metric, ...] = (
    _worker("tuple_execution_time_ms", "ms", "Average time the worker spends on one tuple."),
    _worker("inbound_tuples_per_second", "tuples/s", "Tuples that arrive at the worker's tasks."),
    _worker("inbound_queuing_time_ms", "ms", "Average time a tuple waits before a task of the worker takes it up."),
    _worker("outbound_batch_sending_time_ms", "ms", "Average time it takes to write one block of tuples for readers."),
    _worker("outbound_batches_per_second", "batches/s", "Blocks of tuples written for the readers downstream."),
    *(rule.metric for rule in _HEAP_RULES),
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
    _worker("running_slowness", "ratio", "Time of its running tasks over what they take elsewhere, in a late batch."),
    _worker("copied_tasks", "tasks", "Its running tasks of which copies were started elsewhere: it was taken out."),
)
"""What Spark itself counts for every task, summed over an executor."""

PROCESS_RULES: tuple[Rule, ...] = (
    _rate("cpu_user_percent", "percent", "Processor time of the worker in user mode, in percent of one core.",
          "user_seconds", 100),
    _rate("cpu_system_percent", "percent", "Processor time of the worker in the kernel, in percent of one core.",
          "system_seconds", 100),
    _rate("children_cpu_user_percent", "percent", "The part of the user time that went to the Python processes.",
          "children_user_seconds", 100),
    _rate("children_cpu_system_percent", "percent", "The part of the kernel time that went to the Python processes.",
          "children_system_seconds", 100),
    _rate("cpu_wait_percent", "percent", "Time threads of the worker were ready but had no core, in percent.",
          "waited_seconds", 100),
    _gauge("rss_bytes", "bytes", "Memory of the JVM that is resident.", "rss_bytes"),
    _gauge("children_rss_bytes", "bytes", "Resident memory of the Python processes, shared pages counted in each.",
           "children_rss_bytes"),
    _gauge("virtual_bytes", "bytes", "Address space of the JVM.", "virtual_bytes"),
    _gauge("swap_bytes", "bytes", "Memory of the worker that is swapped out.", "swap_bytes"),
    _rate("minor_faults_per_second", "faults/s", "Page faults of the worker that needed no disk.", "minor_faults"),
    _rate("major_faults_per_second", "faults/s", "Page faults of the worker that had to read from disk.",
          "major_faults"),
    _gauge("threads", "count", "Threads of the JVM, as the kernel counts them.", "threads"),
    _gauge("children_threads", "count", "Threads of the Python processes.", "children_threads"),
    _gauge("children", "count", "Python processes below the JVM.", "children"),
    _rate("voluntary_switches_per_second", "switches/s", "Times a thread of the worker gave up its core to wait.",
          "voluntary"),
    _rate("involuntary_switches_per_second", "switches/s", "Times a thread of the worker was put off its core.",
          "involuntary"),
    _rate("disk_read_bytes_per_second", "bytes/s", "Bytes the worker had fetched from disks.", "read_bytes"),
    _rate("disk_write_bytes_per_second", "bytes/s", "Bytes the worker sent towards disks.", "write_bytes"),
    _rate("read_bytes_per_second", "bytes/s", "Bytes the worker read from files and pipes, cached ones included.",
          "rchar"),
    _rate("write_bytes_per_second", "bytes/s", "Bytes the worker wrote to files and pipes.", "wchar"),
    _rate("read_calls_per_second", "calls/s", "System calls of the worker that read.", "syscr"),
    _rate("write_calls_per_second", "calls/s", "System calls of the worker that write.", "syscw"),
    _gauge("open_files", "count", "Files, sockets and pipes the worker holds open.", "open_files"),
)  # fmt: skip
"""Counters of the kernel for the JVM and the processes below it."""

JVM_RULES: tuple[Rule, ...] = (
    *_HEAP_RULES,
    _gauge("heap_capacity_bytes", "bytes", "Heap the JVM has taken from the system.", "heap_capacity_bytes"),
    _gauge("old_generation_bytes", "bytes", "Heap in use by objects that have lived long.", "old_generation_bytes"),
    _rate("gc_ms_per_second", "ms/s", "Time the JVM stood still for garbage collection.", "gc_ms"),
    _rate("gc_per_second", "count/s", "Pauses of the JVM for garbage collection.", "gc_count"),
    _rate("safepoint_ms_per_second", "ms/s", "Time the JVM stood still for any reason, garbage collection included.",
          "safepoint_ms"),
    _rate("compile_ms_per_second", "ms/s", "Time the JVM spent on compiling code.", "compile_ms"),
    _gauge("loaded_classes", "count", "Classes loaded in the JVM.", "loaded_classes"),
    _gauge("jvm_threads", "count", "Live Java threads.", "jvm_threads"),
)  # fmt: skip
"""Counters that the JVM publishes, the two of Table I included."""

PROCESS: tuple[Metric, ...] = tuple(rule.metric for rule in PROCESS_RULES)
JVM: tuple[Metric, ...] = tuple(rule.metric for rule in JVM_RULES if rule not in _HEAP_RULES)
WORKER: tuple[Metric, ...] = (*TABLE_ONE, *SPARK_TASKS, *PROCESS, *JVM)
