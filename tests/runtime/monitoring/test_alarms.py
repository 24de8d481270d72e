"""Alarms go to the log, the store and a webhook, and nothing of that holds up the pipeline."""

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from foretide.metrics.alarm_rules import AlarmRule
from foretide.metrics.snapshot import Snapshot
from foretide.runtime.monitoring import publishing as alarms_module
from foretide.runtime.monitoring.publishing import AlarmManager, Webhook
from foretide.store.records import AlarmRecord, storage_problem
from helpers import wait_for

FULL = AlarmRule("full", "capacity", above=0.9, severity="critical", meaning="A replica is full.")
MESSAGE = (
    "A replica is full. capacity of 'count' is 95%. "
    "Likely source: operator 'count', whose busiest replica is busy 95% of the time."
)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


class Listener:
    """A web server that keeps what is posted to it. While `open` is not set, it does not answer."""

    def __init__(self, status=200):
        self.got, self.open = [], threading.Event()
        self.open.set()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.got.append((self.headers["Content-Type"], json.loads(body)))
                listener.open.wait(30)
                self.send_response(status)
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/alarms"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self):
        self.open.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def listen():
    listeners = []

    def make(**options):
        listeners.append(Listener(**options))
        return listeners[-1]

    yield make
    for listener in listeners:
        listener.close()


def capacity(value, at):
    return Snapshot(at, "app", {("capacity", "count"): (value, at)})


class Writer:
    """Keeps what it is to write."""

    def __init__(self):
        self.alarms = []

    def put_alarms(self, alarms):
        self.alarms += alarms


def manager(webhook=None, writer=None):
    made = AlarmManager("app", (FULL,), writer, webhook)
    made.start()
    return made


def test_a_webhook_is_told_when_an_alarm_is_raised_and_when_it_is_over(listen):
    listener = listen()
    alarms = manager(listener.address)
    for at, value in enumerate([0.5, 0.95, 0.99, 0.5]):
        alarms.judge(capacity(value, at))
    alarms.close()
    told = {
        "pipeline": "app",
        "rule": "full",
        "severity": "critical",
        "metric": "capacity",
        "subject": "count",
        "value": 0.95,
        "since": 1,
        "at": 1,
        "message": MESSAGE,
        "likely_source": "operator 'count', whose busiest replica is busy 95% of the time",
    }
    json_type = "application/json"
    assert listener.got == [(json_type, {**told, "state": "raised"}), (json_type, {**told, "state": "over"})]
    assert alarms.problem is None


def test_alarms_are_active_until_they_are_over():
    alarms = manager()
    assert alarms.active == []
    alarms.judge(capacity(0.95, 0))
    assert [(alarm.rule, alarm.subject) for alarm in alarms.active] == [(FULL, "count")]
    alarms.judge(capacity(0.5, 1))
    assert alarms.active == []
    alarms.close()


def test_an_alarm_is_kept_once_in_a_form_that_a_store_takes():
    writer = Writer()
    alarms = manager(writer=writer)
    for at in range(3):
        alarms.judge(capacity(0.95, at))
    source = "operator 'count', whose busiest replica is busy 95% of the time"
    assert writer.alarms == [AlarmRecord(0, "full", "critical", "count", MESSAGE, source)]
    assert storage_problem(writer.alarms[0]) is None


def test_the_log_says_what_is_raised_and_what_is_over(caplog):
    alarms = manager()
    with caplog.at_level(logging.INFO, "foretide"):
        alarms.judge(capacity(0.95, 0))
        alarms.judge(capacity(0.5, 1))
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", f"app: {MESSAGE} [full]"),
        ("INFO", "app: over: full of 'count'"),
    ]


def test_a_webhook_that_is_gone_is_a_problem_that_is_said_until_it_is_back(listen):
    listener = listen()
    hook = Webhook(listener.address).start()
    listener.server.shutdown()
    listener.server.server_close()
    hook.send({"n": 1})
    wait_for(lambda: hook.problem is not None)
    assert hook.problem.startswith(f"the webhook {listener.address.removesuffix('alarms')}*** does not answer: ")
    assert hook.lost == 1
    back = listen()
    hook.url = back.address
    hook.send({"n": 2})
    wait_for(lambda: back.got and hook.problem is None)
    hook.close()
    assert not hook.running


def test_a_webhook_that_answers_with_an_error_is_a_problem(listen):
    hook = Webhook(listen(status=500).address).start()
    hook.send({"n": 1})
    wait_for(lambda: hook.problem is not None)
    assert "500" in hook.problem
    hook.close()


@pytest.mark.parametrize("address", ["http://127.0.0.1:port/", "http://[::1/", "http://127.0.0.1/a b"])
def test_an_address_that_leads_nowhere_is_a_problem_and_does_not_end_the_thread(address):
    hook = Webhook(address).start()
    hook.send({"n": 1})
    wait_for(lambda: hook.lost == 1)
    wait_for(lambda: hook.problem is not None)
    assert hook.running
    hook.close()


def test_a_webhook_that_is_slow_holds_up_nobody_and_loses_what_is_too_much(listen, monkeypatch):
    monkeypatch.setattr(alarms_module, "_MAX_QUEUED", 3)
    listener = listen()
    listener.open.clear()
    hook = Webhook(listener.address).start()
    hook.send({"n": 0})
    wait_for(lambda: listener.got)  # it is at work on the first, and will not answer
    for n in range(1, 6):
        hook.send({"n": n})
    assert hook.lost == 2
    listener.open.set()
    hook.close()
    assert [body["n"] for _, body in listener.got] == [0, 1, 2, 3]


def test_closing_does_not_wait_for_a_webhook_that_never_answers_however_much_is_in_line(listen, monkeypatch):
    monkeypatch.setattr(alarms_module, "_CLOSE_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(alarms_module, "_MAX_QUEUED", 2)
    listener = listen()
    listener.open.clear()
    hook = Webhook(listener.address).start()
    for n in range(9):
        hook.send({"n": n})
    hook.close()
    assert hook.running  # nobody waited for it
    listener.open.set()
    wait_for(lambda: not hook.running)
    assert not hook.running
