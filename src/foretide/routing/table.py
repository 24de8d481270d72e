"""The route table: for every edge its pool and its ring, under one version. A published table is always valid.

Spark reads the table as JSON at the start of each batch; `from_json` reads it back for everybody else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from foretide.codec import parse_json
from foretide.errors import CodecError, RouteError
from foretide.routing.ring import DEFAULT_SLOTS, Ring, make_ring, resplit, slot_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = 1
"""Format of the file. A reader that finds a newer one uses the default split and reports it."""

MAX_VERSION = 2**62
"""Versions are 64-bit numbers in Spark, and there has to be a next one."""

MAX_POOL = 100_000
"""Tasks behind an edge in a table that can be read; a larger number is damage, not a pool."""


@dataclass(frozen=True, slots=True)
class Route:
    """How one edge splits its stream over the `pool` tasks behind it.

    `balance_every` are the seconds after which a load-aware edge is split again; None if it is not load-aware.
    """

    pool: int
    ring: Ring
    balance_every: float | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Slots of each task: the ratio as it is in force."""
        return slot_counts(self.ring, self.pool)

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the stream that each task gets."""
        return tuple(count / len(self.ring) for count in self.counts)

    @property
    def active(self) -> int:
        """The number of tasks that get tuples."""
        return sum(1 for count in self.counts if count)


@dataclass(frozen=True, slots=True)
class RouteTable:
    """All routes of one pipeline under one version. Every change is a new table with the next version.

    >>> table = RouteTable().declare("parse", pool=3)
    >>> table.split("parse", [7, 3, 2]).edges["parse"].counts
    (597, 256, 171)
    >>> table.activate("parse", 2).edges["parse"].counts
    (512, 512, 0)
    """

    version: int = 0
    edges: Mapping[str, Route] = field(default_factory=lambda: MappingProxyType({}))

    def declare(
        self,
        edge: str,
        pool: int,
        weights: Sequence[float] | None = None,
        slots: int = DEFAULT_SLOTS,
        balance_every: float | None = None,
    ) -> RouteTable:
        """Add an edge with its first split. A known edge with the same pool and ring size keeps its route."""
        known = self.edges.get(edge)
        if known and known.pool == pool and len(known.ring) == slots:
            same = known.balance_every == balance_every
            return self if same else self._with(edge, replace(known, balance_every=balance_every))
        chosen = _checked(edge, pool, weights if weights is not None else [1] * pool, slots)
        return self._with(edge, Route(pool, make_ring(chosen, slots), balance_every))

    def split(self, edge: str, weights: Sequence[float]) -> RouteTable:
        """Split an edge in a new ratio, moving as few identifiers as possible."""
        route = self.route(edge)
        chosen = _checked(edge, route.pool, weights, len(route.ring))
        return self._with(edge, replace(route, ring=resplit(route.ring, chosen)))

    def activate(self, edge: str, replicas: int) -> RouteTable:
        """Spread an edge evenly over its first `replicas` tasks."""
        pool = self.route(edge).pool
        if not 1 <= replicas <= pool:
            raise RouteError(edge, f"active replicas must be between 1 and {pool}, got {replicas}")
        return self.split(edge, [1] * replicas + [0] * (pool - replicas))

    def restore(self, good: RouteTable) -> RouteTable:
        """This table with missing edges taken from a good one; itself if none is missing."""
        missing = {name: route for name, route in good.edges.items() if name not in self.edges}
        if not missing:
            return self
        return RouteTable(max(self.version, good.version) + 1, MappingProxyType({**missing, **self.edges}))

    def republished(self) -> RouteTable:
        """The same routes under the next version."""
        return replace(self, version=self.version + 1)

    def route(self, edge: str) -> Route:
        """The route of an edge, or an error that lists the known edges."""
        if edge not in self.edges:
            known = ", ".join(sorted(self.edges)) or "none"
            raise RouteError(edge, f"no such edge; edges with a route are: {known}")
        return self.edges[edge]

    def _with(self, edge: str, route: Route) -> RouteTable:
        return RouteTable(self.version + 1, MappingProxyType({**self.edges, edge: route}))

    def to_json(self) -> str:
        """The text that Spark reads at the start of each batch."""
        edges = {name: _entry(route) for name, route in self.edges.items()}
        return json.dumps({"format": FORMAT, "version": self.version, "edges": edges}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> RouteTable:
        """Read a table back, checking all that Spark will rely on."""
        try:
            data = parse_json(text)
            if not isinstance(data, dict):
                raise RouteError("*", "the table is not a JSON object")
            if data.get("format") != FORMAT:
                raise RouteError("*", f"the table has format {data.get('format')}, this release reads {FORMAT}")
            version = data["version"]
            if type(version) is not int or not 0 <= version <= MAX_VERSION:
                raise ValueError(f"its version is not a whole number from 0 to {MAX_VERSION}")  # noqa: TRY301
            edges = {name: _parse_route(name, entry) for name, entry in data["edges"].items()}
            return RouteTable(version, MappingProxyType(edges))
        except (CodecError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise RouteError("*", f"the table cannot be read ({error})") from error


def parse_ratio(edge: str, text: str) -> list[float]:
    """Read a ratio such as `4:3:1`.

    >>> parse_ratio("parse", "4:3:1")
    [4.0, 3.0, 1.0]
    """
    try:
        return [float(part) for part in text.split(":")]
    except ValueError:
        raise RouteError(edge, f"'{text}' is not a ratio; write one weight for each task, such as 4:3:1") from None


def _checked(edge: str, pool: int, weights: Sequence[float], slots: int) -> Sequence[float]:
    if not 1 <= pool <= MAX_POOL:
        raise RouteError(edge, f"a pool of {pool} tasks cannot take a stream; it needs 1 to {MAX_POOL}")
    if len(weights) != pool:
        raise RouteError(
            edge, f"{len(weights)} weights for a pool of {pool} tasks; give one for each (0 bypasses a task)"
        )
    try:
        make_ring(weights, slots)
    except ValueError as error:
        raise RouteError(edge, str(error)) from error
    return weights


def _entry(route: Route) -> dict[str, Any]:
    interval = {} if route.balance_every is None else {"balance_every": route.balance_every}
    return {"pool": route.pool, "ring": list(route.ring), **interval}


def _parse_route(edge: str, entry: Any) -> Route:
    pool, ring = entry["pool"], tuple(entry["ring"])
    if any(type(number) is not int for number in (pool, *ring)):  # Spark reads anything else as null
        raise RouteError(edge, "its pool and its ring are not all whole numbers")
    if pool > MAX_POOL:
        raise RouteError(edge, f"a pool has at most {MAX_POOL} tasks")
    if not ring or any(not 0 <= task < pool for task in ring):
        raise RouteError(edge, f"its ring is empty or names a task outside 0 to {pool - 1}")
    interval = entry.get("balance_every")
    if interval is not None and not (isinstance(interval, int | float) and 0 <= interval < math.inf):
        raise RouteError(edge, f"'balance_every' must be seconds, 0 or more, not {interval!r}")
    return Route(pool, ring, None if interval is None else float(interval))
