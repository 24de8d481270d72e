import re
from collections import Counter

import pytest

from foretide.workloads.requests import RequestLines

LINE = re.compile(r"(\d+) (\d+\.\d{3}) (http://en\.wikipedia\.org/wiki/Page_(\d+)) -")


def lines(generator, first, last):
    return generator.rows(first, last)["line"].to_pylist()


def test_lines_have_number_time_url_and_flag():
    matches = [LINE.fullmatch(line) for line in lines(RequestLines(seed=1), 995, 1005)]
    assert [int(match[1]) for match in matches] == list(range(995, 1005))
    assert [match[2] for match in matches][4:6] == ["1190146243.999", "1190146244.000"]


def test_pages_follow_zipf():
    count = Counter(int(LINE.fullmatch(line)[4]) for line in lines(RequestLines(seed=1, zipf=1.0), 0, 200_000))
    assert max(count) < 1000
    assert count[0] / count[1] == pytest.approx(2, rel=0.05)
    assert count[0] / count[9] == pytest.approx(10, rel=0.1)


def test_the_malformed_share_has_no_url():
    texts = lines(RequestLines(seed=1, malformed=0.1), 0, 100_000)
    malformed = [text for text in texts if "http" not in text]
    assert len(malformed) / len(texts) == pytest.approx(0.1, rel=0.05)
    assert not any(LINE.fullmatch(text) for text in malformed)
    assert all(LINE.fullmatch(text) for text in texts if "http" in text)


@pytest.mark.parametrize(("malformed", "with_url"), [(0.0, 1000), (1.0, 0)])
def test_none_or_all_malformed(malformed, with_url):
    texts = lines(RequestLines(seed=1, urls=1, malformed=malformed), 0, 1000)
    assert sum("http" in text for text in texts) == with_url
