"""The dashboard in a real browser, on a pipeline that runs: what it shows, how it is used, and what orders do."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dashboard.browser import TIMEOUT, Watched, chromium, require_chromium, violations
from docs.test_dashboard import dashboard_process
from foretide.control_folder.folder import ControlFolder
from foretide.dashboard.access import read_token
from foretide.dashboard.pages.frame import PAGES
from foretide.dashboard.pages.markup import number
from foretide.formatting import format_duration
from helpers import environment, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.apart]
PARTS = {"/": "overview", "topology": "topology", "latency": "newest", "workers": "heat-worker", "act": "held"}
"""Parts of pages that change while a pipeline runs."""


class Run:
    """A pipeline that runs, and the dashboard that shows it."""

    def __init__(self, address, folder):
        self.address, self.folder = address, ControlFolder(folder)

    def get(self, path=""):
        """What the API answers of the pipeline now."""
        with urllib.request.urlopen(f"{self.address}/api/v1/pipelines/watched{path}", timeout=TIMEOUT / 1000) as answer:
            return json.load(answer)

    def path(self, name):
        """The address of a page."""
        return name if name == "/" else f"/p/watched/{name}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    require_chromium()
    place = tmp_path_factory.mktemp("watched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORETIDE_HOME", str(place / "home"))
        command = [sys.executable, str(Path(__file__).with_name("pipeline_story.py")), str(place)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment()}
        with dashboard_process() as address, subprocess.Popen(command, **pipes) as process:
            try:
                folder = process.stdout.readline().strip()
                assert folder, "the pipeline did not start"
                found = Run(address, folder)
                found.token = read_token()
                wait_for(lambda: process.poll() is not None or is_measured(found))
                assert process.poll() is None, "the pipeline ended early"
                yield found
            finally:
                process.stdin.close()
    assert process.returncode == 0


def is_measured(run):
    try:
        topology = run.get("/topology")
    except urllib.error.HTTPError:  # its store is not there yet
        return False
    return (
        run.get()["p99"] is not None
        and topology["workers"]
        and all(each["rate"] is not None for each in topology["operators"])
        and run.get("/workers")["rows"]
    )


@pytest.fixture(scope="module")
def browser():
    require_chromium()
    with chromium() as started:
        yield started


@pytest.fixture
def seen(run, browser):
    """A browser's window, of which everything that went wrong must be asked for, or is a failure."""
    watched = Watched(browser, run.address, viewport={"width": 1280, "height": 860}, color_scheme="light")
    yield watched
    watched.close()
    assert watched.errors == []
    assert watched.elsewhere == []


@pytest.mark.parametrize("name", ["/", *PAGES])
def test_a_page_can_be_read_by_everybody_at_any_width_in_light_and_dark(run, seen, name):
    page = seen.open(run.path(name))
    page.locator("main .panel").first.wait_for()
    page.locator(".skeleton").wait_for(state="detached")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        for _ in ("light", "dark"):
            theme = page.evaluate("document.documentElement.dataset.theme")
            assert violations(page) == [], (theme, width)
            page.locator("[data-theme-button]").click()
            page.wait_for_function("was => document.documentElement.dataset.theme !== was", arg=theme)
        size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert size[0] <= size[1], f"the page is wider than {width} pixels"


def texts(page, selector):
    return page.locator(selector).all_text_contents()


def of_overview(run, page):
    found = run.get()
    want = [format_duration(found[each]) for each in ("p50", "p95", "p99")]
    return want, texts(page, ".gauge b")


def of_topology(run, page):
    found = run.get("/topology")
    want = {each["name"]: number(each["rate"]) for each in found["operators"]}
    want |= {f"{each['source']}->{each['target']}": f"{number(each['rate'])}/s" for each in found["streams"]}
    shown = page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('.along [data-stream], [data-rate]')]"
        ".map(each => [each.dataset.stream || each.dataset.rate, each.textContent]))"
    )
    return want, shown


def of_latency(run, page):
    points = run.get("/latency")["quantiles"]
    return [format_duration(each[-1]["value"]) for each in points.values()], texts(page, "#newest .value")[:3]


def of_forecast(run, page):
    found = run.get("/forecasts")
    return [number(each["mean"]) for each in found["ahead"]], texts(page, "#trust td:nth-child(2)")


def of_decisions(run, page):
    want = [each["summary"] for each in reversed(run.get("/decisions?last=60"))]
    return want, texts(page, "#timeline li > a")


def of_workers(run, page):
    found = run.get("/workers")
    want = [cell["text"].split(" ")[0] for row in found["rows"] for cell in row]
    return want, texts(page, "#heat-worker td.heat")


def of_joins(run, page):
    return (len(run.get("/joins")) == 0), page.locator("main .panel.empty").count() == 1


def of_what_if(run, page):
    found = run.get("/what-if?latency=60")
    title = "No answer" if found["problem"] else f"{number(found['processors'])} processors"
    return [title], texts(page, "#answer-what-if h2")


def of_advice(run, page):
    return [each["sentence"] for each in run.get("/advice")], texts(page, "#advice .panel:not(.empty) > p:nth-child(2)")


def of_act(run, page):
    routes = run.get("/routes")["edges"]
    want = [str(sum(share > 0 for share in each["shares"])) for each in routes]
    return want, [each.input_value() for each in page.locator('input[name="replicas"]').all()]


VALUES = {
    "/": of_overview, "topology": of_topology, "latency": of_latency, "forecast": of_forecast,
    "decisions": of_decisions, "workers": of_workers, "joins": of_joins, "what-if": of_what_if, "advice": of_advice,
    "act": of_act,
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_a_page_shows_what_the_api_answers_while_both_change(run, seen, name):
    assert set(VALUES) == {"/", *PAGES}
    page = seen.open(run.path(name))
    page.locator("main .panel").first.wait_for()

    def same():
        want, shown = VALUES[name](run, page)
        return want == shown

    wait_for(same)


MARK = """id => {
  const part = document.getElementById(id);
  window.marked = [...part.querySelectorAll('*')];
  window.changes = 0;
  new MutationObserver(found => { window.changes += found.length; })
    .observe(part, { subtree: true, childList: true, characterData: true, attributes: true });
}"""


@pytest.mark.parametrize("name", ["/", "topology", "latency"])
def test_values_change_in_place_and_what_has_the_focus_keeps_it(run, seen, name):
    page = seen.open(run.path(name))
    part = PARTS[name]
    page.locator(f"#{part} .panel").first.wait_for()
    focused = page.locator(f"#{part} :is(a, [tabindex])").first
    if focused.count():
        focused.focus()
    page.evaluate(MARK, part)
    for _ in range(3):
        before = page.evaluate("window.changes")
        page.wait_for_function("before => window.changes > before", arg=before)
    assert page.evaluate("window.marked.filter(each => !each.isConnected).map(each => each.outerHTML)") == []
    if focused.count():
        assert page.evaluate("id => document.getElementById(id).contains(document.activeElement)", part)


REACHABLE = "a[href], button, input:not([type=hidden]), select, [tabindex='0']"


@pytest.mark.parametrize("name", ["/", "topology", "decisions", "what-if", "act"])
def test_everything_that_can_be_used_is_reached_by_tab(run, seen, name):
    page = seen.open(run.path(name))
    page.locator("main .panel").first.wait_for()
    page.locator(".skeleton").wait_for(state="detached")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.evaluate(
        "selector => [...document.querySelectorAll(selector)].filter(each => each.checkVisibility())"
        ".forEach(each => each.dataset.unreached = '')",
        REACHABLE,
    )
    count = page.locator("[data-unreached]").count()
    assert count >= len(PAGES) * (name != "/") + 2
    for _ in range(count + 5):
        page.evaluate("delete document.activeElement.dataset.unreached")
        page.keyboard.press("Tab")
    left = page.evaluate("[...document.querySelectorAll('[data-unreached]')].map(each => each.outerHTML)")
    assert left == []


def test_an_order_is_confirmed_by_keyboard_and_escape_sends_nothing(run, seen):
    page = seen.open(run.path("act"))
    page.locator("#token").fill(run.token)
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.getElementById('confirm').contains(document.activeElement)")
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.locator("#confirm").wait_for(state="hidden")
    assert page.locator("#answer").is_hidden()
    assert run.folder.orders.held() == {}


def test_an_order_without_the_token_is_refused_on_the_page(run, seen):
    page = seen.open(run.path("act"))
    page.locator("#token").fill("wrong")
    page.get_by_role("button", name="Pause").click()
    page.locator("#confirm button.main").click()
    page.get_by_text("Refused: changes need the token").wait_for()
    assert run.folder.orders.held() == {}
    seen.errors[:] = [each for each in seen.errors if "401" not in each]  # the browser tells of any answer above 399


def fill(form, fields):
    """A form of the page Act, filled and sent."""

    def give(page):
        place = page.locator(f'form[aria-label="{form}"]')
        for name, value in fields.items():
            field = place.locator(f'[name="{name}"]')
            field.select_option(value) if name in {"place", "quantile"} else field.fill(value)
        place.locator("button.main").click()

    return give


def press(label):
    return lambda page: page.get_by_role("button", name=label, exact=True).click()


def shares(run):
    return next(each["shares"] for each in run.get("/routes")["edges"] if each["edge"] == "work")


def worker_states(run):
    return {each["id"]: each["state"] for each in run.get("/topology")["workers"]}


ORDERS = {
    "ratio": (fill("Split work", {"weights": "3:1"}), lambda run: shares(run) == [0.75, 0.25], "edge work"),
    "replicas": (fill("Replicas of work", {"replicas": "1"}), lambda run: shares(run) == [1.0, 0.0], "edge work"),
    "admission": (
        fill("Admission of numbers", {"rows": "40"}), lambda run: run.folder.orders.admission() == {"numbers": 40},
        "spout numbers",
    ),
    "target": (
        fill("Target", {"latency": "45"}), lambda run: run.get()["target_seconds"] == 45.0, "target",
    ),
    "drain": (
        fill("Drain", {"place": "driver"}), lambda run: worker_states(run)["driver"] == "drained", "drained driver",
    ),
    "pause": (press("Pause"), lambda run: run.get()["mode"] == "pause", "mode"),
    "advise": (press("Only advise"), lambda run: run.get()["mode"] == "advise", "mode"),
    "act": (press("Act"), lambda run: run.get()["mode"] == "act", "mode"),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_takes_effect_is_kept_as_a_decision_by_hand_and_can_be_released(run, seen, name):
    give, took_effect, subject = ORDERS[name]
    before = run.get()["batch"]
    page = seen.open(run.path("act"))
    page.locator("form.order").first.wait_for()
    page.locator("#token").fill(run.token)
    give(page)
    page.locator("#confirm button.main").click()
    page.get_by_text("Done: ").wait_for()
    words = run.folder.orders.held()[subject].words
    wait_for(lambda: took_effect(run))
    wait_for(lambda: by_hand(run, words))
    assert run.get()["batch"] >= before
    page.get_by_role("button", name="Release").click()
    page.locator("#confirm button.main").click()
    wait_for(lambda: run.folder.orders.held() == {})
    page.get_by_text("Nothing is held by a person").wait_for()


def by_hand(run, words):
    """Whether a decision by hand tells of an order."""
    found = [each for each in run.get("/decisions?last=1000") if each["kind"] == "by hand"]
    return any(words in each["summary"] for each in found)
