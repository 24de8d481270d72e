"""Every metric once; `docs/reference/metrics.md` is made from this.

Here are those of queries, operators, edges and tasks, measured every batch. Names are those of Storm, Flink and Spark
where they have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from foretide.metrics.machine_metrics import MACHINE
from foretide.metrics.metric import Level, Metric
from foretide.metrics.worker_metrics import WORKER


def _all(level: Level, *described: tuple[str, str, str]) -> tuple[Metric, ...]:
    return tuple(Metric(name, unit, level, meaning) for name, unit, meaning in described)


QUERY = _all(
    Level.QUERY,
    ("batch", "number", "The batch that was committed last."),
    ("input_rows", "tuples", "Tuples that the batch took from all sources (Spark's numInputRows)."),
    ("input_rows_per_second", "tuples/s", "Tuples taken a second, since the commit of the batch before."),
    ("processed_rows_per_second", "tuples/s", "Tuples of the batch for each second that it ran."),
    ("sustainable_rows_per_second", "tuples/s", "The input at which the busiest replica would be busy all the time."),
    ("batch_duration_ms", "ms", "From trigger to commit (Spark's triggerExecution)."),
    ("add_batch_ms", "ms", "Reading, working and writing (Spark's addBatch)."),
    ("query_planning_ms", "ms", "Planning the batch (Spark's queryPlanning)."),
    ("latest_offset_ms", "ms", "Asking the sources how far they are (Spark's latestOffset)."),
    ("commit_ms", "ms", "Writing the logs of offsets and commits (Spark's walCommit and commitOffsets)."),
    ("latency_mean_ms", "ms", "Mean time of the batch's TUPLES from event time to the commit of the batch."),
    ("latency_p50_ms", "ms", "Half of the batch's tuples took at most so long from event time to commit."),
    ("latency_p95_ms", "ms", "95 % of the batch's tuples took at most so long from event time to commit."),
    ("latency_p99_ms", "ms", "99 % of the batch's tuples took at most so long from event time to commit."),
    ("total_lag", "tuples", "Tuples due at all sources that were not taken yet."),
    ("route_version", "number", "The version of the route table that the batch used."),
    ("retried_tasks", "tasks", "Task attempts of the batch that failed and were run again."),
    ("missed_batches", "batches", "Batches up to this one that could not be measured or audited: Spark dropped them."),
    ("state_rows", "rows", "Rows in the state of Spark's stateful operators."),
    ("state_bytes", "bytes", "Memory that the state takes."),
    ("late_rows", "rows", "Rows of the batch that came after the watermark and were dropped by Spark."),
    ("watermark_delay_ms", "ms", "From the watermark to the commit of the batch."),
)

OPERATOR = _all(
    Level.OPERATOR,
    ("arrival_rate", "tuples/s", "Tuples that arrive a second; at a spout those that fall due, taken or not."),
    ("arrival_scv", "ratio", "Squared variation coefficient of the time between two arrivals: 1 for Poisson."),
    ("service_time_ms", "ms", "Mean work on a tuple, without waiting for it or sending it on. Python bolts time it."),
    ("service_scv", "ratio", "Squared variation coefficient of the work on a tuple; native bolts: in real time only."),
    ("processed", "tuples", "Tuples worked on in the batch (Storm's executed)."),
    ("emitted", "tuples", "Tuples sent on in the batch, to other operators or to the sink."),
    ("acked", "tuples", "Tuples whose batch was committed."),
    ("failed", "tuples", "Tuples that went to the dead letters in the batch."),
    ("retried", "tuples", "Tuples whose task failed in the batch and was run again."),
    ("execute_latency_ms", "ms", "Time that a task spent for each tuple, with Spark's own work around it (Storm's)."),
    ("complete_latency_ms", "ms", "Mean time from a spout's tuple being due to its commit (Storm's)."),
    ("lag", "tuples", "Tuples due at a spout that were not taken yet."),
    ("active_tasks", "tasks", "Replicas that got tuples."),
    ("utilization", "ratio", "Share of the time between two commits that the active replicas were busy, on average."),
    ("capacity", "ratio", "The same for the busiest replica (Storm's capacity): near 1 it cannot take more."),
    ("busy_time_ms_per_second", "ms/s", "Milliseconds a second that an active replica was busy (Flink's)."),
    ("true_processing_rate", "tuples/s", "Tuples a second that the active replicas can take if never idle (Flink's)."),
    ("selectivity", "ratio", "Tuples sent on for each one worked on."),
    ("inbound_waiting_ms", "ms", "Mean time that a task waited for a core and for its input."),
    ("outbound_sending_ms", "ms", "Mean time that a task spent writing its output for the next operators."),
    ("join_imbalance", "ratio", "By how much the fullest partition of a join exceeds the mean load (LI of Aj-Stream)."),
)

EDGE = _all(
    Level.EDGE,
    ("rows_written", "tuples", "Tuples that were sent over the edge in the batch."),
    ("rows_read", "tuples", "Tuples that arrived, counted once for each reader of a shared edge."),
    ("in_flight", "tuples", "Tuples on their way over the edge, in real time: sent since the start and not yet taken."),
    ("skew", "ratio", "Tuples of the fullest replica over the mean of the active ones: 1 is even."),
    ("flow_fraction", "ratio", "Tuples sent from one operator to another for each one that the first worked on."),
)

TASK = _all(
    Level.TASK,
    ("task_rows", "tuples", "Tuples that a replica got in the batch."),
    ("task_busy_ms", "ms", "How long the replica's task ran in the batch."),
    ("task_service_time_ms", "ms", "Mean work on a tuple by this replica."),
    ("partition_lag", "tuples", "Tuples of a partition (`SPOUT/PARTITION`) of Kafka that were not taken yet."),
    ("partition_latency_mean_ms", "ms", "Mean time of a partition's tuples from their timestamp to the commit."),
    ("partition_latency_p99_ms", "ms", "99 % of a partition's tuples took at most so long from timestamp to commit."),
)


CATALOGUE: Mapping[str, Metric] = MappingProxyType(
    {metric.name: metric for metric in (*QUERY, *OPERATOR, *EDGE, *TASK, *WORKER, *MACHINE)}
)
"""All metrics by name."""


def at_level(level: Level) -> list[Metric]:
    """The metrics of one level, in the order of the catalogue."""
    return [metric for metric in CATALOGUE.values() if metric.level is level]
