"""`foretide run` with a PySpark program, or a topology of one's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from typer.testing import CliRunner

import foretide.__main__
from foretide.cli.main import app
from foretide.cli.running.own_topology import find_topology, parse_sink, settings_for
from foretide.cli.running.script import run_as_main
from foretide.cli.settings import chosen_settings
from foretide.control_folder.folder import ControlFolder
from foretide.errors import PipelineNotFoundError, TopologyError
from foretide.topology.graph import Topology
from helpers import environment, wait_for

JOB = """
import sys, time
from pyspark.sql import SparkSession
import side

spark = SparkSession.builder.master("local[2]").appName("job").config("spark.locality.wait", "7s").getOrCreate()
conf = spark.sparkContext.getConf()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
query = rows.writeStream.format("noop").option("checkpointLocation", sys.argv[2]).start()
from foretide.control_folder.folder import ControlFolder
folder = ControlFolder(sys.argv[2] + "/foretide")
end = time.monotonic() + 300
while time.monotonic() < end and (folder.status.control() is None or not folder.status.control().cycles):
    time.sleep(0.1)
status = folder.status.control()
print("argv", sys.argv[1:], __name__, side.VALUE)
print("conf", conf.get("spark.locality.wait"), conf.get("spark.excludeOnFailure.application.enabled"))
print("loop", status.mode, status.policies, folder.status.facts().name)
query.stop()
sys.exit(7)
"""

TOPOLOGIES = """
import foretide as ft

work = ft.Bolt("work", ft.Native(lambda df: df), [ft.From("read")])
shop = ft.Topology("shop", [ft.Spout("read", ft.Rate(50))], [work])
broken = ft.Topology("broken", [], [])
number = 7

def made():
    return shop

def needy(rate):
    return shop
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "side.py").write_text("VALUE = 'beside'\n")
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "own_jobs.py").write_text(TOPOLOGIES)
    (tmp_path / "failing_jobs.py").write_text("1 / 0\n")
    yield tmp_path
    sys.modules.pop("own_jobs", None)


def python(*command, folder):
    env = {**environment(), "PYSPARK_PYTHON": sys.executable, "FORETIDE_HOME": str(folder / "home")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.spark
@pytest.mark.parametrize("submitted", [False, True], ids=["python", "spark-submit"])
def test_a_program_runs_as_it_is_and_its_queries_are_controlled(home, submitted):
    if submitted:
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        start = [str(submit), "--conf", "spark.excludeOnFailure.application.enabled=false", foretide.__main__.__file__]
    else:
        start = [sys.executable, "-m", "foretide"]
    options = ["--policy", "bypass", "--latency", "30s", "--summary", "end.json"]
    ran = python(*start, "run", *options, "job.py", "--json", str(home / "ck"), folder=home)
    assert ran.returncode == 7, ran.stderr
    assert f"argv ['--json', '{home}/ck'] __main__ beside" in ran.stdout
    assert f"conf 7s {'false' if submitted else 'true'}" in ran.stdout
    assert "loop advise ('bypass',) job-rate-micro-batch" in ran.stdout
    errors = ran.stdout if submitted else ran.stderr  # spark-submit sends both to its own stdout
    said = errors.partition("foretide: query 'job-rate-micro-batch'\n")[2].splitlines()
    assert said[0].startswith("  target p99 below 30 s: ")
    assert "  changes by the control loop: none" in said
    (told,) = json.loads((home / "end.json").read_text())["queries"]
    assert (told["query"], told["target"]["seconds"]) == ("job-rate-micro-batch", 30.0)
    assert told["control"]["account"][0] == "changes by the control loop: none"


@pytest.mark.spark
def test_a_topology_of_ones_own_is_run_until_it_is_stopped(home, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(home / "home"))
    command = [sys.executable, "-m", "foretide", "run", "own_jobs:made", "--latency", "30s", "--json"]
    options = ["--output", "out", "--sink", "json:out/rows"]
    with subprocess.Popen([*command, *options], cwd=home, env=environment(), stdout=-1, stderr=-1, text=True) as ran:
        status = ControlFolder(str(home / "out" / "checkpoint" / "foretide")).status
        wait_for(lambda: ran.poll() is not None or (status.control() is not None and status.pipeline() is not None))
        assert CliRunner().invoke(app, ["stop", "shop"]).exit_code == 0
        out, errors = ran.communicate(timeout=300)
    assert ran.returncode == 0, errors
    assert json.loads(out)["topology"] == "shop"
    assert json.loads(out)["rows"] > 0
    target, record = json.loads(out)["target"], json.loads(out)["control"]["record"]
    assert (target["quantile"], target["seconds"]) == ("p99", 30.0)
    assert (target["measured"], target["missed"]) == (record["measured"], record["missed"])
    assert json.loads(out)["control"]["account"][0].startswith("changes by the control loop: ")
    assert "target p99 below 30 s: " in errors
    assert list((home / "out" / "rows").rglob("*.json"))


# ---- without Spark


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("nowhere:x", "cannot import 'nowhere': there is no such module in "),
        ("own_jobs:missing", "'own_jobs:missing': module 'own_jobs' has no attribute 'missing'"),
        ("failing_jobs:x", "cannot import 'failing_jobs': ZeroDivisionError: division by zero"),
        ("own_jobs:number", "'own_jobs:number' is of type int; it must be a ft.Topology"),
        ("own_jobs:needy", "'own_jobs:needy' must be callable without arguments"),
    ],
)
def test_what_is_no_topology_is_refused_before_spark_starts(home, reference, said):
    with pytest.raises(PipelineNotFoundError) as refused:
        find_topology(reference)
    assert str(refused.value).startswith(said)
    shown = CliRunner().invoke(app, ["run", reference])
    assert shown.exit_code == 1
    assert said in shown.output


def test_a_topology_is_found_as_an_object_or_by_a_function(home):
    assert isinstance(find_topology("own_jobs:shop"), Topology)
    assert find_topology("own_jobs:made").name == "shop"
    with pytest.raises(TopologyError, match="broken"):
        find_topology("own_jobs:broken")


def test_sinks_are_named_by_kind_and_place(home):
    assert parse_sink("parquet:out").path == "out"
    assert parse_sink("table:clicks").name == "clicks"
    kafka = parse_sink("kafka:a:9092,b:9092/clicks-{stream}", {"kafka.security.protocol": "SSL"})
    assert (kafka.servers, kafka.topic_of("out")) == ("a:9092,b:9092", "clicks-out")
    assert kafka.options == {"kafka.security.protocol": "SSL"}
    for wrong in ("parquet", "orc:out", "json:", "kafka:a:9092", "kafka:/clicks", "kafka:a:9092/"):
        assert CliRunner().invoke(app, ["run", "own_jobs:shop", "--sink", wrong]).exit_code == 2


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--mode", "real-time"), 2, "real-time mode requires --sink kafka:SERVERS/TOPIC"),
        (("--set", "run.mode=real-time"), 2, "real-time mode requires --sink kafka:SERVERS/TOPIC"),
        (("--mode", "real-time", "--sink", "json:out"), 1, "real-time mode cannot write to Json"),
        (("--mode", "real-time", "--sink", "kafka:a:9092/out"), 1, "real-time mode cannot read Rate"),
        (("--client-config", "job.py"), 2, "--client-config requires --sink"),
        (("--sink", "json:out", "--client-config", "client.properties"), 2, "--client-config requires --sink"),
        (("--master", "here"), 2, "--master must be a master URL of Spark"),
    ],
)
def test_what_a_mode_cannot_do_is_refused_before_spark_starts(home, options, code, said):
    (home / "client.properties").write_text("security.protocol=SSL\n")
    shown = CliRunner().invoke(app, ["run", "own_jobs:shop", *options], env={"COLUMNS": "200"})
    assert shown.exit_code == code
    assert said in shown.output
    assert "Starting Spark" not in shown.output


@pytest.mark.parametrize(
    ("sets", "sink", "guarantee"),
    [
        ([], None, "exactly-once"),
        ([], "json:out", "exactly-once"),
        ([], "console", "at-least-once"),
        ([], "kafka:a:9092/out", "at-least-once"),
        (["run.mode=real-time"], "kafka:a:9092/out", "at-least-once"),
        (["run.guarantee=exactly-once"], "kafka:a:9092/out", "exactly-once"),
        (["run.guarantee=none", "run.mode=real-time"], "kafka:a:9092/out", "none"),
    ],
)
def test_the_guarantee_is_what_the_sink_can_give_unless_it_is_set(sets, sink, guarantee):
    found = settings_for(chosen_settings(sets=sets), None if sink is None else parse_sink(sink))
    assert found.guarantee == guarantee


def test_a_summary_that_cannot_be_written_is_refused_before_the_program_runs(home):
    shown = CliRunner().invoke(app, ["run", "--summary", "none/end.json", "job.py"])
    assert shown.exit_code == 2
    assert "the folder 'none' does not exist" in shown.output


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit('no rows')", 1, "no rows\n"),
        ("x = 1", 0, ""),
        ("raise OSError('gone')", 1, "OSError: gone\n"),
    ],
)
def test_the_end_of_a_program_is_its_own(tmp_path, capfd, text, code, said):
    script = tmp_path / "job.py"
    script.write_text(text)
    before = list(sys.argv), list(sys.path)
    assert run_as_main(script, ["a", "--b"]) == code
    assert (sys.argv, sys.path) == before
    shown = capfd.readouterr().err
    assert shown.endswith(said)
    assert "runpy" not in shown


def test_a_program_that_does_not_exist_is_wrong_usage(home):
    shown = CliRunner().invoke(app, ["run", "nowhere.py", "--any", "thing"])
    assert shown.exit_code == 2
    assert "there is no file 'nowhere.py'" in shown.output
    assert os.environ.get("PYSPARK_SUBMIT_ARGS") is None
