"""Advice on real Spark: what it predicts is what a person gets who follows it."""

import json
from statistics import median

import pytest
from pyspark.sql import functions as F
from typer.testing import CliRunner

import foretide as ft
from foretide.cli.main import app
from foretide.spark.running_query import read_environment
from helpers import wait_for

MANY = 40
BATCHES = 12


def counted(spark, partitions, folder):
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", partitions)
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 500).load()
    writer = rows.groupBy((F.col("value") % 7).alias("key")).count().writeStream.outputMode("update").format("noop")
    return writer.queryName(f"count-{partitions}").option("checkpointLocation", str(folder)).start()


def batch_seconds(query):
    wait_for(lambda: query.lastProgress is not None and query.lastProgress.batchId >= BATCHES)
    known = [each.durationMs["triggerExecution"] / 1000 for each in query.recentProgress if each.batchId > 2]
    return median(known)


@pytest.fixture
def advised(spark, tmp_path):
    query = counted(spark, MANY, tmp_path / "many")
    yield query, ft.control(query, mode="advise", settings=ft.Settings())
    query.stop()


def test_fewer_shuffle_partitions_save_what_the_advice_says(spark, advised, tmp_path):
    query, controller = advised
    before = batch_seconds(query)
    wait_for(lambda: [each for each in controller.advice if each.subject == "shuffle partitions"])
    advice = next(each for each in controller.advice if each.subject == "shuffle partitions")
    assert advice.sentence.startswith(f"{MANY} shuffle partitions on 2 cores cost ")
    assert "spark.sql.shuffle.partitions=4 " in advice.how
    wait_for(lambda: controller.control_folder.status.control().advice)
    shown = CliRunner().invoke(app, ["advice", query.name])
    assert advice.subject == json.loads(CliRunner().invoke(app, ["advice", query.name, "--json"]).output)[0]["subject"]
    assert "1. 40 shuffle partitions on 2 cores cost" in shown.output
    assert "   how: set spark.sql.shuffle.partitions=4" in shown.output
    assert "advice: 40 shuffle partitions" in CliRunner().invoke(app, ["status", query.name]).output
    query.stop()
    fewer = counted(spark, 4, tmp_path / "few")
    try:
        saved = before - batch_seconds(fewer)
    finally:
        fewer.stop()
    assert advice.seconds / 3 <= saved <= 3 * advice.seconds


def test_what_is_set_for_a_query_is_read(spark, tmp_path):
    (tmp_path / "in").mkdir()
    files = spark.readStream.schema("line string").format("text").load(str(tmp_path / "in"))
    (tmp_path / "in" / "a.txt").write_text("x\n")
    mapped = files.mapInPandas(lambda frames: frames, "line string")
    query = mapped.writeStream.format("noop").trigger(processingTime="700 milliseconds").start()
    try:
        wait_for(lambda: query.lastProgress is not None)
        found = read_environment(query, 1)
        assert found.trigger == pytest.approx(0.7)
        assert found.unlimited == ("maxFilesPerTrigger",)
        assert found.python
        assert found.heap_bytes > 0
        assert found.settings["spark.sql.shuffle.partitions"] == "2"
    finally:
        query.stop()
