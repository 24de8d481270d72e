from collections import Counter
from itertools import chain

import pytest

from foretide.workloads.tweets import HASHTAG_SHARE, Tweets, word

ROWS = Tweets(seed=1).rows(0, 100_000)
TEXTS = [text.split(" ") for text in ROWS["text"].to_pylist()]


def test_texts_have_several_words():
    lengths = {sum(part[0] != "#" and "://" not in part for part in text) for text in TEXTS}
    assert lengths == {4, 5, 6, 7, 8}
    assert all(part for text in TEXTS for part in text)


def test_hashtags_and_urls_have_their_shares():
    tags = sum(any(part.startswith("#") for part in text) for text in TEXTS)
    urls = sum(any(part.startswith("http://") for part in text) for text in TEXTS)
    assert tags / len(TEXTS) == pytest.approx(HASHTAG_SHARE, rel=0.02)
    assert urls / len(TEXTS) == pytest.approx(0.4, rel=0.02)


def test_users_hashtags_and_urls_follow_zipf():
    users = Counter(ROWS["user"].to_pylist())
    parts = Counter(chain.from_iterable(TEXTS))
    expected = 2**1.1
    assert users["user_0"] / users["user_1"] == pytest.approx(expected, rel=0.08)
    assert parts[f"#{word(0)}"] / parts[f"#{word(1)}"] == pytest.approx(expected, rel=0.08)
    assert parts["http://example.org/0"] / parts["http://example.org/1"] == pytest.approx(expected, rel=0.08)
    assert parts[word(0)] / parts[word(1)] == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize(("share", "with_url"), [(0.0, 0), (1.0, 1000)])
def test_no_or_all_tweets_with_a_url(share, with_url):
    texts = Tweets(seed=1, users=1, urls=1, words=1, url_share=share).rows(0, 1000)["text"].to_pylist()
    assert sum("http" in text for text in texts) == with_url


def test_words_are_all_different():
    assert len({word(number) for number in range(20_000)}) == 20_000
