"""What Prometheus gets when it asks, over HTTP and read with Prometheus' own parser."""

import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from foretide.errors import MonitoringError
from foretide.metrics.alarm_rules import AlarmRule, AlarmState, judge
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level
from foretide.metrics.snapshot import Snapshot
from foretide.runtime.monitoring.publishing import PrometheusEndpoint
from foretide.status.prometheus import PREFIX


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


class Shown:
    """What the endpoint of these tests reads when it is asked."""

    def __init__(self):
        self.now, self.alarms = Snapshot(2.0, "app"), []

    def snapshot(self):
        return self.now


SHOWN = Shown()


@pytest.fixture(scope="module")
def endpoint():
    endpoint = PrometheusEndpoint(0, SHOWN).start()
    yield endpoint
    endpoint.close()


@pytest.fixture
def show(endpoint):
    """Scrapes an endpoint that reads these figures and alarms."""

    def shown(figures, alarms=()):
        SHOWN.now, SHOWN.alarms = Snapshot(2.0, "app", figures), list(alarms)
        return scrape(endpoint)

    return shown


def scrape(endpoint):
    with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_every_metric_is_served_under_its_name_with_its_labels_unit_and_meaning(show):
    subjects = {Level.QUERY: "app", Level.TASK: "count/3", Level.MACHINE: "host.example"}
    values = {
        (metric.name, subjects.get(metric.level, "count")): (float(number), 1.0)
        for number, metric in enumerate(CATALOGUE.values())
    }
    families = show(values)
    assert set(families) == {f"{PREFIX}{name}" for name in CATALOGUE} | {"foretide_alarm"}
    for number, metric in enumerate(CATALOGUE.values()):
        family = families[f"{PREFIX}{metric.name}"]
        (sample,) = family.samples
        assert sample.name == f"foretide_{metric.name}"
        subject = subjects.get(metric.level, "count")
        assert sample.labels == {"pipeline": "app", "level": metric.level.value, "subject": subject}
        assert sample.value == number
        assert family.type == "gauge"
        assert family.documentation == f"{metric.meaning} ({metric.unit})"


def test_all_subjects_of_a_metric_are_samples_of_one_family_and_odd_names_survive(show):
    odd = 'a "quoted" \\ name\nin two lines'
    figures = {("capacity", "parse"): (0.5, 1.0), ("capacity", odd): (0.25, 1.0)}
    family = show(figures)["foretide_capacity"]
    assert {sample.labels["subject"]: sample.value for sample in family.samples} == {"parse": 0.5, odd: 0.25}


def test_what_is_not_known_is_not_served_and_neither_is_what_is_not_in_the_catalogue(show):
    families = show({("no_such_metric", "app"): (1.0, 1.0)})
    assert set(families) == {"foretide_alarm"}
    assert families["foretide_alarm"].samples == []


def test_each_scrape_sees_what_is_known_then(show):
    for batch in (1.0, 2.0):
        (sample,) = show({("batch", "app"): (batch, 1.0)})["foretide_batch"].samples
        assert sample.value == batch


def test_alarms_are_1_while_they_hold(show):
    figures = {("capacity", "count"): (0.95, 2.0)}
    rule = AlarmRule("full", "capacity", above=0.9, severity="critical")
    _, held, _ = judge(AlarmState(), Snapshot(2.0, "app", figures), (rule,))
    (sample,) = show(figures, held)["foretide_alarm"].samples
    assert sample.labels == {"pipeline": "app", "rule": "full", "severity": "critical", "subject": "count"}
    assert sample.value == 1
    assert show(figures)["foretide_alarm"].samples == []


def test_a_port_that_is_taken_is_refused_with_what_to_do(endpoint):
    said = f"cannot serve Prometheus on port {endpoint.port} of 127.0.0.1: .*; choose another, or 0"
    with pytest.raises(MonitoringError, match=said):
        PrometheusEndpoint(endpoint.port, SHOWN).start()
    assert "foretide_alarm" in scrape(endpoint)


def test_a_port_that_does_not_exist_is_refused():
    with pytest.raises(MonitoringError, match="cannot serve Prometheus on port 99999"):
        PrometheusEndpoint(99_999, SHOWN).start()


def test_a_closed_endpoint_gives_its_port_back():
    first = PrometheusEndpoint(0, SHOWN).start()
    first.close()
    second = PrometheusEndpoint(first.port, SHOWN).start()
    assert second.port == first.port
    second.close()
