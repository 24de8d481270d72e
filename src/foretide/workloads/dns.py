"""DNS traffic: what clients ask for, with names that programs generate and data that is carried in names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

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
from foretide.workloads.randomness import choose, pick, shares_cumulative, uniform, words, zipf_cumulative

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HOSTS = ("www", "mail", "api", "cdn")
_TYPES = {"A": 0.6, "AAAA": 0.3, "MX": 0.1}
_CODES = {"NOERROR": 0.96, "NXDOMAIN": 0.03, "SERVFAIL": 0.01}
_GENERATED = 1
_MIX = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class DnsQueries:
    """Lines of five fields: client, name, type, response code and bytes of the response.

    >>> DnsQueries(seed=1).rows(0, 2)["line"].to_pylist()
    ['10.0.5.217 api.site0.example A NOERROR 75', '10.0.0.91 cdn.site18.example AAAA NOERROR 161']

    Attributes:
        seed: What the queries follow from.
        clients: Number of clients; all ask equally often.
        domains: Number of domains that people use.
        zipf: How uneven they are: domain r is asked for in proportion to (r + 1) ** -zipf.
        generated: The share of queries for names that a program has generated, none of which exists.
        tunnels: The share of queries that carry data in their names, as TXT records.
    """

    seed: int
    clients: int = 2000
    domains: int = 1000
    zipf: float = 1.1
    generated: float = 0.02
    tunnels: float = 0.01

    schema: ClassVar[pa.Schema] = pa.schema([("line", pa.string())])

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_vocabulary("clients", self.clients)
        check_vocabulary("domains", self.domains)
        check_zipf(self.zipf)
        check_share("generated", self.generated)
        check_share("tunnels", self.tunnels)
        check_share("generated + tunnels", self.generated + self.tunnels)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Queries [first, last)."""
        check_range(first, last)
        shares = shares_cumulative(1 - self.generated - self.tunnels, self.generated, self.tunnels)
        kind = pick(shares, uniform(self.seed, "dns.kind", first, last))
        client = choose(self.clients, uniform(self.seed, "dns.client", first, last))
        size = 60 + choose(400, uniform(self.seed, "dns.bytes", first, last))
        line = joined(
            _clients(self.clients).take(pa.array(client)),
            " ",
            self._names(kind, first, last),
            " ",
            self._drawn("dns.type", _TYPES, np.array(["", "A", "TXT"])[kind], first),
            " ",
            self._drawn("dns.code", _CODES, np.array(["", "NXDOMAIN", "NOERROR"])[kind], first),
            " ",
            pa.array(size).cast(pa.string()),
        )
        return pa.record_batch([line], schema=self.schema)

    def _names(self, kind: NDArray[np.int64], first: int, last: int) -> pa.Array:
        """Hosts of domains, and sixteen or more hexadecimal digits where a program has made the name."""
        host = choose(len(_HOSTS), uniform(self.seed, "dns.host", first, last))
        domain = pick(zipf_cumulative(self.domains, self.zipf), uniform(self.seed, "dns.domain", first, last))
        usual = joined(pa.array(_HOSTS).take(pa.array(host)), _domains(self.domains).take(pa.array(domain)))
        strange = np.flatnonzero(kind)
        bits = words(self.seed, "dns.label", first, last)[strange].tolist()
        names = usual.to_numpy(zero_copy_only=False)
        names[strange] = [_strange(each, bit) for each, bit in zip(kind[strange].tolist(), bits, strict=True)]
        return pa.array(names, pa.string())

    def _drawn(self, stream: str, shares: dict[str, float], given: NDArray[np.str_], first: int) -> pa.Array:
        """What is `given`, and drawn where nothing is."""
        drawn = pick(shares_cumulative(*shares.values()), uniform(self.seed, stream, first, first + len(given)))
        return pa.array(np.where(given == "", np.array(list(shares))[drawn], given), pa.string())


def _strange(kind: int, bits: int) -> str:
    """A name that a program has made: of a domain that does not exist, or below one that takes data in."""
    if kind == _GENERATED:
        return f"{bits:016x}.info"
    more = bits * _MIX % 2**64
    return f"{bits:016x}{more:016x}.t{bits % 10}.example"


@lru_cache(maxsize=8)
def _clients(clients: int) -> pa.Array:
    number = np.arange(clients)
    high, low = (pa.array(part).cast(pa.string()) for part in np.divmod(number, 256))
    return joined("10.0.", high, ".", low)


@lru_cache(maxsize=8)
def _domains(domains: int) -> pa.Array:
    return numbered(".site", domains, ".example")
