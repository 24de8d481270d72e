"""One Spark session for all tests that need Spark; they are marked `spark` by asking for it."""

from __future__ import annotations

import contextlib
import signal

import pytest
from hypothesis import settings

import foretide as ft
from foretide.errors import EnvironmentNotReadyError
from helpers import COMPILED, QUICK

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as scripts/test.sh starts it; processes of tests inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("foretide", deadline=None)  # no test depends on how fast the machine is
settings.load_profile("foretide")


def pytest_collection_modifyitems(items):
    for item in items:
        if {"spark", "broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark():
    session = ft.session("local[2]", "foretide-tests", QUICK)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """A Kafka broker for all tests of this process; they are skipped where its jars or the connector cannot be had."""
    from foretide.spark.jars import KAFKA_CONNECTOR, jars_of
    from foretide.spark.kafka_broker import Broker

    pytest.importorskip("confluent_kafka")
    running = Broker(tmp_path_factory.mktemp("kafka"))
    try:
        jars_of(KAFKA_CONNECTOR)
        running.start()
    except EnvironmentNotReadyError as error:
        pytest.skip(str(error))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def compiled_plans(spark):
    """Whole-stage code generation for the tests of a module, as outside of tests."""
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    yield spark
    for name in COMPILED:
        spark.conf.set(name, QUICK[name])


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """No test sees the pipelines of the user who runs it."""
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def start(spark, tmp_path):
    """Starts pipelines in a temporary folder, without monitoring by default, and stops what a test leaves running."""
    with starting(spark, tmp_path) as start_pipeline:
        yield start_pipeline


@pytest.fixture(scope="module")
def start_shared(spark, tmp_path_factory):
    """As `start`, for pipelines that several tests of a module look at while they run."""
    with pytest.MonkeyPatch.context() as patch, starting(spark, tmp_path_factory.mktemp("shared")) as start_pipeline:
        patch.setenv("FORETIDE_HOME", str(tmp_path_factory.mktemp("home")))
        yield start_pipeline


@contextlib.contextmanager
def starting(spark, folder):
    started = []

    def start_pipeline(topology, sink=None, checkpoint=None, **settings):
        chosen = ft.RunSettings(**{"trigger": "0 seconds", "monitoring": None, **settings})
        where = checkpoint or str(folder / "checkpoint")
        pipeline = ft.submit(spark, topology, sink or ft.Parquet(str(folder / "output")), where, chosen)
        started.append(pipeline)
        return pipeline

    yield start_pipeline
    for pipeline in started:
        pipeline.stop()
