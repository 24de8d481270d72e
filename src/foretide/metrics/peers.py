"""Comparing one of many with all the others, for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping


def median_of_others(values: Mapping[str, float]) -> dict[str, float]:
    """For each of two or more, the median of all the others; they are sorted once. Nothing for fewer.

    >>> median_of_others({"a": 1.0, "b": 2.0, "c": 9.0})
    {'a': 5.5, 'b': 5.0, 'c': 1.5}
    """
    if len(values) <= 1:
        return {}
    order = sorted(values, key=values.__getitem__)
    ranked = [values[name] for name in order]
    low, high = (len(order) - 2) // 2, (len(order) - 1) // 2
    rank = {name: place for place, name in enumerate(order)}
    return {name: (ranked[low + (low >= rank[name])] + ranked[high + (high >= rank[name])]) / 2 for name in values}
