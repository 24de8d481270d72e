"""Requests made up from the API's own description: whatever comes in, the server answers, and never with an error of
its own.

`make test` makes 300 requests, `make soak` 10,000. Every third has a wrong token, or none.
"""

from contextlib import suppress
from itertools import cycle

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error, response_schema_conformance, status_code_conformance

from dashboard.pipelines import announce_pipeline
from foretide.dashboard.access import Access, Limits, hosts_of, read_token
from foretide.dashboard.server import create_app
from foretide.status.sources import Sources

UNLIMITED = Limits(requests_per_second=1e9, burst=10**9, changes_per_second=1e9, burst_of_changes=10**9)
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]
WRONG = [{}, {"Authorization": "Bearer"}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic d3Jvbmc6"}]
REFUSED = {400, 401, 413, 414, 422}
"""An order without the token is at best not even read."""

CHANGE = "/api/v1/pipelines/{pipeline}/actions"


@pytest.mark.parametrize("ids", ["known", "made up"])
def test_no_request_is_answered_with_an_error_of_the_server(tmp_path, ids):
    attack(tmp_path, ids, 150)


@pytest.mark.soak
@pytest.mark.parametrize("ids", ["known", "made up"])
def test_none_of_10_000_requests_is_answered_with_an_error_of_the_server(tmp_path, ids):
    assert attack(tmp_path, ids, 5_500) >= 5_000


def attack(tmp_path, ids, requests):
    """Make that many requests, as many for each operation that takes parameters; returns how many were made."""
    announce_pipeline(tmp_path)
    sources = Sources()
    access = Access(read_token(), hosts_of("127.0.0.1") | {"testserver"}, UNLIMITED)
    app = create_app(sources, access, pages=False)
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    operations = [each.ok() for each in schema.exclude(path_regex="events$").get_all_operations()]
    made = dict.fromkeys((f"{each.method} {each.path}" for each in operations), 0)
    varied = sum("{" in each.path for each in operations)
    per_operation = -(-requests // varied)
    for operation in operations:
        _send(operation, per_operation, ids, made)
    assert sum(made.values()) >= 0.9 * per_operation * varied, made
    sources.close()
    return sum(made.values())


def _send(operation, number, ids, made):
    right = {"Authorization": f"Bearer {read_token()}"}
    headers = cycle([right, right, None])
    wrong = cycle(WRONG)

    @given(case=operation.as_strategy())
    @settings(max_examples=number, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    def send(case):
        if ids == "known" and "pipeline" in (case.path_parameters or {}):
            case.path_parameters["pipeline"] = "shop"
        made[f"{operation.method} {operation.path}"] += 1
        with suppress(ValueError):  # what no client can send
            token = next(headers)
            response = case.call(headers=token or next(wrong))
            case.validate_response(response, checks=CHECKS)
            if operation.path == CHANGE and token is None:
                assert response.status_code in REFUSED

    send()
