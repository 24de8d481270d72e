"""The Grafana dashboard asks for what the Prometheus endpoint serves, and is what its script makes of the catalogue."""

import importlib.util
import json
import re
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from docs.pages import ROOT
from foretide.metrics.alarm_rules import AlarmRule, AlarmState, judge
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.snapshot import Snapshot
from foretide.runtime.monitoring.publishing import PrometheusEndpoint

FILE = ROOT / "docs" / "grafana" / "foretide.json"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("grafana", ROOT / "scripts" / "grafana.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Shown:
    """All metrics of a pipeline, and one alarm."""

    def __init__(self):
        figures = {(name, "app"): (0.95, 1.0) for name in CATALOGUE}
        self.now, rule = Snapshot(2.0, "app", figures), AlarmRule("full", "capacity", above=0.9)
        _, self.alarms, _ = judge(AlarmState(), self.now, (rule,))

    def snapshot(self):
        return self.now


@pytest.fixture(scope="module")
def served():
    """The labels of each metric that the endpoint serves over HTTP, by its name."""
    endpoint = PrometheusEndpoint(0, Shown()).start()
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
    finally:
        endpoint.close()
    return {family.name: set(family.samples[0].labels) for family in text_string_to_metric_families(text)}


def values_of(value, key):
    """All values under a key, however deep."""
    if isinstance(value, dict):
        yield from ([value[key]] if key in value else [])
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from values_of(each, key)


def test_the_file_is_what_the_script_makes(script):
    assert json.loads(FILE.read_text(encoding="utf-8")) == script.dashboard(), "run make docs"


def test_every_expression_names_a_metric_that_is_served_with_the_labels_it_has(script, served):
    found = script.dashboard()
    expressions = [*values_of(found["panels"], "expr"), *values_of(found["annotations"], "expr")]
    assert len(expressions) > 20
    for expression in expressions:
        name, label = re.fullmatch(r'(\w+)\{(\w+)="\$pipeline"\}', expression).groups()
        assert label in served[name], expression
    (query,) = [each["query"]["query"] for each in found["templating"]["list"] if each["type"] == "query"]
    name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()
    assert label in served[name]


def test_legends_name_labels_that_are_served(script, served):
    for target in (each for targets in values_of(script.dashboard()["panels"], "targets") for each in targets):
        name = target["expr"].partition("{")[0]
        assert set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))) <= served[name]


def test_panels_have_ids_of_their_own_and_do_not_overlap(script):
    panels = script.dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
