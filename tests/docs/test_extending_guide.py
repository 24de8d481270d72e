"""The code of the guide to extending Foretide runs as it is written there."""

import re
import sys
from types import ModuleType
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from docs.pages import ROOT, blocks_by_file, registry_entry, run
from foretide.cli import main
from foretide.control_folder.folder import ControlFolder, PipelineStatus
from foretide.probes import machine as local_machine
from foretide.spark import sinks
from foretide.spark.sources import registry as sources
from foretide.spark.sources.port import LoadContext

BLOCKS = blocks_by_file("extending.md")


@pytest.fixture
def names(monkeypatch):
    """A namespace that dataclasses and pytest take for a module's."""
    module = ModuleType("extending_guide")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return vars(module)


@pytest.mark.parametrize("path", BLOCKS)
def test_files_that_the_guide_names_exist_or_have_a_place(path):
    assert (ROOT / path.partition(",")[0]).parent.is_dir()
    added_to = re.match(r"# \S+, in (\w+)", BLOCKS[path])
    if added_to:
        assert re.search(
            rf"^{added_to[1]}\b.* = {{", (ROOT / path.partition(",")[0]).read_text(encoding="utf-8"), re.MULTILINE
        )


def test_the_metric_is_measured_from_two_readings(names):
    run(BLOCKS["src/foretide/metrics/machine_metrics.py"], names)
    run(BLOCKS["tests/metrics/test_counters.py"], names)


def test_the_counter_of_the_metric_is_one_that_the_probe_reads(tmp_path, names):
    run(BLOCKS["src/foretide/metrics/machine_metrics.py"], names)
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "snmp").write_text("Icmp: InMsgs InErrors\nIcmp: 9 3\n", encoding="ascii")
    assert local_machine._sockets(tmp_path)[names["ICMP_ERRORS"].key] == 3


@pytest.fixture
def fixed_batches(names, monkeypatch):
    run(BLOCKS["src/foretide/topology/sources.py"], names)
    run(BLOCKS["src/foretide/spark/sources/fixed_batches.py"], names)
    added = registry_entry(BLOCKS["src/foretide/spark/sources/registry.py, in PORTS"], names)
    monkeypatch.setattr(sources, "PORTS", {**sources.PORTS, **added})
    return names["FixedBatches"]


def test_the_source_is_loaded_and_validated(fixed_batches):
    spark = MagicMock()
    sources.source_port(fixed_batches(5)).load(LoadContext(spark, "numbers", None))
    spark.readStream.format.assert_called_once_with("rate-micro-batch")
    spark.readStream.format().option.assert_called_once_with("rowsPerBatch", 5)
    assert list(fixed_batches(5).problems()) == []
    assert list(fixed_batches(0).problems()) == [("rows_per_batch is 0", "Use 1 or more")]


def test_the_source_counts_its_rows_and_leaves_other_offsets_alone(fixed_batches):
    first, second = {"offset": 5, "timestamp": 1000}, {"offset": 15, "timestamp": 3000}
    assert sources.source_range({}, first, {}, 5).rows == 5
    assert sources.source_range(first, second, {}, 10).rows == 10
    assert sources.source_range({"row": 40}, {"row": 100}, {}, 60).rows == 60
    assert sources.source_range({"logOffset": 1}, {"logOffset": 2}, {}, 60).rows is None


def test_the_sink_starts_the_query(names, monkeypatch):
    run(BLOCKS["src/foretide/topology/sinks.py"], names)
    run(BLOCKS["src/foretide/spark/sinks.py"], names)
    added = registry_entry(BLOCKS["src/foretide/spark/sinks.py, in PORTS"], names)
    monkeypatch.setattr(sinks, "PORTS", {**sinks.PORTS, **added})
    writer = MagicMock()
    assert sinks.sink_port(names["Discard"]()).start(writer) is writer.start.return_value
    assert not names["Discard"].transactional


def test_the_settings_refuse_what_is_out_of_bounds(names):
    run(BLOCKS["src/foretide/settings/sampling.py"], names)
    run(BLOCKS["tests/settings/test_sampling.py"], names)
    assert names["SamplingSettings"](share=1, min_rows=0, max_rows=0).every == 60


@pytest.fixture
def alarms(tmp_path, monkeypatch):
    """The command of the guide, as part of the command line."""
    module = ModuleType("foretide.cli.alarms")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    run(BLOCKS["src/foretide/cli/alarms.py"], vars(module))
    added = registry_entry(BLOCKS["src/foretide/cli/main.py, in _COMMANDS"], {})
    monkeypatch.setattr(main, "_COMMANDS", {**main._COMMANDS, **added})
    folder = ControlFolder(str(tmp_path / "control"))
    folder.change_routes(lambda table: table.declare("work", pool=2))

    def call(*arguments):
        return CliRunner().invoke(main.app, ["alarms", "--control-folder", folder.location, *arguments])

    return folder, call


def test_the_command_shows_alarms_as_text_and_as_json(alarms):
    folder, call = alarms
    assert call().stdout == "no alarms\n"
    folder.status.write(PipelineStatus(7, 100.0, 1234, 3, alarms=("a row was lost",)))
    assert call().stdout == "a row was lost\n"
    assert call("--json").stdout == '["a row was lost"]\n'


def test_the_command_is_listed_and_documented(alarms):
    _, call = alarms
    assert "Show the alarms of the last batch." in CliRunner().invoke(main.app, ["--help"]).stdout
    assert "Show the alarms of the last batch." in call("--help").stdout
