"""Times as people read them, in their own time zone."""

from __future__ import annotations

from datetime import UTC, datetime

from foretide.formatting import format_number


def local_date(at: float, layout: str = "%Y-%m-%d at %H:%M:%S") -> str:
    """Seconds since 1970 as a local date; as a number where no calendar has them, as in a damaged file.

    >>> local_date(1e15, "%Y")
    '1,000,000,000,000,000 s after 1970'
    """
    try:
        return datetime.fromtimestamp(at, UTC).astimezone().strftime(layout)
    except (OverflowError, ValueError, OSError):
        return f"{format_number(at)} s after 1970"
