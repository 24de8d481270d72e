"""What every generator of rows can do; the generators themselves live in modules of their own."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Generator(Protocol):
    """Rows by their numbers: the same description gives the same row i for ever, however a range is cut.

    Implementations are frozen dataclasses of plain values, so they compare, hash and travel as JSON.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Rows [first, last).

        Raises:
            WorkloadError: The range runs backwards, starts below 0 or is too long for one record batch.
        """


def numbered(prefix: str, size: int, suffix: str = "") -> pa.Array:
    """A vocabulary of numbered names.

    >>> numbered("Page_", 3).to_pylist()
    ['Page_0', 'Page_1', 'Page_2']
    """
    return joined(prefix, pa.array(np.arange(size)).cast(pa.string()), suffix)


def joined(*parts: Any) -> pa.Array:
    """The columns and constants put together, row by row, with nothing between them."""
    return pc.binary_join_element_wise(*parts, "")
