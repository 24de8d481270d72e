"""Request lines of a web site, in the form of the public Wikipedia traces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from foretide.workloads.generator import (
    check_range,
    check_seed,
    check_share,
    check_vocabulary,
    check_zipf,
    joined,
    numbered,
)
from foretide.workloads.randomness import headed_cumulative, pick, uniform

_START = 1190146243  # the second in which the public trace begins
_REQUESTS_PER_SECOND = 1000


@dataclass(frozen=True)
class RequestLines:
    """Lines of four fields: the request's number, its time, the URL, and a flag.

    >>> RequestLines(seed=1).rows(325, 326)["line"].to_pylist()
    ['325 1190146243.325 http://en.wikipedia.org/wiki/Page_53 -']

    Attributes:
        seed: What the URLs follow from.
        urls: Number of pages.
        zipf: How uneven the pages are: page r is asked for in proportion to (r + 1) ** -zipf.
        malformed: The share of lines that lack the URL.
    """

    seed: int
    urls: int = 1000
    zipf: float = 1.1
    malformed: float = 0.0

    schema: ClassVar[pa.Schema] = pa.schema([("line", pa.string())])

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_vocabulary("urls", self.urls)
        check_zipf(self.zipf)
        check_share("malformed", self.malformed)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Lines [first, last); the trace's own time goes on by a millisecond a line."""
        check_range(first, last)
        number = np.arange(first, last)
        seconds, millis = np.divmod(number, _REQUESTS_PER_SECOND)
        page = pick(
            headed_cumulative(self.malformed, self.urls, self.zipf),
            uniform(self.seed, "requests.url", first, last),
        )
        line = joined(
            pa.array(number).cast(pa.string()),
            " ",
            pa.array(seconds + _START).cast(pa.string()),
            _fractions().take(pa.array(millis)),
            _tails(self.urls).take(pa.array(page)),
        )
        return pa.record_batch([line], schema=self.schema)


@lru_cache(maxsize=1)
def _fractions() -> pa.Array:
    return pa.array([f".{millis:03d}" for millis in range(_REQUESTS_PER_SECOND)])


@lru_cache(maxsize=8)
def _tails(urls: int) -> pa.Array:
    """What follows the time: first the end of a malformed line, then that of each page."""
    return pa.concat_arrays([pa.array([" -"]), numbered(" http://en.wikipedia.org/wiki/Page_", urls, " -")])
