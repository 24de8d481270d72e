"""A short campaign over real processes, and the comparison that it rests on."""

import json
import subprocess
import sys

import pytest

from foretide.soak.comparison import compare
from foretide.soak.outcome import Comparison
from foretide.soak.schedule import KILLS, Schedule, draw
from helpers import environment

SEED, SECONDS = 3, 40.0
MIX = {
    **dict.fromkeys(sorted(KILLS), 3.0),
    "stop-executor": 2.0,
    "lock-store": 1.0,
    "damage-routes": 1.0,
    "split": 30.0,
    "replicas": 8.0,
    "drain": 1.0,
    "malformed-rows": 3.0,
}


def frame(spark, rows):
    return spark.createDataFrame(rows, "stream string, row long")


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ([("a", 1), ("a", 1), ("b", 2)], (0, 0, 0)),
        ([("a", 1), ("b", 2)], (1, 0, 0)),
        ([("a", 1), ("a", 1), ("a", 1), ("b", 2), ("b", 2), ("b", 2)], (0, 3, 0)),
        ([("a", 1), ("a", 1), ("b", 3), ("b", 3)], (1, 0, 2)),
    ],
)
def test_each_row_that_is_lost_doubled_or_foreign_is_counted(spark, got, expected):
    found = compare(frame(spark, [("a", 1), ("a", 1), ("b", 2)]), frame(spark, got))
    assert (found.lost, found.doubled, found.foreign) == expected
    assert found.rows == {"a": 2, "b": 1}
    assert found.exact == (not found.examples) == (expected == (0, 0, 0))


@pytest.mark.spark
@pytest.mark.apart
def test_a_pipeline_that_is_killed_and_changed_at_random_loses_and_doubles_no_row(tmp_path):
    schedule = tmp_path / "schedule.json"
    schedule.write_text(draw(SEED, SECONDS, MIX).to_json())
    command = [sys.executable, "-m", "foretide", "soak", "--minutes", str(SECONDS / 60), "--rows", "5000", "--json",
               "--replay", str(schedule), "--output", str(tmp_path / "out")]  # fmt: skip
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    log = tmp_path / "out" / "campaign" / "application.log"
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-2000:], log.exists() and log.read_text()[-3000:])
    told = json.loads(done.stdout)
    assert told["kills"] >= 1
    assert told["done"]["split"] >= 1
    assert told["comparison"]["rows"].keys() == {"work", "count", "parse.checked", "parse.malformed"}
    assert Comparison(**told["comparison"]).exact
    assert Schedule.from_json((tmp_path / "out" / "schedule.json").read_bytes()) == draw(SEED, SECONDS, MIX)
