"""The dashboard on a pipeline that has written its files; no Spark runs behind it."""

import pytest
from starlette.testclient import TestClient

from dashboard.pipelines import announce_pipeline
from foretide.dashboard.access import Access, hosts_of, read_token
from foretide.dashboard.server import create_app
from foretide.status.sources import Sources


@pytest.fixture
def folder(tmp_path):
    return announce_pipeline(tmp_path)


@pytest.fixture
def sources():
    made = Sources()
    yield made
    made.close()


@pytest.fixture
def client(folder, sources):
    app = create_app(sources, Access(read_token(), hosts_of("127.0.0.1")), pages=False)
    return TestClient(app, base_url="http://localhost")


@pytest.fixture
def token():
    return {"Authorization": f"Bearer {read_token()}"}
