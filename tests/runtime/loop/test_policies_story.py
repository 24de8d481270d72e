"""Policies act on real executors, with the default guards and roll-back, and every row is written once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("policies_story.py")


def tell(folder, *names):
    command = [sys.executable, str(STORY), str(folder / "story"), *names]
    home = {"FORETIDE_HOME": str(folder / "home")}
    done = subprocess.run(command, env=environment() | home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return tell(tmp_path_factory.mktemp("policies"), "replicas", "reactive", "admission", "two")


@pytest.fixture(scope="module")
def told_without_topology(tmp_path_factory):
    return tell(tmp_path_factory.mktemp("queries"), "lopsided", "processors")


@pytest.mark.parametrize("policy", ["replicas", "reactive"])
def test_replicas_follow_a_step_of_the_load(told, policy):
    story = told[policy]
    assert story["replicas"] > 1
    assert any("replicas" in each for each in story["decisions"]), story["decisions"]
    assert (story["each_once"], story["alarms"]) == (True, [])


def test_admission_is_tuned_step_by_step(told):
    first, second = told["admission"]["limits"][:2]
    assert first != second
    assert (told["admission"]["each_once"], told["admission"]["alarms"]) == (True, [])


def test_a_decision_that_makes_latency_worse_is_rolled_back(told_without_topology):
    story = told_without_topology["lopsided"]
    assert story["decisions"][0] == "split edge 'work' as 97%:1%:1%:1%", story["decisions"]
    assert max(story["counts"]) - min(story["counts"]) <= 1  # even, as it was before
    assert story["each_once"]


def test_with_a_target_the_default_policies_ask_for_an_executor_and_give_it_back(told_without_topology):
    story = told_without_topology["processors"]
    assert story["policies"] == ["bypass", "processors", "hot_keys"]
    assert story["executors"] == [1, 2, 1]
    assert (story["asked"][0], story["asked"][-1]) == (2, 1)
    assert story["by"] == ["processors"]
    assert "for which 2 executors take about" in story["reasons"][0]
    assert "fewer executors are expected to hold the target" in story["reasons"][-1]
    assert story["each_once"]


def test_two_pipelines_of_an_application_are_controlled_each_by_its_own_loop(told):
    assert [story["replicas"] >= 1 for story in told["two"]] == [True, True]
    assert [(story["each_once"], story["alarms"]) for story in told["two"]] == [(True, [])] * 2
