"""Finds a short part of a list that still fails (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def minimise(
    items: Sequence[Item], fails: Callable[[Sequence[Item]], bool], max_tries: int | None = None
) -> tuple[Item, ...]:
    """A part of `items`, in the same order, that fails, and from which no single item can be left out.

    Pieces are left out, of half the items at first, then of half as many, and at last single ones until none can be
    left out any more. `items` as a whole is taken to fail. After `max_tries` calls of `fails` the part that was found
    so far is returned.

    >>> minimise(range(100), lambda part: 3 in part and 80 in part)
    (3, 80)
    """
    kept, size, tries = tuple(items), max(1, len(items) // 2), 0
    while kept:
        shorter, place = kept, 0
        while place < len(shorter):
            if tries == max_tries:
                return shorter
            tries += 1
            rest = shorter[:place] + shorter[place + size :]
            if fails(rest):
                shorter = rest
            else:
                place += size
        if size == 1 and shorter == kept:
            break
        kept, size = shorter, max(1, size // 2)
    return kept
