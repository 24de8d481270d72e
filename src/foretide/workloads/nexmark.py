"""Events of Nexmark, the benchmark of an auction site: people who enter, auctions that they open, and bids.

Of 50 events one is a person, three are auctions and 46 are bids, in this order. Most auctions are by the same few
sellers, and most bids are by few bidders on few auctions. A row has the columns of all three kinds; those that its kind
does not have are 0 or empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from foretide.workloads.generator import check_number, check_range, check_seed, check_whole, joined
from foretide.workloads.randomness import choose, uniform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Fractions = NDArray[np.float64]

KINDS = ("person", "auction", "bid")
CYCLE, AUCTIONS = 50, 3
"""Events of a cycle, and auctions among them; the first event is a person, and all others are bids."""

FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5

_HOT_EVERY = 100
"""Of so many people, or auctions, one after the other, one is hot."""

_AHEAD = 10
"""So many people and auctions are named before they are there."""

_GIVEN = ("Anna", "Ben", "Clara", "David", "Eva", "Felix", "Greta", "Hugo", "Iris", "Jonas", "Karla", "Leo")
_FAMILY = ("Adler", "Becker", "Carter", "Dietz", "Evans", "Fuchs", "Gomez", "Hansen", "Ivers", "Jansen")
_CITIES = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Seattle", "WA"),
    ("Redmond", "WA"),
    ("Kent", "WA"),
    ("Cheyenne", "WY"),
)
_ITEMS = ("bicycle", "camera", "clock", "guitar", "lamp", "map", "piano", "radio", "stamp", "vase")


@dataclass(frozen=True)
class NexmarkEvents:
    """People, auctions and bids. Event i belongs to the second i / `rate` of event time.

    >>> [row["kind"] for row in NexmarkEvents(seed=1).rows(0, 5).to_pylist()]
    ['person', 'auction', 'auction', 'auction', 'bid']

    Attributes:
        seed: What the events follow from.
        rate: Events in a second of event time; auctions are open for a number of events.
        hot_auctions: Of so many bids, all but one are on the hot auction.
        hot_bidders: Of so many bids, all but one are by the hot bidder.
        hot_sellers: Of so many auctions, all but one are by the hot seller.
        people: The last so many people open auctions and bid.
        open_auctions: Auctions that are open at a time, on average; bids are on the last so many auctions.
    """

    seed: int
    rate: float = 10_000.0
    hot_auctions: int = 2
    hot_bidders: int = 4
    hot_sellers: int = 4
    people: int = 1000
    open_auctions: int = 100

    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("kind", pa.string()),
            ("person", pa.int64()),
            ("name", pa.string()),
            ("email", pa.string()),
            ("credit_card", pa.string()),
            ("city", pa.string()),
            ("state", pa.string()),
            ("auction", pa.int64()),
            ("seller", pa.int64()),
            ("category", pa.int64()),
            ("item", pa.string()),
            ("initial_bid", pa.int64()),
            ("reserve", pa.int64()),
            ("open_ms", pa.int64()),
            ("bidder", pa.int64()),
            ("price", pa.int64()),
        ]
    )

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_number("rate", self.rate, 1e-3, 1e9)
        for name in ("hot_auctions", "hot_bidders", "hot_sellers", "people", "open_auctions"):
            check_whole(name, getattr(self, name), 1, 1_000_000)

    @property
    def seller_seconds(self) -> tuple[float, float]:
        """Event time by which a seller enters at most after, and at most before, an auction of theirs."""
        return (_AHEAD + 1) * CYCLE / self.rate, max(self.people, _HOT_EVERY) * CYCLE / self.rate

    @property
    def max_open_seconds(self) -> float:
        """Event time for which an auction is open at most."""
        return (self._max_open_events() + self.rate / 1000) / self.rate

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Events [first, last)."""
        check_range(first, last)
        cycle, place = np.divmod(np.arange(first, last), CYCLE)
        draws = _Draws(self.seed, first, last)
        kind = np.minimum((place + AUCTIONS - 1) // AUCTIONS, len(KINDS) - 1)
        person, auction, bid = (kind == each for each in range(len(KINDS)))
        columns = {"kind": _of(KINDS, kind)}
        columns |= self._people(draws.of(person), cycle[person])
        columns |= self._auctions(draws.of(auction), cycle[auction])
        columns |= self._bids(draws.of(bid), cycle[bid])
        opened = FIRST_ID + cycle * AUCTIONS + place - 1
        columns["auction"] = pa.array(np.where(auction, opened, columns["auction"].to_numpy()))
        return pa.record_batch([columns[name] for name in self.schema.names], schema=self.schema)

    def _people(self, draws: _Draws, cycle: Numbers) -> dict[str, pa.Array]:
        """Who enters, and where they live."""
        given = _of(_GIVEN, draws.choice("given", len(_GIVEN)))
        family = _of(_FAMILY, draws.choice("family", len(_FAMILY)))
        city = draws.choice("city", len(_CITIES))
        card = pa.array(draws.choice("card", 10**8) + 10**15).cast(pa.string())
        found = {
            "person": pa.array(FIRST_ID + cycle),
            "name": joined(given, " ", family),
            "email": joined(family, "@", _of(_ITEMS, draws.choice("host", len(_ITEMS))), ".example"),
            "credit_card": card,
            "city": _of([name for name, _ in _CITIES], city),
            "state": _of([state for _, state in _CITIES], city),
        }
        return {name: draws.spread(column) for name, column in found.items()}

    def _auctions(self, draws: _Draws, cycle: Numbers) -> dict[str, pa.Array]:
        """What is sold, by whom, and for how long."""
        initial = _price(draws.uniform("initial"))
        hot = draws.choice("hot_seller", self.hot_sellers) > 0
        seller = np.where(hot, _hot(cycle), self._some_person(draws.uniform("seller"), cycle))
        open_events = 1 + draws.choice("open", self._max_open_events())
        found = {
            "seller": pa.array(FIRST_ID + seller),
            "category": pa.array(FIRST_CATEGORY + draws.choice("category", CATEGORIES)),
            "item": _of(_ITEMS, draws.choice("item", len(_ITEMS))),
            "initial_bid": pa.array(initial),
            "reserve": pa.array(initial + _price(draws.uniform("reserve"))),
            "open_ms": pa.array(np.ceil(open_events / self.rate * 1000).astype(np.int64)),
        }
        return {name: draws.spread(column) for name, column in found.items()}

    def _bids(self, draws: _Draws, cycle: Numbers) -> dict[str, pa.Array]:
        """Who bids how much, and on what."""
        newest = cycle * AUCTIONS + AUCTIONS - 1
        oldest = np.maximum(newest - self.open_auctions, 0)
        some = oldest + choose(newest - oldest + 1 + _AHEAD, draws.uniform("auction"))
        hot = draws.choice("hot_auction", self.hot_auctions) > 0
        person = self._some_person(draws.uniform("bidder"), cycle)
        by_hot = draws.choice("hot_bidder", self.hot_bidders) > 0
        found = {
            "auction": pa.array(FIRST_ID + np.where(hot, _hot(newest), some)),
            "bidder": pa.array(FIRST_ID + np.where(by_hot, _hot(cycle) + 1, person)),
            "price": pa.array(_price(draws.uniform("price"))),
        }
        return {name: draws.spread(column) for name, column in found.items()}

    def _some_person(self, numbers: Fractions, newest: Numbers) -> Numbers:
        """One of the last people, or one of the next few."""
        people = np.minimum(newest + 1, self.people)
        return newest + 1 - people + choose(people + _AHEAD, numbers)

    def _max_open_events(self) -> int:
        return 2 * math.ceil(self.open_auctions * CYCLE / AUCTIONS)


@dataclass(frozen=True)
class _Draws:
    """Random numbers for the events of one kind among the events [first, last); `chosen` tells which they are."""

    seed: int
    first: int
    last: int
    chosen: NDArray[np.bool_] | None = None

    def of(self, chosen: NDArray[np.bool_]) -> _Draws:
        return replace(self, chosen=chosen)

    def uniform(self, what: str) -> Fractions:
        """A number in [0, 1) for each of them."""
        return uniform(self.seed, f"nexmark.{what}", self.first, self.last)[self.chosen]

    def choice(self, what: str, size: int) -> Numbers:
        """One of `size` equally likely entries for each of them."""
        return choose(size, self.uniform(what))

    def spread(self, column: pa.Array) -> pa.Array:
        """A column of theirs as a column of all events, with 0 or empty text in the others."""
        chosen = np.zeros(self.last - self.first, bool) if self.chosen is None else self.chosen
        places = pa.array(np.cumsum(chosen) - 1, mask=~chosen)
        return column.take(places).fill_null("" if pa.types.is_string(column.type) else 0)


def _of(vocabulary: Sequence[str], entries: Numbers) -> pa.Array:
    return pa.array(vocabulary, pa.string()).take(pa.array(entries))


def _hot(newest: Numbers) -> Numbers:
    """The last hot one of those that are numbered until `newest`."""
    return newest // _HOT_EVERY * _HOT_EVERY


def _price(numbers: Fractions) -> Numbers:
    """Prices from 1 to 1,000,000 in hundredths; each power of ten is equally likely."""
    return np.round(100 * 10 ** (6 * numbers)).astype(np.int64)
