"""Another number of partitions for Spark's state, while the query is stopped: Spark's own offline repartition.

It rewrites the state as one more batch of the checkpoint. A file sink counts batches too, and must be told of that one:
an entry without files, or Spark reads its output no more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from foretide.control_folder.filesystem import open_filesystem
from foretide.errors import ActionError
from foretide.topology.sinks import Json, Parquet, Sink

if TYPE_CHECKING:
    from foretide.control_folder.filesystem import Filesystem

_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"
_HEADER = "v1"


def repartition_state(spark: Any, checkpoint: str, sink: Sink, partitions: int) -> None:
    """Repartition the state of a stopped query whose last batch was committed."""
    offsets = open_filesystem(f"{checkpoint}/offsets")
    last = last_entry(spark, checkpoint, "offsets")
    if partitions_of(offsets.read(str(last)) or "") == partitions:
        return
    try:
        spark._streamingCheckpointManager.repartition(checkpoint, partitions)  # noqa: SLF001 - no public name yet
    except Exception as error:
        said = str(error).split("\n", maxsplit=1)[0]
        raise ActionError(f"Spark could not give the state {partitions} partitions: {said}") from error
    if isinstance(sink, Parquet | Json):
        interval = int(spark.conf.get(_INTERVAL, "10"))
        tell_sink(open_filesystem(f"{sink.path}/_spark_metadata"), last + 1, interval)


def partitions_of(entry: str) -> int | None:
    r"""The state partitions that an entry of the offset log names.

    >>> partitions_of('v1\n{"conf":{"spark.sql.shuffle.partitions":"4"}}\n{}')
    4
    """
    for line in entry.splitlines():
        if '"spark.sql.shuffle.partitions"' in line:
            return int(json.loads(line)["conf"]["spark.sql.shuffle.partitions"])
    return None


def tell_sink(log: Filesystem, batch: int, interval: int) -> None:
    """Enter a batch without files; every so many batches the sink's log repeats all that was before."""
    if (batch + 1) % interval:
        log.write(str(batch), _HEADER)
        return
    before = [log.read(f"{batch - interval}.compact"), *(log.read(str(n)) for n in range(batch - interval + 1, batch))]
    entries = [line for text in before for line in (text or "").splitlines() if line and line != _HEADER]
    log.write(f"{batch}.compact", "\n".join([_HEADER, *entries]))


def is_settled(spark: Any, checkpoint: str) -> bool:
    """Whether the last batch that was planned was committed too; Spark repartitions nothing else."""
    return last_entry(spark, checkpoint, "offsets") == last_entry(spark, checkpoint, "commits")


def last_entry(spark: Any, checkpoint: str, log: str) -> int:
    """The last batch in one of the checkpoint's logs; -1 when there is none."""
    jvm = spark._jvm  # noqa: SLF001 - files of any file system that Spark knows
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/{log}")
    filesystem = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    listed = filesystem.listStatus(path) if filesystem.exists(path) else []
    numbers = [name for entry in listed if (name := entry.getPath().getName()).isdigit()]
    return max(map(int, numbers), default=-1)
