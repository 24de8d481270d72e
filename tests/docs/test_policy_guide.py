"""The guide's policy runs as it is written there."""

import re
import subprocess
import sys
from types import ModuleType
from unittest.mock import create_autospec

import pytest

import foretide as ft
from docs.pages import code_blocks, run
from foretide.runtime.loop import attach
from helpers import environment

POLICY, TEST, ATTACH, BY_NAME, REGISTRY_LINE = code_blocks("policy.md")
REGISTER = """
from foretide.control.policies.registry import POLICIES, PolicyKind
POLICIES.update({%s})
from foretide.settings.load import load_settings
settings = load_settings(overrides=["night_shift.edge=parse", "control.policies=night_shift"], env={})
(policy,) = settings.to_control().policies
print(policy.name, policy.edge)
"""


@pytest.fixture
def guide(monkeypatch):
    """The first two code blocks, run in a module of their own."""
    module = ModuleType("policy_guide")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    run(POLICY + TEST, vars(module))
    return module


def test_the_policy_is_short_and_needs_nothing_but_the_public_names():
    assert len(POLICY.splitlines()) <= 30
    assert re.findall(r"^(?:import|from) (\S+)", POLICY, re.MULTILINE) == ["dataclasses", "foretide"]


def test_the_loop_decides_what_the_policy_wants(guide):
    assert guide.decision.actions == (ft.SetReplicas("parse", 4),)
    assert guide.decision.chosen[0].policy == "night-shift"
    assert guide.decision.chosen[0].expected == ft.Expectation("4 of 8 tasks at work")
    assert guide.early.actions == ()


def test_by_day_all_tasks_are_wanted_and_an_unknown_edge_is_left_alone(guide):
    noon = guide.world(12 * 3600)
    assert guide.NightShift("parse").wish(None, noon)[1][0].action == ft.SetReplicas("parse", 8)
    assert guide.NightShift("elsewhere").wish(None, noon) == (None, [])


def test_it_is_attached_by_a_call_that_control_takes(guide, monkeypatch):
    control = create_autospec(attach.control)
    monkeypatch.setattr(attach, "control", control)
    run(ATTACH, {**vars(guide), "query": "a query"})
    control.assert_called_once_with("a query", [guide.NightShift("parse"), "bypass"], mode="advise")


def test_it_has_a_name_and_settings_once_it_is_in_the_registry():
    code = POLICY + BY_NAME + REGISTER % REGISTRY_LINE  # in a process of its own: settings are read from the registry
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert done.stdout == "night_shift parse\n", done.stderr
