"""Every source and every sink, for real."""

from __future__ import annotations

import json
import socket
import threading

import pytest

import foretide as ft
from foretide.workloads.keyed import Keyed
from helpers import rows_taken, wait_for, work_off


def passing(source, name="pass"):
    return ft.Topology(
        name, [ft.Spout("source", source)], [ft.Bolt("keep", lambda df: df, [ft.From("source")], pool=2)]
    )


def numbers(rows=500, **options):
    return ft.Replay(Keyed(seed=1), ft.Curve.constant(rows, 1), paced=False, **options)


def test_rate_into_json(start, tmp_path):
    pipeline = start(passing(ft.Rate(200)), ft.Json(str(tmp_path / "json")))
    wait_for(lambda: rows_taken(pipeline) >= 200, pipeline)
    pipeline.stop()
    values = sorted(row.value for row in pipeline.output("keep").collect())
    assert values == list(range(len(values)))
    assert len(values) >= 200


def test_files_into_a_table(spark, start, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text("\n".join(json.dumps({"n": n}) for n in range(100)))
    spark.sql("DROP TABLE IF EXISTS kept")
    pipeline = start(passing(ft.Files(str(folder), "n int")), ft.Table("kept"))
    wait_for(lambda: rows_taken(pipeline) == 100, pipeline)
    (folder / "b.json").write_text('{"n": 100}\nnot json\n')
    work_off(pipeline, 102)
    kept = [row.n for row in pipeline.output("keep").collect()]
    assert sorted(n for n in kept if n is not None) == list(range(101))
    assert kept.count(None) == 1  # a malformed row is kept as nulls, Spark's permissive default; not dropped
    spark.sql("DROP TABLE kept")


def test_a_vanished_input_file_stops_the_query_with_its_name_and_nothing_is_lost(start, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"n": 1}\n{"n": 2}\n')
    hold = tmp_path / "hold"
    topology = ft.Topology(
        "vanish",
        [ft.Spout("source", ft.Files(str(folder), "n int"))],
        [ft.Bolt("keep", lambda df: df, [ft.From("source")], pool=2)],
    )
    work_off(start(topology), 2)
    (folder / "b.json").write_text('{"n": 3}\n')
    hidden = (folder / "b.json").rename(hold)
    pipeline = start(topology)
    wait_for(lambda: pipeline.query.lastProgress is not None, pipeline)
    hidden.rename(folder / "c.json")
    work_off(pipeline, 1)
    assert sorted(row.n for row in pipeline.output("keep").collect()) == [1, 2, 3]


def test_a_vanished_replayed_file_is_a_clear_error(start, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("n\n" + "\n".join(map(str, range(1000))))
    source = ft.Replay(ft.FileRows(str(path), "csv"), ft.Curve.constant(1000, 1), paced=False, max_rows=100)
    pipeline = start(passing(source))
    wait_for(lambda: rows_taken(pipeline) >= 100, pipeline)
    pipeline.stop()
    text = path.read_text()
    path.unlink()
    with pytest.raises(ft.errors.TopologyError, match=r"rows\.csv"):
        start(passing(source))
    path.write_text(text)
    pipeline.limit_admission("source", 1000)
    again = start(passing(source))
    wait_for(lambda: again.output("keep").count() == 1000, again)  # the first run may have taken all of them
    again.stop()
    assert sorted(row.n for row in again.output("keep").collect()) == list(range(1000))


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "text"])
def test_a_file_is_replayed_in_its_order(spark, start, tmp_path, kind):
    path = tmp_path / "rows"
    if kind == "parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table({"n": list(range(300))}), path)
    else:
        lines = {"csv": ["n", *map(str, range(300))], "json": [f'{{"n": {n}}}' for n in range(300)]}
        path.write_text("\n".join(lines.get(kind, map(str, range(300)))))
    source = ft.Replay(ft.FileRows(str(path), kind), ft.Curve.constant(1000, 1), paced=False, max_rows=77)
    pipeline = start(passing(source))
    work_off(pipeline, 300)
    column = "line" if kind == "text" else "n"
    assert sorted((row.row, int(row[column])) for row in pipeline.output("keep").collect()) == [
        (n, n) for n in range(300)
    ]


def test_socket_into_memory(start):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"one\ntwo\nthree\n")
                done.wait(60)

        done = threading.Event()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        source = ft.Socket("127.0.0.1", server.getsockname()[1])
        pipeline = start(passing(source), ft.Memory("heard"), guarantee="none")
        wait_for(lambda: rows_taken(pipeline) == 3, pipeline)
        pipeline.stop()
        done.set()
        thread.join()
        assert sorted(row.value for row in pipeline.output("keep").collect()) == ["one", "three", "two"]


def test_console_is_audited_too_but_cannot_be_read_back(start):
    pipeline = start(passing(numbers(3)), ft.Console(), guarantee="at-least-once")
    wait_for(lambda: rows_taken(pipeline) == 3, pipeline)
    pipeline.stop()
    assert pipeline.reports[0].edges["keep"].read == 3
    assert not pipeline.alarms
    with pytest.raises(ft.errors.TopologyError, match="cannot be read back"):
        pipeline.output("keep")


def test_any_spark_source_will_do(spark, start):
    load = lambda session: session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    pipeline = start(passing(ft.Stream(load)))
    wait_for(lambda: rows_taken(pipeline) >= 20, pipeline)
    pipeline.stop()
    assert pipeline.output("keep").count() >= 20


def test_asking_for_a_stream_that_is_not_there_names_those_that_are(start):
    pipeline = start(passing(numbers()))
    work_off(pipeline, 500)
    with pytest.raises(ft.errors.TopologyError, match="There are: keep"):
        pipeline.output("nope")
