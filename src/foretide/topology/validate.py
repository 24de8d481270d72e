"""All that can be wrong with a topology before Spark sees it, found in one go.

Schemas are Spark's business: unknown grouping keys and stateful operators behind replicas are found by the compiler
in `foretide.spark`, and reported in the same list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import get_args

from foretide.errors import Problem
from foretide.graphs import loops, reachable
from foretide.topology.graph import DEAD_LETTERS, Bolt, From, OnError, Topology
from foretide.topology.groupings import Dynamic, Fields, Global, Grouping, LocalOrShuffle, PartialKey
from foretide.topology.modes import MICRO_BATCH, ExecutionMode
from foretide.topology.sinks import GUARANTEES, Guarantee, KafkaSink, Sink

ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""What names of topologies, components, streams and edges look like."""

_FEWEST_CHOICES = 2


def find_problems(topology: Topology) -> list[Problem]:
    """Every problem of the topology itself."""
    return [
        *_names(topology),
        *_spouts(topology),
        *chain.from_iterable(_bolt(topology, bolt) for bolt in topology.bolts),
        *_cycles(topology),
    ]


def find_run_problems(
    topology: Topology, sink: object, guarantee: str, mode: ExecutionMode = MICRO_BATCH
) -> list[Problem]:
    """Every problem of running it into this sink, under this guarantee, in this execution mode."""
    if not isinstance(sink, Sink):
        return [
            Problem(
                "sink",
                f"{sink!r} is not one sink",
                "One query writes to one sink: give one of Parquet, Json, Table, KafkaSink, Console, Memory, and start "
                "a second pipeline for a second kind of sink",
            )
        ]
    if guarantee not in GUARANTEES:
        return [Problem("guarantee", f"'{guarantee}' is not known", f"Choose one of {', '.join(GUARANTEES)}")]
    return [
        *mode.problems(topology, sink, guarantee),
        *_guarantee(topology, sink, guarantee),
        *_feedback_sink(topology, sink),
    ]


def _names(topology: Topology) -> Iterator[Problem]:
    ids = [part.id for part in topology.components]
    for name in [topology.name, *ids]:
        if not ID.fullmatch(name):
            yield Problem(name or "(empty)", "is not a usable name", "Use a letter, then letters, digits, '-' and '_'")
    if DEAD_LETTERS in ids:
        yield Problem(DEAD_LETTERS, "is the stream of dead letters", "Choose another id")
    for name, count in Counter(ids).items():
        if count > 1:
            yield Problem(name, f"{count} components have this id", "Give each spout and bolt an id of its own")


def _spouts(topology: Topology) -> Iterator[Problem]:
    if not topology.spouts:
        yield Problem(topology.name, "has no spout", "Add at least one source of tuples")
    if not topology.bolts:
        yield Problem(topology.name, "has no bolt", "Add at least one operator")
    for spout in topology.spouts:
        if not topology.readers(spout.id, "default"):
            yield Problem(spout.id, "no bolt reads this spout", f"Add From('{spout.id}') to a bolt, or remove it")
        for what, remedy in spout.source.problems():
            yield Problem(spout.id, what, remedy)


def _bolt(topology: Topology, bolt: Bolt) -> Iterator[Problem]:
    yield from _pool(bolt)
    yield from _streams(bolt)
    if not bolt.inputs:
        yield Problem(bolt.id, "has no input", "Name what it reads with From(...)")
    elif all(source.feedback for source in bolt.inputs):
        yield Problem(bolt.id, "reads nothing but feedback", "Give the loop an entry: an input that is not feedback")
    if bolt.retries < 0:
        yield Problem(bolt.id, f"retries is {bolt.retries}", "Use 0 or more")
    if bolt.on_error not in get_args(OnError):
        yield Problem(bolt.id, f"on_error is '{bolt.on_error}'", f"Use one of {', '.join(get_args(OnError))}")
    for source in bolt.inputs:
        yield from _input(topology, bolt, source)


def _pool(bolt: Bolt) -> Iterator[Problem]:
    local = any(isinstance(source.grouping, LocalOrShuffle) for source in bolt.inputs)
    if local and len(bolt.inputs) > 1:
        yield Problem(
            bolt.id,
            "mixes local-or-shuffle with other inputs",
            "Several inputs meet in one exchange: use another grouping for all of them",
        )
    if bolt.pool is not None and bolt.pool < 1:
        yield Problem(bolt.id, f"has a pool of {bolt.pool}", "A pool has at least 1 replica")
        return
    if bolt.pool is not None and local:
        yield Problem(bolt.id, "has a pool but no exchange", "local-or-shuffle runs in its producer's tasks: drop pool")
    if bolt.replicas is not None and not bolt.controllable:
        yield Problem(
            bolt.id,
            "has replicas, but its grouping cannot be controlled",
            "Use shuffle, fields, partial-key, dynamic or load-aware, or drop replicas",
        )
    elif bolt.replicas is not None and not 1 <= bolt.replicas <= bolt.pool_size:
        yield Problem(
            bolt.id,
            f"has {bolt.replicas} active replicas of a pool of {bolt.pool_size}",
            f"Use 1 to {bolt.pool_size}, or a larger pool",
        )


def _streams(bolt: Bolt) -> Iterator[Problem]:
    if not bolt.streams:
        yield Problem(bolt.id, "has no output stream", "Leave streams out for the default stream")
    for stream, count in Counter(bolt.streams).items():
        if count > 1:
            yield Problem(bolt.id, f"declares stream '{stream}' {count} times", "Declare each stream once")
        if stream == DEAD_LETTERS:
            yield Problem(bolt.id, f"declares the stream '{stream}'", "That one is Foretide's own: choose another name")
        elif not ID.fullmatch(stream):
            yield Problem(bolt.id, f"declares the stream '{stream}'", "Use a letter, then letters, digits, '-' and '_'")


def _input(topology: Topology, bolt: Bolt, source: From) -> Iterator[Problem]:
    where = f"{source.component} -> {bolt.id}"
    yield from _origin(topology, where, source)
    if [(other.component, other.stream) for other in bolt.inputs].count((source.component, source.stream)) > 1:
        yield Problem(where, f"stream '{source.stream}' is read twice", "Read each stream once")
    if isinstance(source.grouping, Fields | PartialKey) and not source.grouping.keys:
        yield Problem(where, f"{source.grouping.name} names no field", "Name at least one")
    if isinstance(source.grouping, Dynamic) and source.grouping.ratio is not None:
        yield from _ratio(where, source.grouping.ratio, bolt)
    if isinstance(source.grouping, Global) and bolt.pool not in (None, 1) and len(bolt.inputs) == 1:
        yield Problem(where, f"global sends to one task, but the pool is {bolt.pool}", "Drop pool")
    if isinstance(source.grouping, PartialKey) and not _is_merged(topology, bolt):
        yield Problem(
            where,
            f"partial-key splits each key over {source.grouping.choices} tasks and nobody merges them",
            f"Read '{bolt.id}' with a bolt behind fields or global that adds the parts up",
        )
    yield from choices(where, source.grouping)
    if (
        source.feedback
        and topology.component(source.component)
        and source.component not in reachable(_readers(topology), [bolt.id])
    ):
        yield Problem(where, "is marked as feedback but closes no loop", "Drop feedback=True")


def choices(where: str, grouping: Grouping) -> Iterator[Problem]:
    """What is wrong with the tasks that a key may be split over."""
    if isinstance(grouping, PartialKey) and grouping.choices < _FEWEST_CHOICES:
        yield Problem(where, f"partial-key has {grouping.choices} choices", "Give at least 2, or use fields")


def _origin(topology: Topology, where: str, source: From) -> Iterator[Problem]:
    component = topology.component(source.component)
    if component is None:
        known = ", ".join(part.id for part in topology.components)
        yield Problem(where, f"there is no component '{source.component}'", f"Components are: {known}")
        return
    streams = component.streams if isinstance(component, Bolt) else ("default",)
    if source.stream not in streams:
        yield Problem(
            where,
            f"'{source.component}' has no stream '{source.stream}'",
            f"Its streams are: {', '.join(streams)}",
        )


def _ratio(where: str, ratio: tuple[float, ...], bolt: Bolt) -> Iterator[Problem]:
    text = ":".join(f"{weight:g}" for weight in ratio)
    if len(ratio) != bolt.pool_size:
        yield Problem(
            where, f"ratio {text} does not fit a pool of {bolt.pool_size}", "Give one weight for each replica"
        )
    elif not ratio or min(ratio) < 0 or not 0 < sum(ratio) < float("inf"):
        yield Problem(where, f"ratio {text} splits nothing", "Weights are not negative and at least one is positive")


def _is_merged(topology: Topology, bolt: Bolt) -> bool:
    readers = [source for stream in bolt.streams for _, source in topology.readers(bolt.id, stream)]
    return any(isinstance(source.grouping, Fields | Global) for source in readers)


def _readers(topology: Topology) -> dict[str, list[str]]:
    """The bolts that read each bolt, feedback aside."""
    return {
        read.id: [
            bolt.id
            for bolt in topology.bolts
            for source in bolt.inputs
            if source.component == read.id and not source.feedback
        ]
        for read in topology.bolts
    }


def _cycles(topology: Topology) -> Iterator[Problem]:
    on_loops = {name for loop in loops(_readers(topology)) for name in loop}
    stuck = [bolt.id for bolt in topology.bolts if bolt.id in on_loops]
    if stuck:
        yield Problem(
            ", ".join(stuck),
            "read each other in a cycle",
            "Mark the input that goes back with From(..., feedback=True)",
        )


def _guarantee(topology: Topology, sink: Sink, guarantee: Guarantee) -> Iterator[Problem]:
    if guarantee == "exactly-once" and not sink.transactional:
        yield Problem(
            "sink",
            f"{sink.format} cannot commit exactly once",
            "Use Parquet, Json or Table, or ask for at-least-once",
        )
    for spout in topology.spouts:
        if guarantee == "at-most-once" and not spout.source.at_most_once:
            yield Problem(
                spout.id,
                "at-most-once needs a source that knows what it has handed out",
                "Use Replay, or ask for at-least-once: Spark replays the last batch of every other source",
            )
        elif guarantee in ("exactly-once", "at-least-once") and not spout.source.replayable:
            yield Problem(
                spout.id,
                f"its source cannot be read again, so {guarantee} cannot be kept",
                "Put a queue or files in front of it, or ask for none (at-most-once needs Replay)",
            )


def _feedback_sink(topology: Topology, sink: Sink) -> Iterator[Problem]:
    if not any(source.feedback for bolt in topology.bolts for source in bolt.inputs):
        return
    if not sink.feedback:
        yield Problem("sink", f"feedback cannot pass through {sink.format}", "Use Parquet, Json or KafkaSink")
    elif isinstance(sink, KafkaSink) and sink.topic_of("") == sink.topic:
        yield Problem(
            "sink",
            f"feedback would have to be picked out of topic '{sink.topic}', which all streams share",
            "Write '{stream}' in the name of the topic, so that each stream has one of its own",
        )
