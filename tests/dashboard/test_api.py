"""The REST API on the files of a pipeline: what it answers, what it orders, and what it refuses."""

import json
import os
import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient, WebSocketDisconnect

from dashboard.pipelines import announce_pipeline
from foretide.control_folder.orders import HELD_MODE
from foretide.dashboard.access import Access, Limits, hosts_of, read_token, token_file
from foretide.dashboard.server import create_app
from foretide.status.pipelines import Running, default_store, withdraw
from foretide.status.sources import Sources

SHOP = "/api/v1/pipelines/shop"


def get(client, path, **query):
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def act(client, token, **order):
    return client.post(f"{SHOP}/actions", json=order, headers=token)


def test_pipelines_are_listed_with_their_health_and_figures(client):
    (shop,) = get(client, "/api/v1/pipelines")
    assert (shop["name"], shop["health"], shop["batch"], shop["mode"]) == ("shop", "healthy", 7, "act")
    assert (shop["p50"], shop["p99"], shop["target_seconds"], shop["executors"]) == (0.2, 0.9, 2.0, 2)
    assert shop["last_decision"]["summary"] == "split edge 'work' as 50%:38%:12% (bypass: worker 1 is slow)"
    assert get(client, f"/api/v1/pipelines/{shop['id']}")["pid"] == os.getpid()


def test_the_topology_has_rates_replicas_the_bottleneck_and_slow_workers(client):
    found = get(client, f"{SHOP}/topology")
    work = next(each for each in found["operators"] if each["name"] == "work")
    assert (work["rate"], work["active"], work["pool"], work["bottleneck"]) == (120.0, 3, 3, True)
    assert [(each["source"], each["rate"]) for each in found["streams"]] == [("lines", 120.0), ("work", 60.0)]
    assert [(each["id"], each["state"], each["slow"]) for each in found["workers"]] == [
        ("0", "in service", False),
        ("1", "quarantined", True),
    ]


def test_each_view_answers_with_what_the_pipeline_has_written(client):
    assert get(client, f"{SHOP}/latency")["quantiles"]["p99"][-1]["value"] == 0.9
    forecast = get(client, f"{SHOP}/forecasts")
    assert (forecast["series"]["subject"], [each["mean"] for each in forecast["ahead"]]) == ("lines", [125.0, 130.0])
    assert [each["kind"] for each in get(client, f"{SHOP}/decisions")] == ["change"]
    detail = get(client, f"{SHOP}/decisions/5")
    assert (detail["parts"][-1]["label"], detail["parts"][-1]["text"][:17]) == ("Chosen", "split edge 'work'")
    assert get(client, f"{SHOP}/routes")["edges"][0]["pool"] == 3
    assert get(client, f"{SHOP}/metrics", level="worker")["figures"][0]["subject"] == "0"
    assert len(get(client, f"{SHOP}/metrics/latency_p99_ms")["points"]) == 2
    workers = get(client, f"{SHOP}/workers")
    assert workers["rows"][1][0]["heat"] > workers["rows"][0][0]["heat"]
    assert get(client, f"{SHOP}/machines")["subjects"] == ["host-a"]
    assert get(client, f"{SHOP}/joins") == []
    assert get(client, f"{SHOP}/advice")[0]["seconds"] == 0.3
    assert get(client, f"{SHOP}/alarms")[0]["rule"] == "slow-worker"


def test_what_if_plans_another_rate_with_what_was_measured(client):
    now, doubled = (get(client, f"{SHOP}/what-if", latency=0.1, **rate) for rate in ({}, {"rate": 240}))
    assert now["problem"] is None
    assert now["rate"] == pytest.approx(120.0)
    assert doubled["processors"] >= now["processors"]
    assert "problem" in get(client, f"{SHOP}/what-if", latency=1e-6)


def test_prometheus_and_health_answer(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    text = client.get("/metrics").text
    assert 'foretide_latency_p99_ms{level="query",pipeline="shop",subject="shop"} 900.0' in text


def test_prometheus_tells_pipelines_of_one_name_apart_and_has_the_alarms_that_hold(client, tmp_path, sources):
    alarm = {"pipeline": "shop", "rule": "slow-worker", "severity": "warning", "subject": "1"}
    assert [(each.labels, each.value) for each in scraped(client)["foretide_alarm"]] == [(alarm, 1.0)]
    announce_pipeline(tmp_path / "other", pid=os.getppid())
    sources._cache.clear()
    ids = {f"shop-{pid}" for pid in (os.getpid(), os.getppid())}
    for series in scraped(client).values():
        assert {each.labels["pipeline"] for each in series} == ids
        labels = [tuple(each.labels.items()) for each in series]
        assert len(set(labels)) == len(labels)


def scraped(client):
    """The series of each metric."""
    text = client.get("/metrics").text
    return {family.name: family.samples for family in text_string_to_metric_families(text)}


def test_events_bring_the_overview_first(client):
    answer = client.get(f"{SHOP}/events", params={"count": 1})
    kind, data = answer.text.strip().split("\n")
    assert (kind, answer.headers["content-type"].partition(";")[0]) == ("event: overview", "text/event-stream")
    assert json.loads(data.removeprefix("data: "))["name"] == "shop"
    assert client.get("/api/v1/pipelines/nobody/events").status_code == 404


ORDERS = [
    ({"action": "split", "edge": "work", "weights": [2, 1, 1]}, lambda f: f.routes().edges["work"].shares[0] == 0.5),
    ({"action": "replicas", "edge": "work", "replicas": 1}, lambda f: f.routes().edges["work"].shares[0] == 1.0),
    ({"action": "admission", "spout": "lines", "rows": 9}, lambda f: f.orders.admission() == {"lines": 9}),
    ({"action": "target", "latency": 3.5}, lambda f: f.orders.target().latency == 3.5),
    ({"action": "drain", "place": "host-a"}, lambda f: f.orders.drained() == {"host-a"}),
    ({"action": "mode", "mode": "pause"}, lambda f: f.orders.mode() == "pause"),
]


@pytest.mark.parametrize(("order", "took_effect"), ORDERS, ids=lambda value: getattr(value, "get", str)("action"))
def test_an_order_takes_effect_and_is_held_by_a_person(client, folder, token, order, took_effect):
    answer = act(client, token, **order, hold_seconds=60)
    assert answer.status_code == 202, answer.text
    assert took_effect(folder)
    (held,) = folder.orders.held().values()
    assert held.until == pytest.approx(held.at + 60)
    assert answer.json()["held"]["by"] == held.by


def test_what_is_held_can_be_released(client, folder, token):
    for order, subject in (({"action": "mode", "mode": "advise"}, HELD_MODE), (ORDERS[0][0], "edge work")):
        assert act(client, token, **order).status_code == 202
        assert act(client, token, action="release", subject=subject).status_code == 202
    assert (folder.orders.held(), folder.orders.mode()) == ({}, None)
    assert act(client, token, action="drain", place="host-a").status_code == 202
    assert act(client, token, action="drain", place="host-a", release=True).status_code == 202
    assert folder.orders.drained() == frozenset()


@pytest.mark.parametrize(
    ("order", "status", "message"),
    [
        ({"action": "split", "edge": "nowhere", "weights": [1]}, 409, "nowhere"),
        ({"action": "split", "edge": "work", "weights": [1, 1]}, 409, "work"),
        ({"action": "split", "edge": "work", "weights": [float(10**300)] * 3}, 422, "weights"),
        ({"action": "replicas", "edge": "work", "replicas": 9}, 409, "work"),
        ({"action": "drain", "place": "mars"}, 409, "there are: host-a"),
        ({"action": "release", "subject": "edge work"}, 409, "nobody holds"),
        ({"action": "target"}, 409, "nothing to change"),
        ({"action": "explode"}, 422, "explode"),
        ({"action": "mode", "mode": "pause", "more": 1}, 422, "more"),
        ({"action": "drain", "place": "\ud800"}, 422, "place"),
        ({"action": "admission", "spout": "clicks", "rows": 5}, 409, "no spout 'clicks'"),
    ],
)
def test_an_order_that_does_not_fit_is_refused_and_changes_nothing(client, folder, token, order, status, message):
    answer = client.post(
        f"{SHOP}/actions", content=json.dumps(order), headers={**token, "Content-Type": "application/json"}
    )
    assert answer.status_code == status, answer.text
    assert message in answer.json()["message"]
    assert folder.orders.held() == {}
    assert folder.routes().version == 1


def test_changes_need_the_token_which_only_the_user_can_read(client, folder, token):
    order = {"action": "mode", "mode": "pause"}
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": read_token()},
        {"Authorization": "Bearer é"},
    ):
        given = {name: value.encode() for name, value in headers.items()}
        answer = client.post(f"{SHOP}/actions", json=order, headers=given)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert read_token() not in answer.text
    assert folder.orders.mode() is None
    assert stat.S_IMODE(token_file().stat().st_mode) == 0o600
    before = read_token()
    token_file().chmod(0o644)
    assert (read_token(), stat.S_IMODE(token_file().stat().st_mode)) == (before, 0o600)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "192.168.1.5:8080"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:9999"}, 403),
        ({"Origin": "http://localhost"}, 200),
        ({"Host": "[::1]:8080"}, 200),
    ],
)
def test_other_hosts_and_origins_are_refused(client, headers, status):
    assert client.get("/healthz", headers=headers).status_code == status


@pytest.mark.parametrize(
    ("headers", "max_pages", "refused"),
    [
        ({}, 1, False),
        ({"Origin": "http://localhost"}, 1, False),
        ({"Origin": "http://evil.example"}, 1, True),
        ({"Origin": "null"}, 1, True),
        ({"Host": "evil.example"}, 1, True),
        ({}, 0, True),
    ],
)
def test_web_sockets_of_other_hosts_and_origins_and_too_many_of_them_are_refused(sources, headers, max_pages, refused):
    access = Access(read_token(), hosts_of("127.0.0.1"), Limits(max_pages=max_pages))
    client = TestClient(create_app(sources, access, pages=False), base_url="http://localhost")
    with (
        pytest.raises(WebSocketDisconnect) as closed,  # this application has no pages, so it closes those that pass
        client.websocket_connect("ws://localhost/_nicegui_ws/socket.io/?transport=websocket", headers=headers),
    ):
        pass
    assert (closed.value.code == 1008) == refused


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_polling_does_not_get_round_the_limit_of_open_pages(client, method):
    answer = client.request(method, "/_nicegui_ws/socket.io/?EIO=4&transport=polling")
    assert (answer.status_code, "web socket" in answer.json()["message"]) == (403, True)


def test_sizes_and_rates_are_bounded(folder, token):
    clock = iter(range(10**6))
    limits = Limits(requests_per_second=0.01, burst=3, changes_per_second=0.01, burst_of_changes=2, max_streams=0)
    sources = Sources()
    app = create_app(sources, Access(read_token(), hosts_of("127.0.0.1"), limits), pages=False)
    app._clock = lambda: next(clock) / 1000
    client = TestClient(app, base_url="http://localhost")
    large = client.post(f"{SHOP}/actions", content=b"x" * 20_000, headers=token)
    chunks = client.post(f"{SHOP}/actions", content=(b"x" * 1000 for _ in range(20)), headers=token)
    assert (large.status_code, chunks.status_code) == (413, 413)
    assert act(client, token, action="mode", mode="act").status_code == 202
    assert act(client, token, action="mode", mode="act").status_code == 429
    assert client.get(f"/healthz?{'x' * 5000}").status_code == 414
    assert client.get(f"{SHOP}/events").status_code == 429
    assert [client.get("/healthz").status_code for _ in range(3)] == [200, 200, 429]
    sources.close()


def test_a_pipeline_that_has_ended_is_still_shown_and_takes_no_orders(client, folder, token, sources):
    assert get(client, SHOP)["running"]
    withdraw(Running("shop", os.getpid(), folder.location))
    sources._cache.clear()
    assert (get(client, SHOP)["health"], get(client, f"{SHOP}/latency")["quantiles"]["p50"] != []) == ("ended", True)
    assert act(client, token, action="mode", mode="act").status_code == 404


def test_a_recorded_store_is_shown_without_a_pipeline(folder, tmp_path):
    store = default_store(folder.location, "shop")
    withdraw(Running("shop", os.getpid(), folder.location))
    sources = Sources([store])
    app = create_app(sources, Access(read_token(), hosts_of("127.0.0.1")), pages=False)
    (shop,) = get(TestClient(app, base_url="http://localhost"), "/api/v1/pipelines")
    assert (shop["id"], shop["health"], shop["p99"]) == ("shop-store1", "ended", 0.9)
    sources.close()


def test_a_pipeline_before_its_first_batch_and_a_damaged_folder_are_shown(client, folder, sources):
    place = Path(folder.location)
    (place / "metrics.db").unlink()
    for file in ("control.json", "status.json", "routes.json"):
        (place / file).write_text("{", encoding="utf-8")
    sources._cache.clear()
    shop = get(client, SHOP)
    assert shop["health"] == "starting"
    assert any("control.json" in problem for problem in shop["problems"])
    for view in ("topology", "latency", "forecasts", "decisions", "routes", "workers", "joins", "advice", "what-if"):
        assert client.get(f"{SHOP}/{view}").status_code in {200, 503}
