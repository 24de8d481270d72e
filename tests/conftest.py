"""One Spark session for all tests that need Spark; they are marked `spark` by asking for it."""

from __future__ import annotations

import pytest
from hypothesis import settings

import foretide as ft
from helpers import QUICK

settings.register_profile("foretide", deadline=None)  # no test depends on how fast the machine is
settings.load_profile("foretide")


def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark():
    session = ft.session("local[2]", "foretide-tests", QUICK)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """No test sees the pipelines of the user who runs it."""
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def start(spark, tmp_path):
    """Starts pipelines below a temporary folder, and stops what a test leaves running."""
    started = []

    def start_pipeline(topology, sink=None, checkpoint=None, **settings):
        settings.setdefault("trigger", "0 seconds")
        chosen = ft.RunSettings(**settings)
        where = checkpoint or str(tmp_path / "checkpoint")
        pipeline = ft.submit(spark, topology, sink or ft.Parquet(str(tmp_path / "output")), where, chosen)
        started.append(pipeline)
        return pipeline

    yield start_pipeline
    for pipeline in started:
        pipeline.stop()
