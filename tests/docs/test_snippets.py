"""Every block of Python in README and docs runs as it is written, in an empty folder, and leaves nothing running.

Those that cannot run here say in their first line what they need: `# needs a broker`. The guides and the pages on
planning, simulation and forecasting have tests of their own.
"""

import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from typer.testing import CliRunner

import foretide as ft
from docs.pages import ROOT, pages, run
from foretide.apps.experiment import is_over, replay_of
from foretide.cli.main import app
from foretide.runtime.pipeline.submit import Pipeline
from helpers import wait_for

OWN_TESTS = {"planning.md", "simulation.md", "forecasting.md"}
PAGES = pages(OWN_TESTS)
BLOCKS = [
    (f"{page.name}:{text[: found.start()].count(chr(10)) + 1}", found[1])
    for page in PAGES
    for text in [page.read_text(encoding="utf-8")]
    for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
]
RUNNABLE = [block for block in BLOCKS if not block[1].startswith("# needs ")]
MAX_WAIT_SECONDS = 3.0


def test_few_blocks_need_what_is_not_here():
    needs = [block.partition("\n")[0] for _, block in BLOCKS if block.startswith("# needs ")]
    assert set(needs) <= {"# needs a broker", "# needs a cluster"}
    assert len(needs) <= 6
    assert len(RUNNABLE) >= 12


def test_blocks_write_below_two_folders_only():
    paths = [path for _, block in RUNNABLE for path in re.findall(r'"([\w.-]+/[\w./-]*)"', block)]
    assert len(paths) > 10
    assert [path for path in paths if not path.startswith(("demo/", "jobs/"))] == []


def test_the_first_block_of_each_page_names_what_it_imports():
    assert [where for where, block in RUNNABLE if "ft." in block and "import foretide as ft" not in block] == []


@pytest.fixture
def example(spark, tmp_path, monkeypatch):
    """A namespace in an empty folder, in which examples wait for seconds at most and keep the session of the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(ft, "session", lambda *_, **__: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    await_termination, wait = StreamingQuery.awaitTermination, Pipeline.wait
    monkeypatch.setattr(
        StreamingQuery, "awaitTermination", lambda query, seconds: await_termination(query, MAX_WAIT_SECONDS)
    )

    def wait_less(pipeline, seconds):
        sources = [spout.source for spout in pipeline.topology.spouts]
        if all(isinstance(source, ft.Replay) and not source.paced for source in sources):  # it shows all rows
            wait_for(lambda: is_over(pipeline, replay_of(pipeline.topology)), pipeline)
        else:
            wait(pipeline, min(seconds, MAX_WAIT_SECONDS))

    monkeypatch.setattr(Pipeline, "wait", wait_less)
    yield {"__name__": "__main__"}  # as a script: its functions are sent to Spark by value
    left = spark.streams.active
    for query in left:
        query.stop()
    assert not left, "the example leaves a query running"


def script(block, folder):
    """The block with its folders below this one: Spark runs in another folder already."""
    return re.sub(r'"(demo|jobs)/', rf'"{folder}/\1/', block)


def test_the_route_of_the_edge_in_the_readme_is_set_and_released(example, tmp_path):
    (block,) = [block for where, block in RUNNABLE if where.startswith("README") and "ft.edge(" in block]
    run(script(block, tmp_path), example)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for command in ("route set work 3:0:0:1", "route release work"):
        words = f"{command} --control-folder demo/edge/foretide"
        assert words in readme
        result = CliRunner().invoke(app, words.split())
        assert result.exit_code == 0, result.output
        assert "work" in result.output


@pytest.mark.parametrize("block", [block for _, block in RUNNABLE], ids=[where for where, _ in RUNNABLE])
def test_a_block_runs_by_itself_and_ends_cleanly(example, block, capfd, tmp_path):
    run(script(block, tmp_path), example)
    assert "\tat org.apache.spark" not in capfd.readouterr().err
