"""Directed graphs: an order of the nodes, and the loops."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def in_order(predecessors: Mapping[N, Collection[N]]) -> list[N]:
    """The nodes level by level, each after all its predecessors; those on a loop or behind one are left out.

    >>> in_order({"join": ["left", "right"], "right": ["in"], "left": ["in"], "in": []})
    ['in', 'right', 'left', 'join']
    >>> in_order({"a": [], "b": ["a", "c"], "c": ["b"]})
    ['a']
    """
    ordered: list[N] = []
    waiting = list(predecessors)
    while ready := [node for node in waiting if set(predecessors[node]).issubset(ordered)]:
        ordered += ready
        waiting = [node for node in waiting if node not in ready]
    return ordered


def reachable(successors: Mapping[N, Collection[N]], starts: Iterable[N]) -> set[N]:
    """The nodes at the end of a path from any of the starts, these included."""
    found: set[N] = set()
    frontier = list(starts)
    while frontier:
        node = frontier.pop()
        if node not in found:
            found.add(node)
            frontier += successors.get(node, ())
    return found


def components(successors: Mapping[N, Collection[N]]) -> list[tuple[N, ...]]:
    """Strongly connected components: nodes that reach one another, each group after all that lead to it.

    >>> components({"a": [], "b": ["a", "c"], "c": ["b"]})
    [('b', 'c'), ('a',)]
    """
    reach = {node: reachable(successors, successors[node]) for node in successors}
    group_of = {
        node: tuple(other for other in successors if other == node or (other in reach[node] and node in reach[other]))
        for node in successors
    }
    before: dict[tuple[N, ...], set[tuple[N, ...]]] = {group: set() for group in group_of.values()}
    for source, targets in successors.items():
        for target in targets:
            if target in group_of and group_of[target] != group_of[source]:
                before[group_of[target]].add(group_of[source])
    return in_order(before)


def loops(successors: Mapping[N, Collection[N]]) -> list[tuple[N, ...]]:
    """Groups of nodes that reach one another, and single ones that lead to themselves.

    >>> loops({"a": ["a", "b"], "b": ["c"], "c": []})
    [('a',)]
    """
    return [group for group in components(successors) if len(group) > 1 or group[0] in successors[group[0]]]
