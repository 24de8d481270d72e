"""Transactions: sets of items, in which patterns occur again and again, and other patterns later."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from foretide.workloads.generator import (
    MAX_ROW_NUMBER,
    check_range,
    check_seed,
    check_vocabulary,
    check_whole,
    check_zipf,
)
from foretide.workloads.keyed import keys_of_ranks
from foretide.workloads.randomness import choose, pick, uniform, zipf_cumulative
from foretide.workloads.tweets import word

_PATTERN_ITEMS, _OTHER_ITEMS = 4, 2


@dataclass(frozen=True)
class Transactions:
    """The items of a pattern of two to four and up to two others, in the order of the alphabet.

    >>> Transactions(seed=1).rows(0, 2)["items"].to_pylist()
    ['doba faca nuba peba puca woba', 'baba faca nuba puca woba']

    Attributes:
        seed: What patterns and transactions follow from.
        items: Number of items.
        patterns: Number of patterns.
        zipf: How uneven patterns and other items are: that of rank r occurs in proportion to r ** -zipf.
        change_every: Rows after which ranks are given to patterns anew, at random; with 0 they stay.
        delay: The transaction of row r is that of row r - delay without a delay; the first rows are empty. With the
            size of a window as delay, it is what leaves the window when row r enters it.
    """

    seed: int
    items: int = 200
    patterns: int = 100
    zipf: float = 0.6
    change_every: int = 0
    delay: int = 0

    schema: ClassVar[pa.Schema] = pa.schema([("items", pa.string())])

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_vocabulary("items", self.items)
        check_vocabulary("patterns", self.patterns)
        check_zipf(self.zipf)
        check_whole("change_every", self.change_every, 0, MAX_ROW_NUMBER)
        check_whole("delay", self.delay, 0, MAX_ROW_NUMBER)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Transactions [first, last)."""
        check_range(first, last)
        begin, end = max(first - self.delay, 0), max(last - self.delay, 0)
        filled = self._transactions(begin, end)
        return pa.record_batch([pa.array([""] * (last - first - len(filled)) + filled)], schema=self.schema)

    def _transactions(self, first: int, last: int) -> list[str]:
        pattern = pick(zipf_cumulative(self.patterns, self.zipf), uniform(self.seed, "transactions", first, last))
        if self.change_every:
            epoch = np.arange(first, last) // self.change_every
            pattern = keys_of_ranks(pattern, self.patterns, self.seed, "transactions", epoch)
        others = [
            pick(zipf_cumulative(self.items, self.zipf), uniform(self.seed, f"transactions.other{n}", first, last))
            for n in range(_OTHER_ITEMS)
        ]
        known = _patterns(self.seed, self.items, self.patterns)
        rows = zip(pattern.tolist(), *(other.tolist() for other in others), strict=True)
        return [" ".join(sorted({*known[rank], *map(word, more)})) for rank, *more in rows]


@lru_cache(maxsize=8)
def _patterns(seed: int, items: int, patterns: int) -> list[tuple[str, ...]]:
    """Patterns of two, three and four items in turn."""
    drawn = choose(items, uniform(seed, "transactions.pattern", 0, _PATTERN_ITEMS * patterns)).tolist()
    starts = range(0, _PATTERN_ITEMS * patterns, _PATTERN_ITEMS)
    return [tuple(map(word, drawn[at : at + 2 + place % 3])) for place, at in enumerate(starts)]
