"""Reports of simulated runs: what they say, that they need nothing else, and that no name can get out of its text."""

import re
from html.parser import HTMLParser

import pytest

from foretide.control.actions.registry import Quarantine
from foretide.control.decisions.decision import Decision, Expectation, Wish
from foretide.control.history import RecordedForecasts, RecordedSeries
from foretide.errors import FileError
from foretide.metrics.metric import Sample
from foretide.reports.report import report
from foretide.reports.summary import summarize
from foretide.status.run_record import read_run
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord
from recorded_run import EPOCH, record

VOID = {"meta", "br"}
HOSTILE = "</style></svg><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e"


class Page(HTMLParser):
    """A page: its elements, its text, and whether every element is closed."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.texts, self._open = [], [], []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self._open.append(name)

    def handle_endtag(self, name):
        assert self._open.pop() == name

    def handle_data(self, data):
        if self._open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def count(self, name):
        return sum(each == name for each, _ in self.elements)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The stores of a run without control, and of one under control whose load was forecast."""
    folder = tmp_path_factory.mktemp("runs")
    plain, controlled = folder / "plain.db", folder / "controlled.db"
    record(plain, policies=(), name="without-control")
    record(controlled, name="with-control")
    with MetricStore.open(controlled) as store:
        store.write_forecasts("with-control", [_forecast(EPOCH + at) for at in range(0, 300, 5)])
        alarm = AlarmRecord(EPOCH + 9, "lag-growing", "warning", "read", "the lag grows", "x")
        store.write_alarms("with-control", [alarm])
    return [str(plain), str(controlled)]


def _forecast(at):
    means = (400.0, 2400.0) if at < EPOCH + 60 else (2400.0, 2400.0)
    series = RecordedSeries("arrival_rate", "read", "ridge", (5.0, 10.0), means, {0.9: (2600.0, 2600.0)})
    return RecordedForecasts(at, (series,))


@pytest.fixture(scope="module")
def page(runs):
    return Page(report(*runs).html)


def test_a_report_says_what_happened_and_shows_every_change_with_its_reason_and_effect(runs, page):
    with MetricStore.open(runs[1]) as store:
        acted = [each for each in store.decisions("with-control") if each.acted]
        found = summarize(read_run(store, "with-control"))
    assert len(acted) >= 2
    for each in acted:
        assert f"#{each.id}" in page.text
        assert each.chosen[0].reason in page.text
        assert each.actions[0].describe() in page.text
        assert each.effect is None or each.effect.outcome in page.text
    assert f"It made {len(acted)} changes" in page.text
    assert "No control loop was attached." in page.text
    assert "the lag grows" in page.text
    assert f"{100 * found.missed[0] / found.missed[1]:.0f} %" in page.text


def test_runs_are_compared_side_by_side_by_one_target(page):
    assert "Judged by the target of the other run" in page.text
    assert page.text.index("Side by side") < page.text.index("No control loop was attached.")
    assert "time above the target" in page.text
    assert re.search(r"\([+-]\d+ %\)", page.text)


def test_a_report_needs_no_network_and_no_script(runs):
    html = report(*runs).html
    page = Page(html)
    assert page.count("script") == page.count("link") == page.count("img") == page.count("iframe") == 0
    assert not re.search(r"https?:|@import|url\(|javascript:", html)
    links = [attributes["href"] for _, attributes in page.elements if "href" in attributes]
    anchors = {attributes.get("id") for _, attributes in page.elements}
    assert links
    assert all(link.startswith("#") and link[1:] in anchors for link in links)
    policy = next(attributes for _, attributes in page.elements if attributes.get("http-equiv"))
    assert policy["content"].startswith("default-src 'none'")


def test_every_picture_can_be_read_without_seeing_it(page):
    pictures = [attributes for name, attributes in page.elements if name == "svg" and attributes.get("role") == "img"]
    assert len(pictures) >= 6
    assert page.count("title") >= len(pictures)
    assert ("html", {"lang": "en"}) in page.elements
    assert page.count("main") == page.count("h1") == 1
    assert all(attributes.get("scope") in {"row", "col"} for name, attributes in page.elements if name == "th")
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_no_name_gets_out_of_its_text(tmp_path):
    wish = Wish(HOSTILE, Quarantine(HOSTILE), HOSTILE, Expectation(HOSTILE))
    with MetricStore.open(tmp_path / "m.db") as store:
        store.write(HOSTILE, [Sample("input_rows", HOSTILE, float(at), 5.0) for at in range(5)])
        store.write(HOSTILE, [Sample("latency_p99_ms", HOSTILE, float(at), 5.0) for at in range(5)])
        store.write(HOSTILE, [Sample("worker_slowness", HOSTILE, float(at), 2.0) for at in range(5)])
        store.write(HOSTILE, [Sample("capacity", HOSTILE, float(at), 0.5) for at in range(5)])
        store.write_alarms(HOSTILE, [AlarmRecord(1.0, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)])
        store.write_decisions(HOSTILE, [Decision(1, 2.0, HOSTILE, wishes=(wish,), chosen=(wish,))])
    html = report(tmp_path / "m.db").html
    page = Page(html)
    assert page.count("script") == page.count("img") == 0
    assert page.count("style") == 1
    assert "<script" not in html
    assert "\u202e" not in html
    assert page.text.count("alert(1)") > 10


def test_little_is_known_of_a_run_that_has_only_begun(tmp_path):
    with MetricStore.open(tmp_path / "m.db") as store:
        store.write("new", [Sample("input_rows", "new", 5.0, 0.0)])
    page = Page(report(tmp_path / "m.db").html)
    assert "No control loop was attached." in page.text
    assert "nan" not in page.text


def test_the_same_as_values(runs):
    plain, controlled = report(*runs).data()
    assert (plain["run"], controlled["run"]) == ("without-control", "with-control")
    assert controlled["summary"].forecasts.models == ("ridge",)
    assert all(each["summary"] and each["acted"] for each in controlled["decisions"])
    assert plain["decisions"] == []


def test_a_file_is_written_for_its_owner_alone_and_an_older_one_replaced(runs, tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old")
    made = report(*runs)
    assert made.save(target) == target
    assert target.read_text(encoding="utf-8") == made.html
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileError, match="cannot be written"):
        made.save(target / "below-a-file.html")


def test_a_notebook_shows_a_report_in_a_frame_that_runs_nothing(runs):
    made = report(runs[0])
    (frame,) = [attributes for name, attributes in Page(made._repr_html_()).elements if name == "iframe"]
    assert frame["srcdoc"] == made.html
    assert frame["sandbox"] is None
