"""A real standalone master with workers on two hosts: control, lost and added executors, and `foretide run`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment
from standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("cluster_story.py")
REAL_TIME_STORY = Path(__file__).parents[2] / "spark" / "realtime" / "pipeline_story.py"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), cores=12, environment=environment()) as running:
        yield running


def run(*command):
    driver = {**environment(), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, *command], env=driver, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return done.stdout


def test_a_pipeline_under_control_on_two_hosts_loses_nothing_while_executors_come_and_go(cluster, tmp_path):
    story = json.loads(run(str(STORY), str(tmp_path), cluster.url).splitlines()[-1])
    assert story["hosts"] == ["127.0.0.1", "127.0.0.2"]
    assert story["split"] == [256, 768, 0]
    assert len(story["after_kill"]) == 1
    assert (story["fewer"], story["more"]) == (2, 3)
    assert story["drained"] == ["127.0.0.1"]
    assert story["released"] == ["127.0.0.1", "127.0.0.2"]
    assert story["complete"]  # each row once, from the first to the last that was read
    assert 0 <= story["rows"] - story["taken"] <= story["batch"]  # the last batch may be stopped before its report
    assert story["taken"] > 0
    assert (story["restarts"], story["alarms"]) == (0, [])
    assert [problem for problem in story["problems"] if "worse than the last value" not in problem] == []
    here, elsewhere = story["features"]["127.0.0.1"], story["features"]["127.0.0.2"]
    of_a_late_batch = {"worker_copied_tasks", "worker_running_slowness"}  # may be measured of one worker alone
    assert set(elsewhere) - of_a_late_batch < set(here)  # the story reads no process of the second host
    sizes = ("heap_bytes", "heap_capacity_bytes", "non_heap_bytes", "rss_bytes", "virtual_bytes")
    for size in sizes:  # both executors do the same, so a figure in other units would stand out
        assert 0.1 < elsewhere[f"worker_{size}"] / here[f"worker_{size}"] < 10, size
    assert {"worker_gc_ms_per_second", "worker_gc_per_second"} <= set(elsewhere)


def test_an_application_runs_on_the_cluster_and_its_output_is_exact(cluster, tmp_path):
    told = run(
        "-m", "foretide", "run", "url-count", "--master", cluster.url, "--duration", "4s", "--rate", "1000", "--json",
        "--output", str(tmp_path / "run"),
    )  # fmt: skip
    summary = json.loads(told[told.index("{") :])
    assert summary["rows_taken"] == summary["rows_handed_out"] >= 4000
    assert (summary["missing"], summary["surplus"], summary["restarts"]) == (0, 0, 0)


def test_an_application_runs_in_real_time_on_the_cluster_and_its_output_is_exact(cluster, broker, tmp_path):
    told = run(
        "-m", "foretide", "run", "url-count", "--mode", "real-time", "--servers", broker.address,
        "--master", cluster.url, "--duration", "10s", "--rate", "200", "--latency", "1s", "--json",
        "--output", str(tmp_path / "run"),
    )  # fmt: skip
    summary = json.loads(told[told.index("{") :])
    assert summary["rows_handed_out"] >= 2000
    assert (summary["missing"], summary["surplus"], summary["restarts"]) == (0, 0, 0)
    assert summary["latency_ms"]["p50"] > 0


def test_a_pipeline_in_real_time_on_two_hosts_loses_nothing_when_an_executor_is_killed(cluster, broker, tmp_path):
    story = json.loads(run(str(REAL_TIME_STORY), str(tmp_path), broker.address, cluster.url).splitlines()[-1])
    assert story["hosts"] == ["127.0.0.1", "127.0.0.2"]
    assert (story["acknowledged"], story["restarts_before"]) == (20, 0)
    assert story["tens"]
    assert story["marked"]
    assert story["letters"] == {"numbers": 2, "mark": 30}
    assert story["restarts"] >= 1
    assert story["running"]
    assert story["acknowledged_by_the_new_one"]
    assert len(story["cost"]) >= 1
