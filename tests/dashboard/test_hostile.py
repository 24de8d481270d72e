"""Requests made up from the API's own description: whatever comes in, the server answers, and never with an error of
its own.

`FORETIDE_API_REQUESTS` sets how many requests are made, 300 by default.
"""

import os
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error, response_schema_conformance, status_code_conformance

from dashboard.pipelines import announce_pipeline
from foretide.dashboard.access import Access, Limits, hosts_of, read_token
from foretide.dashboard.server import create_app
from foretide.status.sources import Sources

REQUESTS = int(os.environ.get("FORETIDE_API_REQUESTS", "300"))
UNLIMITED = Limits(requests_per_second=1e9, burst=10**9, changes_per_second=1e9, burst_of_changes=10**9)
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


@pytest.mark.parametrize("ids", ["known", "made up"])
def test_no_request_is_answered_with_an_error_of_the_server(tmp_path, ids):
    announce_pipeline(tmp_path)
    sources = Sources()
    access = Access(read_token(), hosts_of("127.0.0.1") | {"testserver"}, UNLIMITED)
    app = create_app(sources, access, pages=False)
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    operations = [each.ok() for each in schema.exclude(path_regex="events$").get_all_operations()]
    made = dict.fromkeys((f"{each.method} {each.path}" for each in operations), 0)
    varied = sum("{" in each.path for each in operations)
    per_operation = max(1, REQUESTS // 2 // varied)
    for operation in operations:
        _send(operation, per_operation, ids, made)
    assert sum(made.values()) >= 0.9 * per_operation * varied, made
    sources.close()


def _send(operation, number, ids, made):
    @given(case=operation.as_strategy())
    @settings(max_examples=number, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    def send(case):
        if ids == "known" and "pipeline" in (case.path_parameters or {}):
            case.path_parameters["pipeline"] = "shop"
        made[f"{operation.method} {operation.path}"] += 1
        with suppress(ValueError):  # what no client can send
            response = case.call(headers={"Authorization": f"Bearer {read_token()}"})
            case.validate_response(response, checks=CHECKS)

    send()
