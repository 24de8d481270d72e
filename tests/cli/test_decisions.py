"""`foretide decisions`, `explain` and `replay` over the store of a simulated run. No Spark."""

import json
import os

import pytest
from sqlalchemy import create_engine
from typer.testing import CliRunner

from foretide.cli import app
from foretide.control.decisions.decision import Decision, to_json
from foretide.control.policies.registry import POLICIES
from foretide.errors import (
    DecisionNotFoundError,
    PipelineNotFoundError,
    ReplayError,
    SettingsError,
    StoreError,
)
from foretide.metrics.metric import Sample
from foretide.status.pipelines import Running, announce
from foretide.store.metric_store import MetricStore
from recorded_run import record


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "metrics.db"
    record(path)
    return str(path)


@pytest.fixture
def call(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    return lambda *arguments: CliRunner().invoke(app, [*arguments])


def said(result):
    assert result.exit_code == 0, result.output or result.exception
    return result.stdout


def test_decisions_are_listed_with_what_was_done_why_and_how_it_turned_out(call, recorded):
    shown = said(call("decisions", "--store", recorded))
    for part in (
        "shop: decisions",
        "replicas behind",
        "give worker 2",
        "bypass:",
        "no clear change",
        "hysteresis stopped",
        "last measured",
    ):
        assert part in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_in_a_narrow_terminal_reasons_are_below_the_changes(call, recorded, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = said(call("decisions", "--store", recorded, "--acted")).splitlines()
    at = next(place for place, line in enumerate(lines) if "give worker 2 no more tasks (no clear change)" in line)
    assert lines[at + 1].strip().startswith("bypass: its slowness is 2.113, that of its peers")
    assert max(map(len, lines[:-1])) <= 80


def test_decisions_as_json_say_all_that_is_kept(call, recorded):
    found = json.loads(said(call("decisions", "--app", "shop", "--store", recorded, "--json", "--last", "1000")))
    assert (found["pipeline"], found["problems"]) == ("shop", [])
    numbers = [each["id"] for each in found["decisions"]]
    assert numbers == sorted(numbers)
    acted = json.loads(said(call("decisions", "--store", recorded, "--acted", "--json", "--last", "1000")))["decisions"]
    assert acted == [each for each in found["decisions"] if each["acted"]]
    assert {each["effect"]["outcome"] for each in acted} == {"no clear change", "unclear"}
    assert 0 < len(acted) < len(numbers)
    last = json.loads(said(call("decisions", "--store", recorded, "--acted", "--json", "--last", "1")))["decisions"]
    assert last == acted[-1:]
    with MetricStore.open(recorded) as store:
        kept = store.decisions("shop", ids=[acted[0]["id"]])[0]
    assert to_json(kept) == json.dumps(
        {key: value for key, value in acted[0].items() if key not in {"acted", "summary", "target_held"}},
        separators=(",", ":"),
    )


def test_a_time_without_decisions_is_no_error(call, recorded):
    assert "no decision matches the filter" in said(call("decisions", "--store", recorded, "--since", "60s"))
    assert json.loads(said(call("decisions", "--store", recorded, "--since", "60s", "--json")))["decisions"] == []


def test_the_last_change_is_explained_unless_another_is_asked_for(call, recorded):
    with MetricStore.open(recorded) as store:
        acted = store.decisions("shop", acted=True)
    shown = said(call("explain", "--store", recorded))
    assert shown.startswith(f"Decision {acted[-1].id} on 'shop'")
    assert said(call("explain", "shop", "--store", recorded)) == shown
    assert said(call("explain", str(acted[-1].id), "shop", "--store", recorded)) == shown
    first = said(call("explain", str(acted[0].id), "--store", recorded))
    for part in ("Seen", "Wanted ", "Chosen", "from the next batch on", "planned", "requested", "observed"):
        assert part in first, part
    assert max(map(len, first.splitlines())) <= 100
    found = json.loads(said(call("explain", str(acted[0].id), "--store", recorded, "--json")))
    assert found["decision"]["id"] == acted[0].id
    assert [each["label"] for each in found["explanation"]][:2] == ["Target", "Seen"]
    assert [each["target"] for each in found["progress"]] == [wish.action.target for wish in acted[0].wishes]


def test_without_any_change_the_last_decision_is_explained(call, tmp_path):
    path = str(tmp_path / "m.db")
    with MetricStore.open(path) as store:
        store.write("p", [Sample("batch", "p", 1.0, 1.0)])
        store.write_decisions("p", [Decision(3, 1.0, "p", problems=("policy 'x' failed",))])
    shown = said(call("explain", "--store", path))
    assert "no change" in shown
    assert "policy 'x' failed" in shown


def test_a_damaged_decision_is_told_and_the_others_are_listed(call, tmp_path):
    path = str(tmp_path / "m.db")
    with MetricStore.open(path) as store:
        store.write("p", [Sample("batch", "p", 1.0, 1.0)])
        store.write_decisions("p", [Decision(number, 1.0, "p", problems=(f"problem {number}",)) for number in (1, 2)])
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE foretide_decisions SET json = '' WHERE id = 1")
    engine.dispose()
    result = call("decisions", "--store", path)
    assert "problem 2" in said(result)
    assert "decision 1 of the store was left out" in result.stderr
    refused = call("explain", "1", "--store", path)
    assert isinstance(refused.exception.__cause__, DecisionNotFoundError)
    assert "decision 1 of the store was left out" in refused.stderr


def test_a_running_pipeline_is_found_by_its_name(call, recorded):
    assert "no pipeline runs on this machine" in str(call("decisions").exception.__cause__)
    announce(Running("shop", os.getpid(), "nowhere", recorded))
    assert isinstance(call("decisions", "--app", "other").exception.__cause__, PipelineNotFoundError)
    assert (
        said(call("decisions"))
        == said(call("decisions", "--app", "shop"))
        == said(call("decisions", "--store", recorded))
    )


def test_metrics_are_shown_by_their_store(call, recorded):
    by_path, by_name = (
        json.loads(said(call("metrics", *where, "--json")))
        for where in [("--store", recorded), ("--app", "shop", "--store", recorded)]
    )
    assert by_path["pipeline"] == "shop"
    assert [each["value"] for each in by_path["figures"]] == [each["value"] for each in by_name["figures"]] != []


def test_a_replay_says_what_policies_would_have_done_and_draws_it(call, recorded, tmp_path):
    shown = said(
        call(
            "replay",
            "--store",
            recorded,
            "--policy",
            "bypass",
            "--policy",
            "processors",
            "--plot",
            str(tmp_path / "a.svg"),
        )
    )
    for part in ("shop: bypass, processors over ", " batches from ", "advice: ", "give worker 2", "once"):
        assert part in shown, part
    assert max(map(len, shown.splitlines())) <= 100
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn.startswith("<?xml")
    found = json.loads(
        said(call("replay", "--store", recorded, "--policy", "bypass", "--policy", "processors", "--json"))
    )
    assert found["batches"] > 100
    targets = {action["action"]["kind"] for each in found["advice"] for action in each["decision"]["chosen"]}
    assert targets == {"quarantine", "set-replicas", "set-executors", "set-admission"}
    assert all(each["decision"]["mode"] == "advise" for each in found["advice"])


def test_the_policies_that_ran_decide_the_same_again_up_to_what_they_changed(call, recorded):
    with MetricStore.open(recorded) as store:
        first = next(each for each in store.decisions("shop") if each.chosen)
    found = json.loads(
        said(call("replay", "--store", recorded, "--policy", "bypass", "--policy", "replicas", "--json"))
    )
    again = found["advice"][0]["decision"]
    assert (again["at"], again["summary"]) == (first.at, f"advice: {_summary(first)}")


def _summary(decision):
    return "; ".join(f"{wish.action.describe()} ({wish.policy}: {wish.reason})" for wish in decision.chosen)


def test_a_latency_target_of_ones_own_goes_before_the_recorded_one(call, recorded):
    def cost(*target):
        found = json.loads(said(call("replay", "--store", recorded, "--policy", "processors", "--json", *target)))
        return [each["decision"]["summary"] for each in found["advice"]]

    assert cost("--latency", "900ms") != cost("--latency", "1m")
    assert cost("--latency", "3s") == cost()


def test_static_does_nothing_and_every_policy_can_be_replayed(call, recorded):
    assert "no action would have been taken" in said(call("replay", "--store", recorded, "--policy", "static"))
    every = [part for name in POLICIES for part in ("--policy", name)]
    replayed = json.loads(said(call("replay", "--store", recorded, "--json", *every)))["policies"]
    assert replayed == list(POLICIES)


def test_a_replay_goes_by_the_settings_in_force(call, recorded, tmp_path):
    def summaries(*flags):
        found = json.loads(said(call("replay", "--store", recorded, "--json", *flags)))
        return found["policies"], [each["decision"]["summary"] for each in found["advice"]]

    (tmp_path / "foretide.toml").write_text(
        '[control]\npolicies = ["replicas"]\n[replicas]\ntarget_utilization = 0.4\n'
    )
    names, by_file = summaries()
    assert (names, by_file) == summaries(
        "--config", os.devnull, "--policy", "replicas", "--set", "replicas.target_utilization=0.4"
    )
    assert names == ["replicas"]
    assert by_file != summaries("--set", "guards.max_replicas=5")[1]
    assert summaries("--config", os.devnull)[0] == ["bypass", "replicas", "hot_keys"]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (("decisions", "--app", "nobody"), PipelineNotFoundError, "no pipeline runs on this machine; .*--store"),
        (
            ("decisions", "--app", "nobody", "--store", "{store}"),
            StoreError,
            "no metrics of 'nobody'; the store has: shop",
        ),
        (("explain", "99999", "--store", "{store}"), DecisionNotFoundError, "no decision 99999 of 'shop'"),
        (
            ("replay", "--store", "{store}", "--policy", "oracle"),
            SettingsError,
            "control.policies must be a list of bypass",
        ),
        (
            ("replay", "--store", "{store}", "--policy", "static", "--since", "1s"),
            ReplayError,
            "no batch of 'shop' .* in that time",
        ),
        (("explain", "--store", "{empty}"), DecisionNotFoundError, "no decision of 'p' was kept yet"),
        (("explain", "3", "--store", "{empty}"), DecisionNotFoundError, "no decision of 'p' was kept yet"),
        (("replay", "--store", "{empty}", "--policy", "static"), ReplayError, "has no setup of 'p'"),
    ],
)
def test_errors_have_a_type_and_say_what_to_do(call, recorded, tmp_path, arguments, kind, words):
    empty = str(tmp_path / "empty.db")
    with MetricStore.open(empty) as store:
        store.write("p", [Sample("batch", "p", 1.0, 1.0)])
    result = call(*(part.format(store=recorded, empty=empty) for part in arguments))
    with pytest.raises(kind, match=words):
        raise result.exception.__cause__


def test_a_picture_needs_an_ending_and_a_target_an_option_of_its_own(call, recorded):
    assert call("replay", "--store", recorded, "--policy", "static", "--set", "target.latency=2s").exit_code == 2
    assert call("replay", "--store", recorded, "--policy", "static", "--plot", "a.txt").exit_code == 2


def test_a_plan_for_another_load_is_made_of_what_was_recorded(call, recorded):
    shown = said(call("plan", "--store", recorded, "--rate", "4000", "--latency", "30s"))
    assert "executors of" in shown
    assert "4,000 rows/s" in " ".join(shown.split())
    found = json.loads(said(call("plan", "--store", recorded, "--rate", "4000", "--latency", "30s", "--json")))
    assert found["executors"] >= 1
    assert found["learned"]["batches"] >= 3
    refused = call("plan", "--store", recorded, "--budget", "3")
    assert refused.exit_code == 2
    assert call("plan", "--store", recorded, "--rate", "-1").exit_code == 2
