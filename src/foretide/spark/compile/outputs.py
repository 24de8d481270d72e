"""Output streams: telling a bolt's streams apart, setting dead letters aside, and uniting all rows for the one sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from foretide.errors import Problem, TopologyError
from foretide.spark.compile.bolts import DEAD_COLUMN, DEAD_TYPE
from foretide.spark.groupings import quoted
from foretide.topology.graph import DEAD_LETTERS, DEFAULT_STREAM, STREAM_COLUMN, Bolt, Spout, Topology, output_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LABEL = "_ft_label"
_RESERVED = "_ft_"


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """All rows of the frames; a column that one of them lacks is null there."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def pick_stream(frame: DataFrame, component: Spout | Bolt | None, stream: str) -> DataFrame:
    """One stream of a component's output, without the columns that tell streams apart."""
    if DEAD_COLUMN in frame.columns:
        frame = frame.where(F.col(DEAD_COLUMN).isNull()).drop(DEAD_COLUMN)
    if _names_streams(component):
        frame = frame.where(F.col(STREAM_COLUMN) == stream).drop(STREAM_COLUMN)
    return frame


def check_streams(bolt: Bolt, output: DataFrame) -> DataFrame:
    """A bolt's output in which tuples of a stream that it did not declare are dead letters."""
    if not _names_streams(bolt):
        return output
    if STREAM_COLUMN not in output.columns:
        raise refusal(
            bolt.id,
            f"declares the streams {', '.join(bolt.streams)} but its output has no column '{STREAM_COLUMN}'",
            "Name the stream of each tuple in that column",
        )
    content = [quoted(name) for name in output.columns if not name.startswith(_RESERVED)]
    declared = F.coalesce(F.col(STREAM_COLUMN).isin(*bolt.streams), F.lit(False))  # noqa: FBT003
    error = F.concat(F.lit("UnknownStream: "), F.coalesce(F.col(STREAM_COLUMN), F.lit("null")))
    letter = F.struct(
        F.lit(bolt.id).alias("bolt"), error.alias("error"), F.lit(1).alias("attempts"),
        F.to_json(F.struct(*content)).alias("tuple"),
    ).cast(DEAD_TYPE)  # fmt: skip
    dead = _dead_letter(output)
    return output.withColumn(DEAD_COLUMN, F.when(dead.isNull() & ~declared, letter).otherwise(dead))


def refusal(where: str, what: str, remedy: str) -> TopologyError:
    """One problem of a component, as an error; the compiler gathers the problems of all components."""
    return TopologyError(where, [Problem(where, what, remedy)])


@dataclass
class Outputs:
    """The rows for the sink, a branch for each bolt that writes there, and the columns of each output stream."""

    topology: Topology
    branches: list[DataFrame] = field(default_factory=list)
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def streams_of(self, bolt: Bolt, output: DataFrame) -> list[str]:
        """The streams of a bolt that end in the sink."""
        streams = [stream for made, stream in self.topology.outputs() if made.id == bolt.id]
        return [*streams, *([DEAD_LETTERS] if DEAD_COLUMN in output.columns else [])]

    def add(self, bolt: Bolt, output: DataFrame, streams: list[str]) -> None:
        """Send these streams of a bolt to the sink, each row named by its stream."""
        if STREAM_COLUMN in output.columns and not _names_streams(bolt):
            raise refusal(
                bolt.id,
                f"its output has a column '{STREAM_COLUMN}', which names the stream in the sink",
                "Rename the column, or declare the bolt's streams",
            )
        content = tuple(name for name in output.columns if name not in (DEAD_COLUMN, STREAM_COLUMN))
        for stream in streams:
            if stream == DEAD_LETTERS:
                self.columns[DEAD_LETTERS] = ("dead_letter",)
            else:
                self.columns[output_name(bolt.id, stream)] = content
        dead = _dead_letter(output)
        named = output.withColumn(_LABEL, F.when(dead.isNotNull(), DEAD_LETTERS).otherwise(_label(bolt, streams)))
        letters = [dead.alias("dead_letter")] if DEAD_COLUMN in output.columns else []
        chosen = named.where(F.col(_LABEL).isNotNull())
        self.branches.append(chosen.select(F.col(_LABEL).alias(STREAM_COLUMN), *map(quoted, content), *letters))

    def add_dead_letters(self, frame: DataFrame) -> None:
        """Send the dead letters of a spout to the sink."""
        self.columns[DEAD_LETTERS] = ("dead_letter",)
        letters = frame.where(F.col(DEAD_COLUMN).isNotNull())
        self.branches.append(
            letters.select(F.lit(DEAD_LETTERS).alias(STREAM_COLUMN), F.col(DEAD_COLUMN).alias("dead_letter"))
        )

    def clashes(self) -> Iterator[Problem]:
        """Columns of one name but different types: they cannot stand side by side in the sink."""
        first: dict[str, str] = {}
        for branch in self.branches:
            for name, kind in branch.dtypes:
                known = first.setdefault(name, kind)
                if known != kind:
                    yield Problem(
                        "sink",
                        f"two output streams have a column '{name}', as {known} and as {kind}",
                        "All streams share one sink: rename or cast one of the two",
                    )


def _names_streams(component: Spout | Bolt | None) -> bool:
    """Whether a component's output has a column that names each tuple's stream."""
    return isinstance(component, Bolt) and tuple(component.streams) != (DEFAULT_STREAM,)


def _dead_letter(output: DataFrame) -> Column:
    return F.col(DEAD_COLUMN) if DEAD_COLUMN in output.columns else F.lit(None).cast(DEAD_TYPE)


def _label(bolt: Bolt, streams: list[str]) -> Column:
    """The name in the sink of the stream that a row belongs to; null for one that does not end there."""
    label = F.lit(None).cast("string")
    for stream in streams:
        if stream != DEAD_LETTERS:
            name = F.lit(output_name(bolt.id, stream))
            label = F.when(F.col(STREAM_COLUMN) == stream, name).otherwise(label) if _names_streams(bolt) else name
    return label
