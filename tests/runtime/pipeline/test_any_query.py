"""`ft.control` on queries that know nothing of Foretide, and how their control folders and names are found."""

import os
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F
from typer.testing import CliRunner

import foretide as ft
from foretide.cli.main import app
from foretide.control_folder.facts import PipelineFacts
from foretide.control_folder.folder import ControlFolder
from foretide.runtime.pipeline import followed
from foretide.runtime.pipeline.followed import folder_of, query_name
from foretide.spark.running_query import QuerySource, RunningQuery
from helpers import wait_for

DOCS = Path(__file__).parents[3] / "docs"
KNOWN = RunningQuery("file:/data/ck", "FileSink[file:/data/out/clicks]", 0.0, (QuerySource("rate"),))


def unnamed(number="0123456789"):
    return SimpleNamespace(name=None, id=number)


@pytest.fixture
def rows(spark):
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).load()


def test_a_query_without_edges_is_controlled_without_arguments(spark, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no foretide.toml
    counted = rows.groupBy((F.col("value") % 3).alias("key")).count()
    writer = counted.writeStream.outputMode("update").format("noop").trigger(processingTime="200 milliseconds")
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
    try:
        controller = ft.control(query)
        wait_for(lambda: controller.cycles >= 2 and controller.forecast("arrival_rate", "source") is not None)
        assert controller.control_folder.location == f"{tmp_path}/ck/foretide"
        setup = controller.reader.read().setup
        assert setup.trigger == pytest.approx(0.2)
        assert [(each.name, each.spout, each.stateful) for each in setup.operators] == [
            ("source", True, False),
            ("aggregate", False, True),
        ]
        assert setup.flows == (("source", "aggregate"),)
        shown = CliRunner().invoke(app, ["status", "--app", "foretide-tests-rate-micro-batch"]).output
        assert "control (act): bypass, replicas, hot_keys" in shown
        assert shown.count("problem:") == 2
        assert "problem: tuple latency is a bound by the batches" in shown
        assert "problem: in local mode no executor can be taken out" in shown
        with pytest.raises(ft.errors.ControlFolderError, match="a control loop is attached"):
            ft.control(query)
    finally:
        query.stop()
    wait_for(lambda: controller.control_folder.status.control().ended)


def controlled(query, **options):
    controller = ft.control(query, ["bypass"], settings=ft.Settings(), **options)
    wait_for(lambda: controller.cycles >= 2 and controller.status().latency_basis is not None)
    return controller


def latency_of(controller, quantile="p99"):
    name = controller.reader.read().setup.query
    return controller.reader.read().snapshot.value(f"latency_{quantile}_ms", name)


def test_latency_is_measured_from_what_the_sources_know_and_it_is_said(spark, rows, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text("a\nb\n")
        os.utime(tmp_path / "in" / f"{number}.txt", (time.time() - 1000, time.time() - 1000))
    files = spark.readStream.format("text").load(str(tmp_path / "in"))
    rate = spark.readStream.format("rate").option("rowsPerSecond", 100).load().withWatermark("timestamp", "1 minute")
    try:
        by_files = controlled(started(files, tmp_path / "files"))
        assert by_files.status().latency_basis == "modification times of files"
        wait_for(lambda: latency_of(by_files))
        assert 1000_000 <= latency_of(by_files) < 2000_000
        counted = rate.groupBy(F.window("timestamp", "1 second")).count()
        query = started(counted, tmp_path / "rate")
        by_rate = controlled(query)
        assert by_rate.status().latency_basis == "timestamps of the rate source"
        wait_for(lambda: latency_of(by_rate))
        with pytest.raises(ft.errors.ControlError, match="the query has its watermark on 'timestamp'"):
            ft.control(query, event_time="value")
        query.stop()
        again = started(counted, tmp_path / "rate")
        by_event_time = controlled(again, event_time="timestamp")
        assert by_event_time.status().latency_basis.startswith("event times in column 'timestamp'")
        wait_for(lambda: latency_of(by_event_time) and latency_of(by_event_time, "mean"))
        bounded = controlled(started(rows, tmp_path / "bound"))
        assert bounded.status().latency_basis == "a bound by the batches"
        assert any("tuple latency is a bound" in each for each in bounded.reader.read().snapshot.problems)
    finally:
        for query in spark.streams.active:
            query.stop()


def started(frame, checkpoint):
    writer = frame.writeStream.format("noop").outputMode("update").trigger(processingTime="200 milliseconds")
    return writer.option("checkpointLocation", str(checkpoint)).start()


def test_a_temporary_checkpoint_leaves_no_control_folder_behind(rows):
    query = rows.writeStream.format("noop").queryName("fleeting").start()
    try:
        controller = ft.control(query, settings=ft.Settings())
        wait_for(lambda: controller.cycles)
        folder = Path(controller.control_folder.location)
        assert folder.is_dir()
        folders = set(folder.parent.glob("foretide-*"))
        with pytest.raises(ft.errors.ControlFolderError, match="a control loop is attached"):
            ft.control(query, settings=ft.Settings())
        assert set(folder.parent.glob("foretide-*")) <= folders
    finally:
        query.stop()
    wait_for(lambda: not folder.exists())


def test_the_example_of_the_docs_runs_as_written(rows, tmp_path):
    """Spark resolves paths in the folder that it was started in, so here they are absolute."""
    found = re.findall(r"```python\n(.*?)```", (DOCS / "control.md").read_text(encoding="utf-8"), re.DOTALL)
    example = next(block for block in found if "ft.edge(" in block)
    names = {"ft": ft, "df": rows}
    try:
        exec(example.replace('"jobs/', f'"{tmp_path}/jobs/'), names)
        controller = names["controller"]
        wait_for(lambda: controller.reader.observer.observed().route_version is not None)
        assert controller.control_folder.location == f"{tmp_path}/jobs/clicks/foretide"
        assert controller.reader.observer.observed().pools == {"work": 8}
    finally:
        names["query"].stop()


def test_folders_of_edges_go_before_that_in_the_checkpoint():
    assert folder_of(KNOWN) == "/data/ck/foretide"
    assert folder_of(RunningQuery("s3a://jobs/ck")) == "s3a://jobs/ck/foretide"
    assert folder_of(RunningQuery("file:/data/ck", folders=("/routes",))) == "/routes"
    assert folder_of(RunningQuery("file:/tmp/temporary-a28f35b9-d5e1-4b72-8770-491e69d1ead4")) is None
    assert folder_of(RunningQuery()) is None
    with pytest.raises(ft.errors.ControlError, match=r"several control folders: /a, /b; .* control_folder="):
        folder_of(RunningQuery(folders=("/a", "/b")))


def test_a_query_without_a_name_is_called_by_its_application_and_its_sink_or_source(tmp_path, monkeypatch):
    monkeypatch.setattr(followed, "application_name", lambda: "shop orders")
    folder = ControlFolder(str(tmp_path))
    assert query_name(SimpleNamespace(name="mine", id="x"), KNOWN, folder) == "mine"
    assert query_name(unnamed(), KNOWN, folder) == "shop-orders-clicks"
    kafka = RunningQuery(sink="KafkaTable", sources=(QuerySource("kafka", {"subscribe": "visits"}),))
    assert query_name(unnamed(), kafka, folder) == "shop-orders-visits"
    files = RunningQuery(sink="ForeachBatchSink", sources=(QuerySource("FileSource[/data/in]"),))
    assert query_name(unnamed(), files, folder) == "shop-orders-in"
    monkeypatch.setattr(followed, "list_running", lambda: [SimpleNamespace(name="shop-orders-clicks")])
    assert query_name(unnamed(), KNOWN, folder) == "shop-orders-clicks-01234567"
    monkeypatch.setattr(followed, "application_name", lambda: "")
    assert query_name(unnamed(), RunningQuery(), folder) == "query-01234567"


def test_the_name_of_a_query_stays_as_long_as_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(followed, "application_name", lambda: "renamed")
    folder = ControlFolder(str(tmp_path))
    folder.status.write(PipelineFacts("shop-clicks", {}, {}))
    assert query_name(unnamed(), KNOWN, folder) == "shop-clicks"
