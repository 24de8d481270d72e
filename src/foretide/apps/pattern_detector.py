"""What one task of the detector of frequent patterns knows, and what it tells all tasks. No Spark here.

A task owns some of the itemsets: it counts them, and announces those that are maximal. Whether one is depends on
itemsets of other tasks, so an announcement reaches all of them. It is withdrawn once the itemset is no longer frequent,
or a larger one is announced. When nothing is on its way any more, exactly the maximal frequent itemsets are announced:
the largest frequent ones have no superset to hide them, and every other one is hidden by one of these or is maximal.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Self


def itemsets(items: str) -> list[str]:
    """All non-empty subsets of the items of one transaction.

    >>> itemsets("a b c")
    ['a', 'b', 'c', 'a b', 'a c', 'b c', 'a b c']
    """
    words = items.split()
    return [" ".join(chosen) for size in range(1, len(words) + 1) for chosen in combinations(words, size)]


@dataclass
class Detector:
    """One task.

    Attributes:
        threshold: An itemset is frequent if it occurs more often.
        counts: The occurrences of its own itemsets.
        heard: Announcements of all tasks less their withdrawals, by itemset.
        announced: What it has announced itself.
    """

    threshold: int
    counts: Counter[str] = field(default_factory=Counter)
    heard: Counter[str] = field(default_factory=Counter)
    announced: set[str] = field(default_factory=set)

    def take(self, counted: Mapping[str, int], heard: Mapping[str, int]) -> dict[str, int]:
        """Add what came; returns what it announces (1) and withdraws (-1)."""
        _add(self.counts, counted)
        _add(self.heard, heard)
        frequent = {itemset: frozenset(itemset.split()) for itemset in self.counts if self.is_frequent(itemset)}
        known = [*frequent.values(), *(frozenset(itemset.split()) for itemset in self.heard)]
        maximal = {itemset for itemset, items in frequent.items() if not any(items < other for other in known)}
        changes = dict.fromkeys(sorted(maximal - self.announced), 1)
        changes |= dict.fromkeys(sorted(self.announced - maximal), -1)
        self.announced = maximal
        return changes

    def is_frequent(self, itemset: str) -> bool:
        """Whether an itemset of its own occurs often enough."""
        return self.counts[itemset] > self.threshold

    def to_json(self) -> str:
        """All that it knows, as text."""
        return json.dumps([self.threshold, self.counts, self.heard, sorted(self.announced)])

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The detector that `to_json` wrote."""
        threshold, counts, heard, announced = json.loads(text)
        return cls(threshold, Counter(counts), Counter(heard), set(announced))


def _add(total: Counter[str], changes: Mapping[str, int]) -> None:
    """Add up, and forget what is 0: of the itemsets that were ever seen, few are in the window."""
    for name, change in changes.items():
        total[name] += change
        if not total[name]:
            del total[name]
