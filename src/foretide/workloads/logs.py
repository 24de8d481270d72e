"""Lines of the logs of a distributed file system, some of them faults, some unreadable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from foretide.workloads.generator import check_range, check_seed, check_share, check_vocabulary, joined, numbered
from foretide.workloads.randomness import choose, pick, shares_cumulative, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

_USUAL = (
    ("INFO storage.Reader: served block ", " to client ", ""),
    ("INFO storage.Writer: stored block ", " of client ", ""),
    ("INFO names.Index: placed block ", " in shelf ", ""),
    ("DEBUG storage.Cleaner: looked at block ", " in round ", ""),
)
_FAULTS = (
    ("WARN storage.Writer: slow write of block ", ", took ", " ms"),
    ("ERROR storage.Reader: checksum of block ", " differs in chunk ", ""),
    ("ERROR names.Index: no copy of block ", " after ", " tries"),
)
_LINES = (*_USUAL, *_FAULTS)
_NUMBERS = 500


@dataclass(frozen=True)
class LogLines:
    """Lines of a node, a level, a component, and a message with the number of a block and another number.

    >>> LogLines(seed=1).rows(0, 1)["line"].to_pylist()
    ['node-22 INFO storage.Reader: served block 5361 to client 57']

    Attributes:
        seed: What the lines follow from.
        nodes: Number of nodes; all write equally often.
        blocks: Number of blocks.
        faults: The share of warnings and errors.
        malformed: The share of lines that are cut off after the node.
    """

    seed: int
    nodes: int = 50
    blocks: int = 10_000
    faults: float = 0.03
    malformed: float = 0.001

    schema: ClassVar[pa.Schema] = pa.schema([("line", pa.string())])

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_vocabulary("nodes", self.nodes)
        check_vocabulary("blocks", self.blocks)
        check_share("faults", self.faults)
        check_share("malformed", self.malformed)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Lines [first, last)."""
        check_range(first, last)
        usual = [(1 - self.faults) / len(_USUAL)] * len(_USUAL)
        shares = shares_cumulative(*usual, *[self.faults / len(_FAULTS)] * len(_FAULTS))
        kind = pa.array(pick(shares, uniform(self.seed, "logs.kind", first, last)))
        node = choose(self.nodes, uniform(self.seed, "logs.node", first, last))
        block = choose(self.blocks, uniform(self.seed, "logs.block", first, last))
        number = choose(_NUMBERS, uniform(self.seed, "logs.number", first, last))
        start, middle, end = _parts()
        where = _nodes(self.nodes).take(pa.array(node))
        said = joined(start.take(kind), _text(block), middle.take(kind), _text(number), end.take(kind))
        whole = uniform(self.seed, "logs.cut", first, last) >= self.malformed
        kept = pa.array(np.where(whole, said.to_numpy(zero_copy_only=False), ""), pa.string())
        return pa.record_batch([joined(where, kept)], schema=self.schema)


def _text(numbers: NDArray[np.int64]) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


@lru_cache(maxsize=1)
def _parts() -> tuple[pa.Array, pa.Array, pa.Array]:
    """What stands before, between and after the numbers of each kind of line."""
    start, middle, end = (pa.array(part) for part in zip(*_LINES, strict=True))
    return start, middle, end


@lru_cache(maxsize=8)
def _nodes(nodes: int) -> pa.Array:
    return numbered("node-", nodes, " ")
