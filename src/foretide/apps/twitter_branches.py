"""News and opinions in tweets, each on a branch of its own (pa-sps, Fig 11).

tweets -> clean -> kind -> news: publisher -> topic ---+
                        -> opinions: mood -> author ---+-> weigh -> store

That it has eight operators follows from the paper's 40 replicas at five each; what they do is ours. A tweet with a URL
is news. Real-time mode cannot unite streams that have passed an exchange, so the application has no form for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from foretide.apps.app import App, Load
from foretide.apps.twitter_classification import AUTHORS, author_column, hits, topic_column, topic_of, words
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import Global, LoadAware
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.tweets import Tweets, word

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GOOD = tuple(word(number) for number in range(10, 400, 4))
BAD = tuple(word(number) for number in range(12, 400, 4))
"""Words of opinions."""

PUBLISHERS = 7
WEIGHTS = {"agency": 3, "newspaper": 2, "politician": 2, "person": 1}
"""What the opinion of an author counts; news counts 2."""

_NEWS_WEIGHT = 2
_PAGE = r"http://example\.org/(\d+)"
_POOL = 2


def clean(tweets: DataFrame) -> DataFrame:
    """The words of each tweet, and the number of the page that it links to."""
    page = F.regexp_extract("text", _PAGE, 1).try_cast("int")
    return tweets.select("row", "due", "user", words().alias("words"), page.alias("page"))


def kind(tweets: DataFrame) -> DataFrame:
    """A tweet that links to a page is news; all others are opinions."""
    return tweets.withColumn("stream", F.when(F.col("page").isNull(), "opinions").otherwise("news"))


def publisher(news: DataFrame) -> DataFrame:
    """Who has published the page."""
    origin = F.concat(F.lit("publisher_"), F.col("page") % PUBLISHERS)
    return news.select("row", "words", origin.alias("origin"))


def topic(news: DataFrame) -> DataFrame:
    """What the news is about."""
    return news.select("row", "origin", topic_column().alias("label"))


def mood(opinions: DataFrame) -> DataFrame:
    """Whether there are more good words or more bad words."""
    more = hits(GOOD) - hits(BAD)
    label = F.when(more > 0, "good").when(more < 0, "bad").otherwise("mixed")
    return opinions.select("row", "user", label.alias("label"))


def author(opinions: DataFrame) -> DataFrame:
    """Whose opinion it is."""
    return opinions.select("row", author_column().alias("origin"), "label")


def weigh(both: DataFrame) -> DataFrame:
    """What each of them counts."""
    of_author = F.create_map(*[F.lit(part) for pair in WEIGHTS.items() for part in pair])
    known = F.try_element_at(of_author, F.col("origin"))
    weight = F.when(F.col("_source") == "topic", _NEWS_WEIGHT).otherwise(known)
    return both.select("row", "origin", "label", weight.alias("weight"))


def store(weighed: DataFrame) -> DataFrame:
    """The database writes what it receives."""
    return weighed.select("row", "origin", "label", "weight")


def build(load: Load) -> Topology:
    """The topology under the curve of a day of tweets about Amazon."""
    curve = Curve.from_trace("tweets-amzn", seconds=load.seconds, mean_rate=load.rate, samples=288)
    tweets = Replay(Tweets(seed=load.seed), load.shaped(curve), paced=load.paced)
    evenly = LoadAware(by=("row",))
    return Topology(
        "twitter-branches",
        spouts=[Spout("tweets", tweets)],
        bolts=[
            Bolt("clean", clean, [From("tweets", evenly)], pool=_POOL),
            Bolt("kind", kind, [From("clean", evenly)], pool=_POOL, streams=("news", "opinions")),
            Bolt("publisher", publisher, [From("kind", evenly, stream="news")], pool=_POOL),
            Bolt("topic", topic, [From("publisher", evenly)], pool=_POOL),
            Bolt("mood", mood, [From("kind", evenly, stream="opinions")], pool=_POOL),
            Bolt("author", author, [From("mood", evenly)], pool=_POOL),
            Bolt("weigh", weigh, [From("topic", evenly), From("author", evenly)], pool=_POOL),
            Bolt("store", store, [From("weigh", Global())]),
        ],
    )


def truth(tweets: pd.DataFrame, _: Load) -> pd.DataFrame:
    """What is stored, worked out the plain way."""
    rows = zip(tweets["row"].tolist(), tweets["user"], tweets["text"], strict=True)
    stored = [(row, *_judged(user, text)) for row, user, text in rows]
    return pd.DataFrame(stored, columns=["row", "origin", "label", "weight"])


def _judged(user: str, text: str) -> tuple[str, str, int]:
    """Origin, label and weight of one tweet."""
    page = re.search(_PAGE, text)
    if page is not None:
        return f"publisher_{int(page[1]) % PUBLISHERS}", topic_of(text), _NEWS_WEIGHT
    said = set(text.split())
    more = len(said.intersection(GOOD)) - len(said.intersection(BAD))
    origin = AUTHORS.get(user, "person")
    return origin, "good" if more > 0 else "bad" if more < 0 else "mixed", WEIGHTS[origin]


APP = App("twitter-branches", build, edge="kind", ratio="3:1", result="store", truth=truth)
