"""`foretide run` and `foretide demo`: what is refused before Spark starts, and when a control loop is attached.

Spark itself is replaced by a stub here; `test_run_processes.py` starts the real commands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from typer.main import get_command
from typer.testing import CliRunner

from foretide.apps.taxi_join_demo import JoinOutcome
from foretide.cli.main import app
from foretide.cli.running import application, demo, demo_join, preflight
from foretide.cli.running.preflight import only_run, run_folder
from foretide.cli.running.run import driver_command, wanted_target
from foretide.cli.running.run_app import SayDecisions
from foretide.cli.settings import chosen_settings
from foretide.control.actions.registry import SetAdmission
from foretide.control.decisions.decision import Decision, Intervention
from foretide.control.world.setup import Target
from foretide.errors import ControlFolderError, PipelineNotFoundError
from foretide.runtime.driver_supervisor import CRASHED
from foretide.status.pipelines import Running, announce, find_running, list_starting, withdraw
from helpers import environment


class SparkStartedError(Exception):
    """Spark would have been started."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch, tmp_path):
    def start(*_, **__):
        raise SparkStartedError

    monkeypatch.setattr(application, "session", start)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # Typer puts its own there
    monkeypatch.chdir(tmp_path)


def refused(capsys, *arguments):
    """What a command says that ends before Spark is started."""
    with pytest.raises(SystemExit) as ended:
        app(arguments)
    assert ended.value.code in {1, 2}
    said = capsys.readouterr()
    assert said.out == ""
    assert "Starting Spark" not in said.err
    assert "Traceback" not in said.err
    return " ".join(said.err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--duration", "inf"), "'inf' is not a duration"),
        (("run", "--duration", "1e12"), "--duration must be between 1 and 86,400 s, got 1e+12"),
        (("run", "--duration", "0.5"), "--duration must be between 1 and 86,400 s, got 0.5"),
        (("run", "--rate", "inf"), "--rate must be between 1 and 1,000,000 rows per second, got inf"),
        (("run", "--rate", "nan"), "--rate must be between 1 and 1,000,000 rows per second, got nan"),
        (("run", "--rate", "0"), "--rate must be between 1 and 1,000,000 rows per second, got 0"),
        (("run", "--rate", "20000", "--duration", "1d"), "gives 1,728,000,000 rows; at most 100,000,000 can be"),
        (("demo", "url-count", "--duration", "1e12"), "--duration must be between 20 and 86,400 s, got 1e+12"),
        (("demo", "url-count", "--duration", "19s"), "--duration must be between 20 and 86,400 s, got 19"),
        (("demo", "url-count", "--rate", "inf"), "--rate must be between 100 and 1,000,000 rows per second, got inf"),
        (("demo", "url-count", "--plot", "nowhere/x.png"), "the folder 'nowhere' does not exist"),
        (("demo", "url-count", "--report", "nowhere/x.html"), "the folder 'nowhere' does not exist"),
        (("demo", "url-count", "--plot", "x.doc"), "must end in .png or .svg"),
        (("demo", "url-count", "--plot", "."), "must end in .png or .svg"),
        (("demo", "join", "--duration", "1e12"), "--duration must be between 10 and 86,400 s, got 1e+12"),
        (("demo", "join", "--orders", "1e308"), "--orders must be between 1 and 1,000,000 a second, got 1e+308"),
        (("demo", "join", "--zipf", "nan"), "--zipf must be between 0 and 3, got nan"),
        (("demo", "join", "--partitions", "100000000"), "--partitions must be between 2 and 1,000, got 100,000,000"),
        (("run", "--plot", "nowhere/x.png"), "the folder 'nowhere' does not exist"),
        (("run", "--plot", "x.jpg"), "must end in .png or .svg"),
        (("run", "--set", "monitoring.store=mysql://x"), "monitoring.store: 'mysql://' is not supported"),
        (("run", "--set", "monitoring.store=postgresql://[::1"), "monitoring.store"),
        (("run", "--set", "monitoring.store=."), "monitoring.store: cannot write to '.': it is a folder"),
        (("run", "--ratio", "1:2"), "2 weights for a pool of 3"),
        (("run", "--output", "a-file"), "--output: cannot write to 'a-file': it is a file"),
        (("run", "--output", "a-file/below"), "--output: cannot write to 'a-file/below': Not a directory"),
        (("run", "--output", "/proc/foretide"), "--output: cannot write to '/proc/foretide'"),
        (("run", "--output", "x" * 300), "File name too long"),
        (("run", "--set", "run.monitoring=false", "--latency", "1s"), "the control loop rests on what is measured"),
        (("run", "--max-restarts", "3"), "--max-restarts requires --supervise"),
        (("run", "continuous-queries", "--kafka"), "'continuous-queries' has no form for Kafka and real-time mode"),
        (("run", "--kafka", "--supervise"), "--supervise requires the replayed load"),
        (("run", "--kafka", "--client-config", "x"), "--client-config requires --servers"),
        (("run", "--servers", "127.0.0.1:9", "--client-config", "x"), "No such file or directory"),
        (("run", "--servers", "127.0.0.1:9"), "the Kafka broker at 127.0.0.1:9 does not answer"),
        (("run", "--mode", "real-time", "--servers", "here"), "'here' is no address of a Kafka broker"),
        (("run", "--mode", "real-time", "--servers", "127.0.0.1:9"), "the Kafka broker at 127.0.0.1:9 does not answer"),
        (("run", "--output", "full"), "--output: 'full' is not empty"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_spark_starts(arguments, said, capsys):
    Path("a-file").touch()
    Path("full/of").mkdir(parents=True)
    assert said in refused(capsys, *arguments)


@pytest.mark.parametrize("command", [("run",), ("demo", "join")])
@pytest.mark.parametrize("master", ["nonsense", "", "local[0]", "local[x]", "local[2", "spark://", "local[2]\udcff"])
def test_what_is_no_master_of_spark_is_refused_before_it_starts(command, master, capsys):
    said = refused(capsys, *command, f"--master={master}")
    assert "--master must be a master URL of Spark, such as local[2]" in said
    assert said.isprintable()


@pytest.mark.parametrize(
    "master",
    [
        "local", "local[*]", "local[2]", "local[2,3]", "local[*, 3]", "local-cluster[2,1,1024]", "yarn",
        "spark://host:7077", "spark://a:7077,b.example:7078", "k8s://https://host:443", "k8s://host:443",
    ],
)  # fmt: skip
def test_masters_of_spark_are_accepted(master):
    preflight.check_master(master)


@pytest.mark.parametrize("command", [("run",), ("demo", "join"), ("demo", "url-count")])
def test_a_home_that_is_a_file_or_too_long_is_refused_before_spark_starts(command, capsys, monkeypatch):
    Path("home").touch()
    monkeypatch.setenv("FORETIDE_HOME", "home")
    assert "set FORETIDE_HOME to another folder" in refused(capsys, *command)
    monkeypatch.setenv("FORETIDE_HOME", "/tmp/" + "x" * 5000)
    said = refused(capsys, *command)
    assert "File name too long" in said
    assert len(said) < 400


@pytest.mark.parametrize("command", [("run",), ("run", "--output", "out"), ("demo", "join"), ("demo", "url-count")])
def test_a_temporary_folder_that_cannot_be_written_is_refused_before_spark_starts(command, capsys, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(Path("missing").absolute()))
    assert "set TMPDIR to a folder that can be written" in refused(capsys, *command)


def test_a_refused_run_leaves_no_temporary_folder(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    refused(capsys, "run", "--ratio", "1:2")
    assert not list((tmp_path / "tmp").iterdir())


def test_where_the_connector_cannot_be_had_the_demonstration_shows_micro_batches(capsys, monkeypatch):
    monkeypatch.setattr(demo, "check_connector", lambda: "Spark's Kafka connector is not in /jars")
    with pytest.raises(SystemExit):
        app(["demo", "url-count"])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Real-time mode cannot be shown: Spark's Kafka connector is not in /jars"
    assert said[1] == "Micro-batch mode is shown instead."
    assert said[2] == "Starting Spark on local-cluster[2,1,1024] ..."


def test_sound_options_start_spark_and_its_failure_is_one_sentence(capsys, monkeypatch):
    def fail(*_, **__):
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(application, "session", fail)
    with pytest.raises(SystemExit) as ended:
        app(["run", "--duration", "1m", "--output", "out"])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert "Starting Spark on local[2]" in said.out
    assert "Spark did not start on 'local[2]'" in said.err
    assert "out/spark.log" in said.err.replace("\n", "")


# ---- the control loop


@pytest.mark.parametrize(
    ("settings", "latency", "target"),
    [
        ({}, None, None),
        ({"sets": ["run.revive=2"]}, None, None),
        ({}, 1.0, Target(1.0)),
        ({"sets": ["target.latency=2s"]}, None, Target(2.0)),
        ({"sets": ["target.latency=2s", "target.quantile=p50", "target.budget=3"]}, 1.0, Target(1.0, budget=3)),
        ({"sets": ["control.mode=advise"]}, None, Target()),
        ({"policies": ["bypass"]}, None, Target()),
    ],
)
def test_a_control_loop_is_attached_whenever_a_policy_or_a_target_is_asked_for(settings, latency, target):
    assert wanted_target(chosen_settings(**settings), latency) == target


def test_the_environment_and_the_settings_file_ask_for_a_control_loop_too(monkeypatch):
    Path("foretide.toml").write_text('[control]\npolicies = ["bypass"]\n', encoding="utf-8")
    assert wanted_target(chosen_settings(), None) == Target()
    Path("foretide.toml").unlink()
    monkeypatch.setenv("FORETIDE_TARGET__LATENCY", "3s")
    assert wanted_target(chosen_settings(), None) == Target(3.0)


def test_the_latency_of_a_run_weighs_each_batch_by_its_rows():
    assert application.weighted_quantile([], "p99") is None
    assert application.weighted_quantile([([1.0] * 10, 990), ([50.0], 10)], "p99") == 1.0
    assert application.weighted_quantile([([1.0] * 10, 989), ([50.0], 11)], "p99") == 50.0
    assert application.weighted_quantile([([1.0, 2.0, 3.0], 3)], "p50") == 2.0


# ---- one run of each name


def test_a_second_run_of_an_application_is_refused_and_the_first_goes_on(capsys):
    with only_run("url-count") as tell:
        tell(Path("/data/checkpoint/foretide"))
        said = refused(capsys, "run", "url-count")
        assert f"'url-count' is already running (process {os.getpid()}, control folder '/data/checkpoint/fore" in said
        assert "`foretide stop --app url-count`" in said
        with only_run("word-count"):
            pass
    with only_run("url-count"):
        pass


def test_a_pipeline_of_that_name_in_the_registry_is_refused_too(capsys):
    parent = os.getppid()
    announce(Running("url-count", parent, "/data/foretide"))
    assert f"(process {parent}, control folder '/data/foretide')" in refused(capsys, "run")


def test_a_process_that_was_killed_does_not_count_as_running():
    lines = ("import time", "from foretide.cli.running.preflight import only_run", "with only_run('a'):")
    code = "\n".join([*lines, "    print('in')", "    time.sleep(600)"])
    preflight.check_home()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment()) as other:
        assert other.stdout.readline() == b"in\n"
        with pytest.raises(ControlFolderError, match="already running"), only_run("a"):
            pass
        other.kill()
        other.wait()
        with only_run("a"):
            pass


# ---- folders


def test_the_folder_of_a_demonstration_is_private_and_removed():
    with run_folder("demo") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "spark.log").write_text("fine", encoding="utf-8")
    assert not folder.exists()


def test_the_log_of_spark_is_kept_in_a_private_folder_when_a_demonstration_fails(capsys):
    with pytest.raises(ZeroDivisionError), run_folder("demo") as folder:
        (folder / "spark.log").write_text("cause", encoding="utf-8")
        (folder / "output").mkdir()
        1 / 0  # noqa: B018
    kept = Path(capsys.readouterr().err.partition("Spark's log: ")[2].strip())
    assert kept.read_text(encoding="utf-8") == "cause"
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


# ---- the driver of a supervisor


def test_a_supervisor_starts_the_same_command_in_a_fixed_folder():
    run = get_command(app).commands["run"].load()
    arguments = [
        "word-count", "--duration", "1m", "--rate", "50", "--policy", "bypass", "--policy", "replicas",
        "--set", "run.revive=2", "--latency", "2s", "--ratio=-1:2", "--plot", "x.png", "--json", "--supervise",
    ]  # fmt: skip
    command = driver_command(run.make_context("run", [*arguments]), Path("/data/run"))
    assert command[:5] == [sys.executable, "-m", "foretide", "run", "word-count"]
    again = run.make_context("run", command[4:]).params
    expected = {**run.make_context("run", [*arguments]).params, "output": Path("/data/run")}
    assert again == {**expected, "supervise": False, "supervised": True}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("ConnectionRefusedError('the JVM is gone')", CRASHED),
        ("errors.PipelineFailedError('shop', 3, 'out of memory')", CRASHED),
        ("errors.ControlFolderError('not empty')", 1),
    ],
)
def test_a_supervised_driver_that_crashes_ends_with_a_code_of_its_own(error, code, tmp_path):
    program = f"""
from pathlib import Path
from foretide import errors
from foretide.cli.running import run
with run._crashes(Path({str(tmp_path / "spark.log")!r})):
    raise {error}
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == code
    assert error.split("'")[-2] in done.stderr
    assert ("Traceback" in done.stderr) == (code == 1)


def test_a_supervisor_loads_no_spark(tmp_path):
    fake = tmp_path / "driver.py"
    fake.write_text("import json, sys; print(json.dumps(sys.argv[1:]))", encoding="utf-8")
    code = f"""
import sys
from foretide.cli.running import run
run.driver_command = lambda context, folder: [sys.executable, {str(fake)!r}, str(folder)]
from foretide.cli.main import app
try:
    app(["run", "--supervise", "--output", {str(tmp_path / "out")!r}])
except SystemExit as ended:
    assert not ended.code, ended.code
print("pyspark" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    started, loaded = done.stdout.splitlines()
    assert json.loads(started) == [str(tmp_path / "out")]
    assert loaded == "False"


# ---- the join


@contextmanager
def stub_session(*_):
    yield None


@pytest.mark.parametrize("as_json", [False, True])
def test_the_demonstration_of_a_join_explains_its_figure_and_reports_what_was_measured(monkeypatch, as_json):
    loads = (0.3, 0.3, 0.4), (0.8, 0.1, 0.1)
    found = JoinOutcome([(10.0, 2.65), (20.0, 2.5), (30.0, 2.49)], ["2 hot cells placed"], 700, ("17", "4"), *loads)
    asked = []

    def run(spark, city, place, say):
        asked.append((city.seconds, city.orders, place.is_dir()))
        say("10 s: LI 2.65")
        return found

    monkeypatch.setattr(demo_join, "run_join", run)
    monkeypatch.setattr(demo_join, "spark_session", stub_session)
    result = CliRunner().invoke(app, ["demo", "join", "--duration", "30s", *(["--json"] if as_json else [])])
    assert (result.exit_code, asked) == (0, [(30.0, 400.0, True)])
    lines = (result.stderr if as_json else result.stdout).splitlines()
    assert lines[0].startswith("LI is the load imbalance of the partitions: how much more than the average")
    assert lines[1] == "10 s: LI 2.65"
    if as_json:
        assert json.loads(result.stdout) == {
            "imbalance": [[10.0, 2.65], [20.0, 2.5], [30.0, 2.49]], "decisions": ["2 hot cells placed"], "rows": 700,
            "placed": ["17", "4"], "loads": [0.3, 0.3, 0.4], "hash_loads": [0.8, 0.1, 0.1],
        }  # fmt: skip
    else:
        assert lines[2].startswith("Load of each partition for the same rows")
        assert lines[3].endswith("80%   10%   10%   LI 1.40")
        assert lines[4].endswith("LI 0.20   (placed: cells 17, 4)")
        assert lines[5:] == [found.conclusion(), "plot: foretide-join.png"]
        assert "LI of the rows was 2.65 at first and 2.49 at the end, with 1 change" in lines[5]
    assert Path("foretide-join.png").read_bytes().startswith(b"\x89PNG")


def test_foretides_own_folder_is_created_for_its_owner_only(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "new" / "home"))
    preflight.check_home()
    with only_run("a"):
        home = tmp_path / "new" / "home"
        paths = (home, home / "running", home / "running" / "a.lock")
        assert [path.stat().st_mode & 0o777 for path in paths] == [0o700, 0o700, 0o600]


def test_what_is_starting_or_ending_is_said():
    assert "no pipeline runs on this machine\n" in CliRunner().invoke(app, ["list"]).output
    with only_run("url-count") as tell:
        tell(Path("folder"))
        words = "url-count is starting or ending: try again in a moment"
        assert f"no pipeline runs on this machine; {words}\n" in CliRunner().invoke(app, ["list"]).output
        announce(Running("warm-up", os.getpid(), "elsewhere"))
        with pytest.raises(PipelineNotFoundError, match=f"'url-count' runs on this machine; {words}. Running: warm-up"):
            find_running("url-count")
        announce(Running("url-count", os.getpid(), "folder"))
        assert list_starting() == []
        assert find_running("url-count").control_folder == "folder"
        withdraw(Running("url-count", os.getpid(), "folder"))
    assert list_starting() == []


def test_a_deeply_nested_note_of_who_runs_is_taken_for_damaged():
    with only_run("a"):
        (Path(os.environ["FORETIDE_HOME"]) / "running" / "a.lock").write_text("[" * 100_000)
        with pytest.raises(ControlFolderError, match="'a' is already running; stop it"), only_run("a"):
            pass


def test_what_a_guard_stops_again_and_again_is_said_once():
    def stopped(number, spout):
        wish = SetAdmission(spout, 100.0 + number)
        return Decision(number, 0.0, "q", guards=(Intervention("unobserved", "processors", wish, None, "not yet"),))

    said = []
    say = SayDecisions(said.append)
    for decision in [stopped(1, "a"), stopped(2, "a"), stopped(3, "b"), Decision(4, 0.0, "q"), stopped(5, "b")]:
        say(decision)
    assert [line.split(":")[0] for line in said] == ["decision 1", "decision 3", "decision 4", "decision 5"]
