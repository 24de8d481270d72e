"""Partitions of Spark's state: what cannot be done is refused, and what was cut off is put in order at a start."""

from __future__ import annotations

import json

import pytest

import foretide as ft
from foretide.control.actions.registry import Restart
from foretide.errors import ActionError
from foretide.spark.state import repartition_obstacle, repartition_state, settle_repartition
from foretide.workloads.keyed import Keyed
from helpers import rows_taken, wait_for, work_off

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ROWS = 100
SOURCE = ft.Replay(Keyed(seed=1), ft.Curve.constant(ROWS, 1), paced=False, max_rows=50)


def stateful(source=SOURCE):
    def once(df):
        return df.withWatermark("event_time", "1 hour").dropDuplicates(["row", "event_time"])

    bolts = [
        ft.Bolt("pass", lambda df: df, [ft.From("numbers", ft.Dynamic(by=("row",)))], pool=2),
        ft.Bolt("once", once, [ft.From("pass")]),
    ]
    return ft.Topology("stateful", [ft.Spout("numbers", source)], bolts)


def listed(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "foretide" not in path.parts)


# ---- what cannot be done is refused while the query runs


def test_a_restart_that_cannot_be_done_is_refused_and_the_query_runs_on(start):
    pipeline = start(stateful())
    wait_for(lambda: pipeline.reports, pipeline)
    query = pipeline.query
    for change, why in {
        "Spark repartitions RocksDB only": Restart("more", state_partitions=5),
        "no edge 'nowhere'.*: pass": Restart("more", pools={"nowhere": 5}),
        "no edge 'once'": Restart("more", pools={"once": 5}),
        "2000 tasks behind 'pass' is too large; the most is 1024": Restart("more", pools={"pass": 2000}),
    }.items():
        with pytest.raises(ActionError, match=change):
            pipeline.restart(why)
    with pytest.raises(ActionError):
        pipeline.restart(why)  # the same again is no second alarm
    assert [alarm.kind for alarm in pipeline.alarms] == ["restart-refused"] * 4
    work_off(pipeline, ROWS)
    assert (pipeline.restarts, pipeline.query) == (0, query)
    assert pipeline.output("once").count() == ROWS


def test_a_query_without_state_has_none_to_repartition(start):
    bolt = ft.Bolt("pass", lambda df: df, [ft.From("numbers")], pool=2)
    pipeline = start(ft.Topology("stateless", [ft.Spout("numbers", SOURCE)], [bolt]))
    wait_for(lambda: pipeline.reports, pipeline)
    with pytest.raises(ActionError, match="has no state"):
        pipeline.restart(Restart("more", state_partitions=5))


def test_the_state_store_of_the_checkpoint_counts_and_before_there_is_one_that_of_the_session(spark, tmp_path):
    checkpoint, sink = Checkpoint(tmp_path), ft.Parquet(str(tmp_path / "out"))
    assert "HDFSBackedStateStoreProvider" in repartition_obstacle(spark, str(tmp_path / "new"), sink)
    checkpoint.batch(0, 2)
    (tmp_path / "checkpoint" / "state" / "0").mkdir(parents=True)
    assert repartition_obstacle(spark, checkpoint.location, sink) is None
    assert repartition_obstacle(spark, checkpoint.location, ft.Console()) is None
    assert "ft.Parquet" in repartition_obstacle(spark, checkpoint.location, ft.Table("somewhere"))


# ---- what fails or is cut off is undone


@pytest.fixture
def stopped(spark, start, tmp_path):
    """A stateful query that was stopped between two batches, and its checkpoint."""
    pipeline = start(stateful(), trigger=None)
    assert pipeline.wait(600)
    assert rows_taken(pipeline) < ROWS
    return pipeline, tmp_path / "checkpoint"


def test_a_repartition_that_spark_refuses_leaves_the_checkpoint_as_it_was(spark, start, stopped):
    pipeline, checkpoint = stopped
    before = listed(checkpoint)
    with pytest.raises(ActionError, match="UNSUPPORTED_PROVIDER"):
        repartition_state(spark, str(checkpoint), pipeline.sink, 5)
    assert listed(checkpoint) == before


def test_a_repartition_that_was_cut_off_is_undone_at_the_next_start(spark, start, stopped, caplog):
    pipeline, checkpoint = stopped
    last = max(int(entry.name) for entry in (checkpoint / "offsets").iterdir())
    with pytest.raises(Exception, match="UNSUPPORTED_PROVIDER"):  # after Spark has written the batch
        spark._streamingCheckpointManager.repartition(str(checkpoint), 5)
    assert (checkpoint / "offsets" / str(last + 1)).exists()
    again = start(stateful())
    work_off(again, ROWS - rows_taken(pipeline))
    assert again.output("once").count() == ROWS
    assert f"batch {last + 1} was interrupted and has been undone" in caplog.text


class Checkpoint:
    """Files as Spark writes them."""

    def __init__(self, folder):
        self.folder, self.log = folder / "checkpoint", folder / "out" / "_spark_metadata"
        self.location = str(self.folder)

    def batch(self, number, partitions, *, committed=True, in_sink=True, interval=10):
        conf = {
            "spark.sql.shuffle.partitions": str(partitions),
            "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        }
        self.write(f"offsets/{number}", f"v1\n{json.dumps({'batchWatermarkMs': 0, 'conf': conf})}\n{number}")
        if committed:
            self.write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')
        if in_sink:
            self.log.mkdir(parents=True, exist_ok=True)
            name = f"{number}.compact" if (number + 1) % interval == 0 else str(number)
            (self.log / name).write_text(f"v1\n{file_entry(number)}")

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def file_entry(number):
    return json.dumps(
        {"path": f"file:///{number}", "size": 1, "isDir": False, "modificationTime": 1, "blockReplication": 1,
         "blockSize": 1, "action": "add"},
        separators=(",", ":"),
    )  # fmt: skip


def test_undoing_a_repartition_deletes_the_state_it_wrote_and_nothing_else(spark, tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.batch(2, 2)
    checkpoint.batch(3, 5, committed=False, in_sink=False)
    kept = [
        "state/0/0/3.zip", "state/0/0/3_a.changelog", "state/0/0/SSTs/000004-x.sst", "state/0/0/_metadata/schema",
        "state/0/_stateSchema/default/4_x", "state/0/_metadata/v2/2", "state/0/_metadata/metadata",
        "state/1/1/left-keyToNumValues/3.zip", "state/0/0/44.zip",
    ]  # fmt: skip
    gone = [
        "state/0/0/4.zip", "state/0/4/4.zip", "state/0/1/4_a.zip", "state/0/0/4.changelog", "state/0/_metadata/v2/3",
        "state/1/1/left-keyToNumValues/4.zip",
    ]  # fmt: skip
    for name in [*kept, *gone]:
        checkpoint.write(name)
    assert len(settle_repartition(spark, checkpoint.location, ft.Console())) == 1
    files = {str(path.relative_to(checkpoint.folder)) for path in checkpoint.folder.rglob("*") if path.is_file()}
    assert files == {*kept, "offsets/2", "commits/2"}
    assert settle_repartition(spark, checkpoint.location, ft.Console()) == []


def test_a_batch_that_was_cut_off_is_no_repartition_and_stays(spark, tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.batch(2, 2)
    checkpoint.batch(3, 2, committed=False, in_sink=False)
    assert settle_repartition(spark, checkpoint.location, ft.Parquet(str(tmp_path / "out"))) == []
    assert (checkpoint.folder / "offsets" / "3").exists()


# ---- what the sink was not told


@pytest.mark.parametrize("repartitioned", [3, 9])
@pytest.mark.parametrize("later", [0, 1])
def test_a_committed_repartition_gets_the_entry_that_the_sink_lacks(spark, tmp_path, repartitioned, later):
    checkpoint, sink = Checkpoint(tmp_path), ft.Parquet(str(tmp_path / "out"))
    for number in range(repartitioned):
        checkpoint.batch(number, 2)
    checkpoint.batch(repartitioned, 5, in_sink=False)
    for number in range(repartitioned + 1, repartitioned + 1 + later):
        checkpoint.batch(number, 5)  # a start that did not know
    assert len(settle_repartition(spark, checkpoint.location, sink)) == 1
    name = "9.compact" if repartitioned == 9 else "3"
    files = [file_entry(number) for number in range(9)] if repartitioned == 9 else []
    assert (checkpoint.log / name).read_text().splitlines() == ["v1", *files]
    assert settle_repartition(spark, checkpoint.location, sink) == []


def test_an_entry_that_the_sink_lacks_for_another_reason_is_not_made_up(spark, tmp_path):
    checkpoint, sink = Checkpoint(tmp_path), ft.Parquet(str(tmp_path / "out"))
    checkpoint.batch(0, 2)
    checkpoint.batch(1, 2, in_sink=False)
    checkpoint.batch(2, 2)
    assert settle_repartition(spark, checkpoint.location, sink) == []
    assert settle_repartition(spark, str(tmp_path / "new"), sink) == []
    assert sorted(path.name for path in checkpoint.log.iterdir()) == ["0", "2"]
