"""`foretide metrics`, and what commands that read a store do with one that is empty, damaged or asked for nonsense."""

import json
import math
import re
import sqlite3
import time
from contextlib import closing

import pytest
from typer.testing import CliRunner

from foretide.cli.main import app
from foretide.control.decisions.decision import Decision
from foretide.errors import DecisionNotFoundError, ForetideError, StoreError
from foretide.metrics.metric import Sample
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord

EDGE = "extract_all_the_urls->partition_by_customer"


@pytest.fixture(autouse=True)
def narrow(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))


@pytest.fixture
def store(tmp_path):
    path = str(tmp_path / "metrics.db")
    with MetricStore.open(path) as opened:
        edges = [Sample(metric, EDGE, 1e9, 3.0) for metric in ("skew", "rows_read")]
        workers = [Sample(name, "1", 1e9, 0.5) for name in ("worker_tuple_execution_time_ms", "worker_heap_bytes")]
        opened.write("shop", [Sample("batch", "shop", 1e9, 7.0), *edges, *workers])
        opened.write_alarms("shop", [AlarmRecord(1e9, "rule", "high", "x", "an alarm", "audit")])
    return path


def call(*arguments):
    """The result of a command; its exception is the one that ended it."""
    result = CliRunner().invoke(app, [*arguments])
    if isinstance(getattr(result.exception, "__cause__", None), ForetideError):
        result.exception = result.exception.__cause__
    return result


def said(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output or result.exception
    return result.stdout


def squeezed(text):
    return "".join(text.split())


def test_no_name_is_cut_on_a_narrow_terminal(store):
    for arguments in ((), ("--level", "edge"), ("--level", "worker")):
        shown = said("metrics", "--store", store, *arguments)
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= 80
    assert "skew" in said("metrics", "--store", store, "--level", "edge")
    assert "worker_tuple_execution_time_ms" in squeezed(said("metrics", "--store", store, "--level", "worker"))


def test_what_was_measured_long_ago_has_a_date(store):
    assert time.strftime("shop, measured on %Y-%m-%d at", time.localtime(1e9)) in said("metrics", "--store", store)
    with MetricStore.open(store) as opened:
        opened.write("shop", [Sample("batch", "shop", time.time(), 8.0)])
    assert "s ago" in said("metrics", "--store", store)


def test_a_level_without_figures_is_not_an_empty_store(store):
    shown = " ".join(said("metrics", "--store", store, "--level", "machine").split())
    assert "shop: nothing has been measured at the level 'machine'; there are metrics of other levels" in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--step", "5s"), "add --export FILE"),
        (("--step", "5s", "--export", "x.parquet"), "choose it with --level"),
        (("--follow", "--export", "x.parquet"), "an export is made once"),
        (("--step", "inf", "--export", "x.parquet", "--level", "edge"), "not a duration"),
    ],
)
def test_options_that_would_be_ignored_are_refused(store, tmp_path, options, words):
    result = call("metrics", "--store", store, *options)
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "x.parquet").exists()


def test_an_export_says_when_it_replaces_a_file_and_refuses_the_store(store):
    assert said("metrics", "--store", store, "--export", "x.parquet") == "5 rows in x.parquet\n"
    again = said("metrics", "--store", store, "--export", "x.parquet")
    assert again == "5 rows in x.parquet, which was replaced\n"
    steps = ("--level", "edge", "--step", "1m", "--json")
    told = json.loads(said("metrics", "--store", store, "--export", "x.parquet", *steps))
    assert told == {"file": "x.parquet", "rows": 1, "replaced": True}
    refused = call("metrics", "--store", store, "--export", store)
    assert isinstance(refused.exception, StoreError)
    assert "batch" in said("metrics", "--store", store)


def test_an_empty_store_is_no_error_for_commands_that_list_and_one_that_is_not_there_is(tmp_path):
    empty = str(tmp_path / "empty.db")
    MetricStore.open(empty).close()
    for command in ("metrics", "decisions"):
        assert said(command, "--store", empty) == "the store is empty: no pipeline has written to it yet\n"
        assert json.loads(said(command, "--store", empty, "--json"))
        for wrong in (("--store", str(tmp_path / "nowhere.db")), ("--store", empty, "--app", "nobody"), ()):
            assert call(command, *wrong).exit_code == 1
    assert call("metrics", "--store", empty, "--export", "x.parquet").exit_code == 1


def test_no_decision_yet_is_told_from_none_in_that_time(store):
    assert "shop: no decision is stored yet" in said("decisions", "--store", store)
    with MetricStore.open(store) as opened:
        opened.write_decisions("shop", [Decision(1, 5.0, "shop", problems=("policy 'x' failed",))])
    assert "shop: no decision matches the filter" in said("decisions", "--store", store, "--since", "10m")


def test_numbers_of_20_digits_are_taken_for_what_they_are(store):
    with MetricStore.open(store) as opened:
        opened.write_decisions("shop", [Decision(1, 5.0, "shop", problems=("policy 'x' failed",))])
    assert "policy 'x' failed" in said("decisions", "--store", store, "--last", "9" * 20)
    refused = call("explain", "9" * 20, "--store", store)
    with pytest.raises(DecisionNotFoundError, match="lists them up to 1"):
        raise refused.exception


@pytest.mark.parametrize("bad", ["'text'", "x'ff00'", "9e999", "-9e999"])
@pytest.mark.parametrize("table", ["samples", "alarms", "decisions"])
def test_what_is_no_number_in_a_store_is_an_error_that_names_the_row(store, bad, table):
    column = {"samples": "value", "alarms": "at", "decisions": "json"}[table]
    with MetricStore.open(store) as opened:
        opened.write_decisions("shop", [Decision(1, 5.0, "shop", problems=("policy 'x' failed",))])
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(f"UPDATE foretide_{table} SET {column} = {bad}")
    for options in ((), ("--json",), ("--level", "worker"), ("--export", "x.parquet")):
        result = call("metrics", "--store", store, *options)
        assert result.exit_code == 0 or isinstance(result.exception, StoreError)
    for command in ("decisions", "explain", "replay"):
        result = call(command, "--store", store)
        assert result.exit_code == 0 or isinstance(result.exception, ForetideError)
    if table == "samples":
        assert "the store is damaged: a row of foretide_samples" in str(call("metrics", "--store", store).exception)


def test_json_never_has_what_is_no_number(store):
    def refuse(word):
        raise AssertionError(word)

    for command in ("metrics", "decisions"):
        json.loads(said(command, "--store", store, "--json"), parse_constant=refuse)
    assert not math.isnan(json.loads(said("metrics", "--store", store, "--json"))["figures"][0]["value"])


def test_shares_of_time_are_percentages_and_numbers_have_no_unit(tmp_path):
    path = str(tmp_path / "metrics.db")
    with MetricStore.open(path) as opened:
        samples = [("utilization", 0.00625), ("capacity", 0.5), ("selectivity", 2.0)]
        opened.write("shop", [Sample(metric, "count", 1e9, value) for metric, value in samples])
    for level in ((), ("--level", "operator")):
        said = call("metrics", "--store", path, *level).stdout
        assert "0.625%" in said
        assert "50%" in said
        assert not re.search(r"\b(ratio|number)$", said, re.MULTILINE)
