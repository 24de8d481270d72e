"""What users of a social network do: events by user, most of them views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import pyarrow as pa

from foretide.workloads.checks import check_range, check_seed, check_vocabulary, check_zipf
from foretide.workloads.randomness import pick, shares_cumulative, uniform, zipf_cumulative

EVENTS: dict[str, float] = {
    "viewing_tweet": 0.60,
    "favourite": 0.14,
    "retweet": 0.09,
    "following": 0.07,
    "replying": 0.05,
    "unfollowing": 0.03,
    "viewing_profile": 0.02,
}
"""The events and the share of each."""


@dataclass(frozen=True)
class UserEvents:
    """Events of Zipf-distributed users; user 0 is the busiest.

    >>> UserEvents(seed=1).rows(0, 2).to_pylist()
    [{'user_id': 1, 'event': 'viewing_tweet'}, {'user_id': 5, 'event': 'viewing_tweet'}]

    Attributes:
        seed: What users and events follow from.
        users: How many users there are.
        zipf: How uneven they are: user r acts in proportion to (r + 1) ** -zipf.
    """

    seed: int
    users: int = 5000
    zipf: float = 1.05

    schema: ClassVar[pa.Schema] = pa.schema([("user_id", pa.int64()), ("event", pa.string())])

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_vocabulary("users", self.users)
        check_zipf(self.zipf)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Events [first, last)."""
        check_range(first, last)
        user = pick(zipf_cumulative(self.users, self.zipf), uniform(self.seed, "events.user", first, last))
        event = pick(shares_cumulative(*EVENTS.values()), uniform(self.seed, "events.event", first, last))
        return pa.record_batch([pa.array(user), _names().take(pa.array(event))], schema=self.schema)


@lru_cache(maxsize=1)
def _names() -> pa.Array:
    return pa.array(list(EVENTS))
