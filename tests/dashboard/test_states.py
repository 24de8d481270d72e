"""What pages show while they are read, when there is nothing, when it is old, and when it cannot be read; and what they
send. No Spark runs behind them."""

import os
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from dashboard.browser import Watched, chromium, require_chromium, violations
from dashboard.pipelines import announce_pipeline
from docs.test_dashboard import dashboard_process
from foretide.control_folder.orders import TargetOrder
from foretide.dashboard.access import read_token
from foretide.dashboard.pages.frame import PAGES
from foretide.status.pipelines import Running, default_store, withdraw
from helpers import environment, wait_for


@pytest.fixture(scope="module")
def browser():
    require_chromium()
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The home of a dashboard, its address, and a file: while that exists, the dashboard reads nothing."""
    home = tmp_path_factory.mktemp("home")
    gate = home / "slow"
    command = [sys.executable, str(Path(__file__).with_name("slow_dashboard.py")), str(gate)]
    there = {**environment(), "FORETIDE_HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=there) as process:
        try:
            yield home, process.stdout.readline().strip(), gate
        finally:
            gate.unlink(missing_ok=True)
            process.terminate()


@pytest.fixture
def dashboard(browser, served, monkeypatch):
    """Opens pages of the dashboard, at which pipelines of the test are announced."""
    home, address, _ = served
    monkeypatch.setenv("FORETIDE_HOME", str(home))
    watched = Watched(browser, address)
    yield watched
    watched.close()


@pytest.fixture
def announced(served, dashboard, tmp_path):
    """Announces a pipeline, changes its files before the dashboard reads them, and waits until it is listed."""

    def announce(name, change=lambda folder: None, **how):
        folder = announce_pipeline(tmp_path, name=name, **how)
        change(folder)
        wait_for(lambda: f'"{name}"' in urllib.request.urlopen(f"{served[1]}/api/v1/pipelines").read().decode())
        return folder

    return announce


def shown(page, text):
    """Wait until a page says something."""
    page.get_by_text(text).first.wait_for(timeout=120_000)


def test_a_page_that_takes_long_to_read_is_shown_at_once_and_filled_when_it_has_been_read(dashboard, served, announced):
    announced("slow")
    gate = served[-1]
    for path, content in (("/", "section"), ("/p/slow/topology", "[data-operator]")):
        gate.touch()
        page = dashboard.open(path)
        page.locator(".skeleton").wait_for()
        assert page.locator("h1").count() == 1
        assert page.locator(f"main {content}").count() == 0
        gate.unlink()
        page.locator(f"main {content}").first.wait_for(timeout=120_000)
        assert page.locator(".skeleton").count() == 0


def test_without_pipelines_the_overview_says_how_to_start_one_and_shows_it_once_it_runs(tmp_path, browser):
    with dashboard_process() as address, closing(Watched(browser, address)) as dashboard:
        page = dashboard.open("/")
        shown(page, "No pipeline runs yet")
        assert violations(page) == []
        announce_pipeline(tmp_path)
        shown(page, "batch 7")


@contextmanager
def closing(watched):
    try:
        yield watched
    finally:
        watched.close()


def test_what_is_old_is_said_to_be_old(dashboard, announced):
    announced("old", now=time.time() - 600)
    page = dashboard.open("/p/old/latency")
    shown(page, "What you see is old: nothing was reported for")
    assert page.locator(".live.off").count() == 1
    assert page.locator('[data-p99="0.9"]').count() == 1
    assert violations(page) == []


def test_a_pipeline_that_ends_is_said_to_have_ended_and_takes_no_orders(dashboard, announced):
    folder = announced("ending")
    page = dashboard.open("/p/ending/topology")
    page.locator("[data-operator]").first.wait_for(timeout=120_000)
    withdraw(Running("ending", os.getpid(), folder.location))
    shown(page, "This pipeline has ended")
    shown(dashboard.open("/p/ending/act"), "This pipeline takes no orders")


def test_what_cannot_be_read_is_said_and_shown_once_it_can_be_read_again(dashboard, announced):
    kept = []

    def damage(folder):
        store = Path(default_store(folder.location, "damaged"))
        kept.append(store.read_bytes())
        store.write_bytes(b"no store at all" * 1000)

    folder = announced("damaged", damage)
    page = dashboard.open("/p/damaged/latency")
    shown(page, "cannot open the store")
    assert violations(page) == []
    replace(Path(default_store(folder.location, "damaged")), *kept)
    page.locator('[data-p99="0.9"]').wait_for(timeout=120_000)
    assert page.get_by_text("cannot open the store").count() == 0


def replace(store, data):
    """Another file in place of a store, as when somebody restores it."""
    fresh = store.with_suffix(".new")
    fresh.write_bytes(data)
    for old in store.parent.glob(f"{store.name}-*"):
        old.unlink()
    fresh.replace(store)


def test_the_forms_send_what_is_filled_in(dashboard, announced):
    folder = announced("steered")
    page = dashboard.open("/p/steered/act")
    page.locator("#token").fill(read_token())
    form = page.locator('form[aria-label="Target"]')
    for name, value in (("latency", "3"), ("relaxed", "1"), ("budget", "4")):
        form.locator(f'[name="{name}"]').fill(value)
    form.locator('[name="quantile"]').select_option("p95")
    send(page, form, "p95 latency below 3 s")
    assert folder.orders.target() == TargetOrder(3.0, 1.0, "p95", 4)
    form = page.locator('form[aria-label="Restart the query"]')
    form.locator('[name="reason"]').fill("to have more tasks")
    form.locator('[name="work"]').fill("4")
    send(page, form, "restart requested")
    wanted = folder.orders.restart()
    assert (wanted.reason, wanted.pools) == ("to have more tasks", {"work": 4})


def send(page, form, answer):
    """Send a form, confirm it, and wait for the answer."""
    form.locator("button.main").click()
    page.locator("#confirm button.main").click()
    shown(page, f"Done: {answer}")


def test_a_page_of_an_unknown_pipeline_says_which_there_are(dashboard, announced):
    announced("known")
    page = dashboard.open("/p/nobody/latency")
    shown(page, "there is no pipeline 'nobody'; there are:")
    assert page.locator(".menu a").count() == 1
    assert violations(page) == []


def test_pages_of_a_pipeline_that_has_measured_nothing_say_what_is_missing(dashboard, announced):
    folder = announced("new")
    for file in ("metrics.db", "control.json", "status.json"):
        (Path(folder.location) / file).unlink()
    for name in PAGES:
        page = dashboard.open(f"/p/new/{name}")
        page.locator("main .panel").first.wait_for(timeout=120_000)
        assert violations(page) == [], name
