"""Every command in a console block of README and docs runs as it is written, or another test is named that runs it."""

import os
import re
import shlex
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import foretide as ft
from docs.pages import ROOT, pages
from foretide.apps.app import Load, find_app
from foretide.cli import metrics
from foretide.cli.main import app
from foretide.status.pipelines import Running, announce, list_running, withdraw
from helpers import wait_for

OWN_TESTS = {"planning.md", "simulation.md", "forecasting.md", "dashboard.md"}  # test_model_pages, test_dashboard
PAGES = pages(OWN_TESTS)

BESIDE = [
    ".venv/bin/foretide status demo-url-count",
    ".venv/bin/foretide route show demo-url-count",
    ".venv/bin/foretide route set extract 1:1:0 demo-url-count",
    ".venv/bin/foretide route release extract demo-url-count",
    "foretide list",
    "foretide status",
    "foretide decisions",
    "foretide advice",
    "foretide target show",
    "foretide target set --latency 3s",
    "foretide target release",
    "foretide replay --policy bypass --policy processors --latency 2s",
    "foretide metrics",
    "foretide metrics --follow",
    "foretide report url-count",
    "foretide report url-count --since 10m --output last.html",
    "foretide report url-count --json",
    "foretide metrics --level worker",
    "foretide metrics --json",
    "foretide metrics --export all.parquet",
    "foretide metrics --export workers.parquet --level worker --step 5s",
    "foretide route set extract 4:3:1",
    "foretide route show",
    "foretide replay --policy bypass --policy replicas --set replicas.target_utilization=0.7 --set guards.cooldown=2m",
]
WHOLE_LINES = {"--json", "set", "status", "list", "advice", "target", "release"}
"""Words of commands that print sentences and addresses whole, so that they can be copied."""

LONG_FLAGS = "FORETIDE_GUARDS__COOLDOWN=20 foretide settings --set replicas.target_utilization=0.7"
ALONE = [
    "foretide doctor",
    f"{LONG_FLAGS} --policy bypass --policy replicas",
]
ELSEWHERE = {
    "make run": "tests/cli/test_kafka_processes.py",
    "make test": "scripts/test.sh",
    "pip install .": "tests/test_distribution.py",
    "pip install '.[kafka,plot,postgres]'": "tests/test_distribution.py",
    "foretide route set work 3:0:0:1 --control-folder demo/edge/foretide": "tests/docs/test_readme_example.py",
    "foretide run url-count --master spark://master:7077 --output /shared/run":
        "tests/runtime/loop/test_cluster_story.py",
    "spark-submit --master spark://master:7077": "tests/runtime/loop/test_cluster_story.py",
    "foretide bench --list": "tests/cli/test_bench.py",
    "foretide bench --quick": "tests/cli/test_bench.py",
    "foretide bench drs-overhead --quick": "tests/cli/test_bench.py",
    "foretide bench pa-sps": "tests/cli/test_bench.py",
    "make experiments": "tests/cli/test_bench.py",
    "foretide run nexmark-q5": "tests/apps/test_nexmark.py",
    "foretide run nexmark-q11 --latency 2s": "tests/apps/test_nexmark.py",
    "foretide drain host-7": "tests/cli/test_operate_commands.py",
    "foretide drain host-7 --release": "tests/cli/test_operate_commands.py",
    "foretide run --latency 2s my_job.py --date 2026-11-18": "tests/cli/test_run_own.py",
    "foretide run --act --policy bypass --policy processors my_job.py": "tests/cli/test_run_own.py",
    "spark-submit --master yarn": "tests/cli/test_run_own.py",
    "foretide kafka start": "tests/cli/test_kafka.py",
    "foretide kafka topics words loud-upper": "tests/cli/test_kafka.py",
    "foretide kafka topics --servers host:9092": "tests/cli/test_kafka.py",
    "foretide kafka stop": "tests/cli/test_kafka.py",
    "foretide admission set in 5000 --restart": "tests/spark/test_kafka.py",
    "foretide run url-count --kafka": "tests/cli/test_kafka_processes.py",
    "foretide run url-count --servers localhost:9092": "tests/cli/test_kafka_processes.py",
    "foretide run url-count --mode real-time": "tests/cli/test_kafka_processes.py",
    "foretide run url-count --mode real-time --servers localhost:9092": "tests/cli/test_kafka_processes.py",
    "foretide run my_module:topology --sink kafka:localhost:9092/loud-{stream}": "tests/cli/test_kafka_processes.py",
    "foretide run my_module:topology --mode real-time --sink kafka:localhost:9092/loud-{stream}":
        "tests/cli/test_kafka_processes.py",
}  # fmt: skip
"""Commands that start Spark, brokers or an installation of their own, and the tests that do what they do."""


def commands_of(page):
    """The lines of a page's console blocks that are typed, without comments and prompts."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```(?:console|sh)\n(.*?)```", text, re.DOTALL):
        lines = block.replace("\\\n", "").splitlines()
        typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] if "$ " in block[:2] else lines
        for line in filter(None, typed):
            yield re.split(r"  +#|  --conf", line)[0].split(' "$(')[0].strip()


def test_each_command_is_run_by_a_test():
    written = [command for page in PAGES for command in commands_of(page)]
    assert sorted(set(written)) == sorted({*BESIDE, *ALONE, *ELSEWHERE})
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).exists()] == []


def call(command):
    words = shlex.split(command)
    variables = dict(word.split("=", 1) for word in words[: next(i for i, word in enumerate(words) if "=" not in word)])
    given = words[len(variables) + 1 :]
    result = CliRunner().invoke(app, given, env={"COLUMNS": "80", **variables})
    assert result.exit_code == 0, (command, result.output, result.exception)
    return result.output


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", ALONE)
@pytest.mark.usefixtures("empty_folder")
def test_a_command_that_needs_no_pipeline_runs(command):
    assert call(command).strip()


@contextmanager
def also_called(name):
    """The pipeline that runs, under the name of the one in the demonstration."""
    (running,) = list_running()
    known = Running(running.name, running.pid, running.control_folder, running.store)
    withdraw(known)
    announce(Running(name, os.getpid(), known.control_folder, known.store))
    yield
    withdraw(Running(name, os.getpid(), known.control_folder, known.store))
    announce(known)


@pytest.mark.usefixtures("empty_folder")
def test_commands_run_beside_a_pipeline(spark, tmp_path, monkeypatch):
    """As beside `foretide run url-count` and `make run` in another terminal."""
    topology = find_app("url-count").build(Load(seconds=600, rate=500))
    sink, settings = ft.Parquet(str(tmp_path / "out")), ft.RunSettings(trigger="1 second")
    pipeline = ft.submit(spark, topology, sink, str(tmp_path / "checkpoint"), settings)
    try:
        controller = ft.control(pipeline, ["replicas"], ft.Latency(p99="30s"), settings=ft.Settings())
        wait_for(lambda: len(controller.decisions) >= 3 and len(pipeline.reports) >= 3, pipeline)
        wait_for(lambda: "nothing has been measured" not in call("foretide metrics"), pipeline)
        wait_for(lambda: "worker" in call("foretide metrics --json"), pipeline)
        monkeypatch.setattr(metrics, "time", Interrupted(metrics.time))
        for command in BESIDE:
            name = "demo-url-count" if command.endswith("demo-url-count") else None
            with also_called(name) if name else monkeypatch.context():
                said = call(command)
            assert max(map(len, said.splitlines())) <= 80 or WHOLE_LINES & {*command.split()}, said
        said = call("foretide route set extract 4:3:1")
        assert "extract is split 50.0% : 37.5% : 12.5% from the next batch on" in said
    finally:
        pipeline.stop()


class Interrupted:
    """The module `time`, whose `sleep` ends as Ctrl-C would."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        return getattr(self._module, name)

    def sleep(self, _):
        raise KeyboardInterrupt
