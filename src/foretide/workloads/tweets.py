"""A social network: tweets of a few words, often with a hashtag, sometimes with a URL; and events by user."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

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
from foretide.workloads.randomness import choose, headed_cumulative, pick, shares_cumulative, uniform, zipf_cumulative

HASHTAG_SHARE = 0.5
"""The share of tweets with a hashtag."""

_PHRASES = 8192
_SYLLABLES = [consonant + vowel for vowel in "aeiou" for consonant in "bcdfghjklmnprstvwxyz"]


@dataclass(frozen=True)
class Tweets:
    """Tweets of four to eight words by Zipf-distributed users.

    The words come as two phrases out of a fixed set, which is drawn from the Zipf-distributed words once:
    that is much faster than drawing each word, and nearly leaves the words' frequencies as they are.

    >>> Tweets(seed=1).rows(4, 5).to_pylist()
    [{'user': 'user_2477', 'text': 'nuba caba vaxa ciba maba zuba jaba http://example.org/11'}]

    Attributes:
        seed: What users and texts follow from.
        users: Number of users.
        urls: Number of URLs.
        zipf: How uneven users, words, hashtags and URLs are.
        words: Number of words; each is a hashtag, too.
        url_share: The share of tweets with a URL.
    """

    seed: int
    users: int = 10_000
    urls: int = 500
    zipf: float = 1.1
    words: int = 2000
    url_share: float = 0.4

    schema: ClassVar[pa.Schema] = pa.schema([("user", pa.string()), ("text", pa.string())])

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_vocabulary("users", self.users)
        check_vocabulary("urls", self.urls)
        check_vocabulary("words", self.words)
        check_zipf(self.zipf)
        check_share("url_share", self.url_share)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Tweets [first, last)."""
        check_range(first, last)
        user = pick(zipf_cumulative(self.users, self.zipf), uniform(self.seed, "tweets.user", first, last))
        tag = pick(
            headed_cumulative(1 - HASHTAG_SHARE, self.words, self.zipf),
            uniform(self.seed, "tweets.tag", first, last),
        )
        url = pick(
            headed_cumulative(1 - self.url_share, self.urls, self.zipf),
            uniform(self.seed, "tweets.url", first, last),
        )
        text = joined(
            self._phrase("tweets.start", first, last),
            " ",
            self._phrase("tweets.end", first, last),
            _tags(self.words).take(pa.array(tag)),
            _urls(self.urls).take(pa.array(url)),
        )
        return pa.record_batch([_users(self.users).take(pa.array(user)), text], schema=self.schema)

    def _phrase(self, stream: str, first: int, last: int) -> pa.Array:
        index = choose(_PHRASES, uniform(self.seed, stream, first, last))
        return _phrases(self.seed, self.words, self.zipf).take(pa.array(index))


def word(number: int) -> str:
    """A word one can pronounce, another one for each number.

    >>> word(0), word(1), word(1999)
    ('baba', 'caba', 'zuza')
    """
    syllables = _SYLLABLES[number % 100]
    number //= 100
    syllables += _SYLLABLES[number % 100]
    while number := number // 100:
        syllables += _SYLLABLES[number % 100]
    return syllables


@lru_cache(maxsize=8)
def _users(users: int) -> pa.Array:
    return numbered("user_", users)


@lru_cache(maxsize=8)
def _urls(urls: int) -> pa.Array:
    """What stands at the end of a tweet: first nothing, then each URL."""
    return pa.concat_arrays([pa.array([""]), numbered(" http://example.org/", urls)])


@lru_cache(maxsize=8)
def _tags(words: int) -> pa.Array:
    """What stands after the words: first nothing, then each hashtag."""
    return pa.array(["", *(f" #{word(number)}" for number in range(words))])


@lru_cache(maxsize=8)
def _phrases(seed: int, words: int, zipf: float) -> pa.Array:
    """Phrases of two, three and four words in turn."""
    ranks = pick(zipf_cumulative(words, zipf), uniform(seed, "tweets.phrases", 0, 4 * _PHRASES))
    texts = [word(rank) for rank in ranks.tolist()]
    return pa.array([" ".join(texts[4 * i : 4 * i + 2 + i % 3]) for i in range(_PHRASES)])


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
        users: Number of users.
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
