"""Classification of tweets (pa-sps, Fig 7): by what they say, and by who has published them.

tweets -> clean -> topic -> author -> store, each load-aware

The paper's text names neither the four operators nor the classes; these are ours. All are stateless, and each is a pool
of replicas behind a load-aware edge. The database is the sink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from foretide.apps.app import App, Load, RealTime
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import LoadAware
from foretide.topology.sources import Replay, Source
from foretide.workloads.curve import Curve
from foretide.workloads.tweets import Tweets, word

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STOP_WORDS = tuple(word(number) for number in range(10))
"""The most frequent words, which say nothing."""

TOPICS = {
    name: tuple(word(number) for number in range(10 + place, 130, 3))
    for place, name in enumerate(("health", "politics", "sport"))
}
"""Words by which a topic is recognized."""

AUTHORS = {f"user_{number}": ("agency", "newspaper", "politician")[number % 3] for number in range(30)}
"""Users who are known; all others are persons."""


def clean(tweets: DataFrame) -> DataFrame:
    """The words of each tweet: without URL, hashtags and stop words."""
    return tweets.select("row", "due", "user", words().alias("words"))


def words() -> Column:
    """The words of the column `text` that say something."""
    return F.filter(F.split(F.lower("text"), r"\s+"), lambda each: ~(each.rlike("^(#|http)") | each.isin(*STOP_WORDS)))


def hits(known: tuple[str, ...]) -> Column:
    """How many different ones of the known words are in the column `words`."""
    return F.size(F.array_intersect("words", F.array(*[F.lit(each) for each in known])))


def topic(tweets: DataFrame) -> DataFrame:
    """The topic of each tweet."""
    return tweets.select("row", "due", "user", topic_column().alias("topic"))


def topic_column() -> Column:
    """The topic with the most words; of equal ones the first."""
    counts = {name: hits(known) for name, known in TOPICS.items()}
    most = F.greatest(*counts.values())
    found = F.when(most == 0, "other")
    for name, count in counts.items():
        found = found.when(count == most, name)
    return found


def author(tweets: DataFrame) -> DataFrame:
    """Who has published the tweet."""
    return tweets.select("row", "due", "topic", author_column().alias("author"))


def author_column() -> Column:
    """What kind of author the column `user` is."""
    known = F.create_map(*[F.lit(part) for pair in AUTHORS.items() for part in pair])
    return F.coalesce(F.try_element_at(known, F.col("user")), F.lit("person"))


def store(tweets: DataFrame) -> DataFrame:
    """The database writes what it receives."""
    return tweets.select("row", "due", "topic", "author")


def topology(source: Source) -> Topology:
    """The topology for any source of tweets, in either mode."""
    evenly = LoadAware(by=("row",))
    return Topology(
        "twitter-classification",
        spouts=[Spout("tweets", source)],
        bolts=[
            Bolt("clean", clean, [From("tweets", evenly)], pool=3),
            Bolt("topic", topic, [From("clean", evenly)], pool=3),
            Bolt("author", author, [From("topic", evenly)], pool=3),
            Bolt("store", store, [From("author", evenly)], pool=3),
        ],
    )


def build(load: Load) -> Topology:
    """The topology under the curve of a day of tweets about Coca-Cola."""
    curve = Curve.from_trace("tweets-ko", seconds=load.seconds, mean_rate=load.rate, samples=288)
    return topology(Replay(Tweets(seed=load.seed), load.shaped(curve), paced=load.paced))


def truth(tweets: pd.DataFrame, _: Load) -> pd.DataFrame:
    """The classes, worked out the plain way."""
    classified = {"row": tweets["row"], "topic": tweets["text"].map(topic_of)}
    return pd.DataFrame({**classified, "author": tweets["user"].map(lambda user: AUTHORS.get(user, "person"))})


def topic_of(text: str) -> str:
    """The topic of one text.

    >>> topic_of(f"{TOPICS['sport'][3]} {STOP_WORDS[0]} http://example.org/1"), topic_of("nothing")
    ('sport', 'other')
    """
    words = set(text.lower().split())
    hits = {name: len(words.intersection(known)) for name, known in TOPICS.items()}
    best = max(hits, key=lambda name: hits[name])
    return best if hits[best] else "other"


def last_classes(tweets: pd.DataFrame) -> pd.DataFrame:
    """What has to be there of each tweet in real-time mode."""
    return truth(tweets, Load()).assign(due=tweets["due"])


APP = App(
    "twitter-classification",
    build,
    edge="topic",
    ratio="3:2:1",
    result="store",
    truth=truth,
    real_time=RealTime(topology, "store", ("row", "topic", "author"), "due", last_classes),
)
