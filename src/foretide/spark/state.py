"""Spark's own state: stateful operators in a plan, and the partitions of the state in a checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretide.errors import ActionError
from foretide.spark.hadoop import HadoopFolder
from foretide.spark.sinks import sink_port
from foretide.spark.versions import STATE_PARTITIONS, reason_against

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from foretide.topology.sinks import Sink

WATERMARK = "spark.watermarkDelayMs"
"""What a column with a watermark has in its metadata."""

PARTITIONS = "spark.sql.shuffle.partitions"
"""The number of state partitions, in entries of the offset log and in the session that starts a new checkpoint."""

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATEFUL = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)


def is_stateful(frame: DataFrame, work: Callable[[Any], Any]) -> bool:
    """Whether the work adds a stateful streaming operator to what the frame already has."""
    return _count(work(frame)) > _count(frame)


def has_state(frame: DataFrame) -> bool:
    """Whether a stateful streaming operator comes before this frame."""
    return _count(frame) > 0


def has_watermark(frame: DataFrame) -> bool:
    """Whether a column carries a watermark."""
    return any(WATERMARK in field.metadata for field in frame.schema.fields)


def _count(frame: DataFrame) -> int:
    return len(stateful_operators(frame))


def stateful_operators(frame: DataFrame) -> list[str]:
    """The stateful streaming operators before this frame, by Spark's names."""
    return _stateful_nodes(frame._jdf.queryExecution().analyzed())  # noqa: SLF001 - Spark shows its plan only there


def _stateful_nodes(plan: Any) -> list[str]:
    if not plan.isStreaming():
        return []
    children = plan.children()
    below = [children.apply(index) for index in range(children.size())]
    kind = plan.getClass().getSimpleName()
    joined = kind == "Join" and all(child.isStreaming() for child in below)
    own = [kind] if kind in _STATEFUL or joined else []
    return own + [name for child in below for name in _stateful_nodes(child)]


# ---- partitions of the state in a checkpoint
#
# Spark repartitions the state of a stopped query as one more batch N of the checkpoint: it writes entry N of the offset
# log, then the state (version N + 1), then entry N of the commit log. It starts no query whose last entry is a
# repartition without a commit. The log of a file sink needs an entry N too, which Spark does not write.


def repartition_obstacle(spark: Any, checkpoint: str, sink: Sink) -> str | None:
    """Why the state of a query cannot be given another number of partitions; None when it can.

    Before the first batch of a checkpoint only the session and the sink are known.
    """
    if (reason := reason_against(STATE_PARTITIONS)) is not None:
        return reason
    files = HadoopFolder(spark, checkpoint)
    if not sink_port(sink).can_skip_batches:
        return f"a {sink.format} cannot take a batch that writes nothing; use ft.Parquet or ft.Json"
    started = files.numbers("offsets")
    recorded = _conf(files.read(f"offsets/{started[-1]}")).get(_PROVIDER) if started else None
    provider = recorded or spark.conf.get(_PROVIDER)
    if provider != _ROCKSDB:
        return (
            f"its state is kept by {provider.rpartition('.')[2]}, and Spark repartitions RocksDB only; "
            f"begin a new checkpoint with {_PROVIDER}={_ROCKSDB}"
        )
    if files.numbers("commits") and not files.numbers("state"):
        return "the query has no state"
    return None


def repartition_state(spark: Any, checkpoint: str, sink: Sink, partitions: int) -> None:
    """Give the state of a stopped query another number of partitions: Spark's own offline repartition.

    The query's last batch has to be committed. If Spark cannot do it, everything is as it was.
    """
    files = HadoopFolder(spark, checkpoint)
    last = files.numbers("offsets")[-1]
    if _partitions(files, last) == partitions:
        return
    try:
        spark._streamingCheckpointManager.repartition(checkpoint, partitions)  # noqa: SLF001 - no public name yet
    except Exception as error:
        settle_repartition(spark, checkpoint, sink)
        raised = getattr(error, "java_exception", None)
        reason = str(error if raised is None else raised.getMessage()).split("\n", maxsplit=1)[0]
        raise ActionError(f"Spark could not give the state {partitions} partitions: {reason}") from error
    sink_port(sink).skip_batch(spark, last + 1)


def settle_repartition(spark: Any, checkpoint: str, sink: Sink) -> list[str]:
    """Undo a repartition that was interrupted, and add what the sink lacks of one that Spark has committed.

    Returns what was done. The query must be stopped.
    """
    files = HadoopFolder(spark, checkpoint)
    started, committed = files.numbers("offsets"), files.numbers("commits")
    if not committed:
        return []
    last, done = committed[-1], []
    if started[-1:] == [last + 1] and _is_repartition(files, last + 1):
        _undo_repartition(files, last + 1)
        done.append(f"the repartition of the state in batch {last + 1} was interrupted and has been undone")
    port = sink_port(sink)
    for batch in port.missing_batches(spark, last):
        if _is_repartition(files, batch):
            port.skip_batch(spark, batch)
            done.append(f"the sink had no entry for the repartition of the state in batch {batch}; it has one now")
    return done


def _undo_repartition(files: HadoopFolder, batch: int) -> None:
    """Delete what an uncommitted repartition has written; its entry in the offset log last, by which it is found.

    Its state must go too: where changes are logged, the next batch would write only a log of the same version, and
    Spark would load the snapshot of the repartition instead.
    """
    state = re.compile(rf"state/\d+/\d+/([^/]+/)?\.?{batch + 1}[._][^/]*")
    metadata = re.compile(rf"state/\d+/_metadata/v2/\.?{batch}(\.crc)?")
    for name in list(files.below("state")):
        if state.fullmatch(name) or metadata.fullmatch(name):
            files.delete(name)
    files.delete(f"offsets/{batch}")


def _is_repartition(files: HadoopFolder, batch: int) -> bool:
    """Whether the number of state partitions changes with a batch, as Spark itself decides it."""
    before, after = _partitions(files, batch - 1), _partitions(files, batch)
    return None not in (before, after) and before != after


def _partitions(files: HadoopFolder, batch: int) -> int | None:
    return partitions_of(files.read(f"offsets/{batch}"))


def partitions_of(entry: str) -> int | None:
    r"""The state partitions that an entry of the offset log names.

    >>> partitions_of('v1\n{"conf":{"spark.sql.shuffle.partitions":"4"}}\n{}')
    4
    """
    partitions = _conf(entry).get(PARTITIONS)
    return None if partitions is None else int(partitions)


def _conf(entry: str) -> dict[str, str]:
    """The settings that an entry of the offset log records."""
    for line in entry.splitlines():
        if f'"{PARTITIONS}"' in line:
            return dict(json.loads(line)["conf"])
    return {}


def has_commits(spark: Any, checkpoint: str) -> bool:
    """Whether any batch was committed."""
    return bool(HadoopFolder(spark, checkpoint).numbers("commits"))


def is_settled(spark: Any, checkpoint: str) -> bool:
    """Whether the last batch that was planned was committed too; Spark repartitions nothing else."""
    files = HadoopFolder(spark, checkpoint)
    return files.numbers("offsets")[-1:] == files.numbers("commits")[-1:]
