"""`ft.watch`: every query of a session gets a control loop, and keeps running when it is taken away."""

from types import SimpleNamespace

import pytest

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from helpers import wait_for


def start(spark, folder, name):
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
    writer = rows.writeStream.format("noop").queryName(name).trigger(processingTime="200 milliseconds")
    return writer.option("checkpointLocation", str(folder / name)).start()


def test_queries_that_run_and_that_start_later_are_controlled_until_the_end(spark, tmp_path):
    first = start(spark, tmp_path, "first")
    watching = ft.watch(spark, ["bypass"], settings=ft.Settings())
    try:
        wait_for(lambda: len(watching.controllers) == 1)
        second = start(spark, tmp_path, "second")
        wait_for(lambda: len(watching.controllers) == 2)
        wait_for(lambda: all(each.cycles for each in watching.controllers))
        assert {each.control.mode for each in watching.controllers} == {"advise"}
        first.stop()
        wait_for(lambda: len(watching.controllers) == 1)
        again = start(spark, tmp_path, "first")
        wait_for(lambda: len(watching.controllers) == 2)
        again.stop()
        own = watching.controllers[0]
        watching.stop()
        assert second.isActive
        assert ControlFolder(own.control_folder.location).status.control().ended
        assert watching.problems == {}
        third = start(spark, tmp_path, "third")
        taken = ft.control(second, ["bypass"], settings=ft.Settings())
        wait_for(lambda: taken.cycles and third.lastProgress is not None)
        assert not (tmp_path / "third" / "foretide").exists()
    finally:
        watching.stop()
        for query in spark.streams.active:
            query.stop()


def test_a_query_that_is_controlled_already_is_left_alone(spark, tmp_path):
    query = start(spark, tmp_path, "mine")
    controller = ft.control(query, ["bypass"], settings=ft.Settings())
    watching = ft.watch(spark, settings=ft.Settings())
    try:
        wait_for(lambda: watching.problems)
        assert "a control loop is attached to query 'mine'" in watching.problems["mine"]
        assert watching.controllers == []
        wait_for(lambda: controller.cycles)
    finally:
        watching.stop()
        query.stop()


def test_wrong_arguments_are_refused_at_once(spark):
    with pytest.raises(ft.errors.SettingsError, match="nope"):
        ft.watch(spark, ["nope"], settings=ft.Settings())
    with pytest.raises(ft.errors.ControlError, match="Spark Connect"):
        ft.watch(SimpleNamespace(), settings=ft.Settings())
