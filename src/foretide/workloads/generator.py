"""What every generator of rows can do, and the checks of arguments that generators and curves share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from foretide.errors import WorkloadError

if TYPE_CHECKING:
    import pyarrow as pa


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
    import pyarrow as pa  # noqa: PLC0415 - curves share this module, and need no Arrow

    return joined(prefix, pa.array(range(size)).cast(pa.string()), suffix)


def joined(*parts: Any) -> pa.Array:
    """The columns and constants put together, row by row, with nothing between them."""
    import pyarrow.compute as pc  # noqa: PLC0415

    return pc.binary_join_element_wise(*parts, "")


MAX_VOCABULARY = 10_000_000
"""The most entries of a vocabulary (keys, users, URLs ...): one sits in memory as a whole."""

MAX_ROWS = 10_000_000
"""The most rows of one call: the strings of a record batch must stay below Arrow's 2 GiB a column."""

MAX_ROW_NUMBER = 2**62
"""Row numbers stay below this, so that sums with them still fit into 64 bits."""


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse anything but a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise WorkloadError(f"{name} must be a whole number from {low} to {high}, got {value!r}.")


def check_number(name: str, value: object, low: float, high: float) -> None:
    """Refuse anything but a number from `low` to `high`; NaN lies in no range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise WorkloadError(f"{name} must be a number from {low:g} to {high:g}, got {value!r}.")


def check_seed(seed: object) -> None:
    """Refuse a seed that does not fit into 64 bits."""
    check_whole("seed", seed, 0, 2**64 - 1)


def check_vocabulary(name: str, size: object) -> None:
    """Refuse an empty vocabulary and one too large to hold."""
    check_whole(name, size, 1, MAX_VOCABULARY)


def check_zipf(exponent: object) -> None:
    """Refuse an exponent for which the weights of the ranks would under- or overflow."""
    check_number("zipf", exponent, 0, 10)


def check_share(name: str, share: object) -> None:
    """Refuse anything but a share of a whole, from 0 to 1."""
    check_number(name, share, 0, 1)


def check_range(first: int, last: int) -> None:
    """Refuse a range of rows that runs backwards or is too long for one record batch."""
    check_whole("first", first, 0, MAX_ROW_NUMBER)
    check_whole("last", last, 0, MAX_ROW_NUMBER)
    if last < first:
        raise WorkloadError(f"rows [{first}, {last}) run backwards; give a last that is at least first.")
    if last - first > MAX_ROWS:
        raise WorkloadError(f"{last - first} rows were asked for at once; ask for at most {MAX_ROWS} a call.")


def json_object(what: str, text: str) -> dict[str, Any]:
    """The JSON object in `text`, or a WorkloadError that says `what` cannot be read."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"{what} is not JSON: {error}. Give the text that to_json wrote.") from error
    if not isinstance(value, dict):
        raise WorkloadError(f"{what} is JSON, but not an object. Give the text that to_json wrote.")
    return value
