"""Nothing is declared that nobody uses: settings that are read, fields that are written live, rules with an input."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

import foretide
from foretide.control.policies.registry import POLICIES
from foretide.control.world.setup import Observed, Setup
from foretide.control.world.world import World
from foretide.metrics.alarm_rules import DEFAULT_RULES
from foretide.metrics.snapshot import Snapshot
from foretide.settings.settings import Settings

ROOT = Path(foretide.__file__).parent
LIVE = ("runtime/", "spark/", "probes/")
FILLED_BY_THE_LOOP = {"requested", "forecast_for_now"}


@cache
def trees() -> dict[str, ast.Module]:
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}


# ---- settings


def sections() -> dict[str, type]:
    """All classes of settings, those within others included."""
    found: dict[str, type] = {}
    waiting: list[object] = [getattr(Settings(), each.name) for each in fields(Settings)]
    waiting += [kind.settings() for kind in POLICIES.values() if kind.settings is not None]
    while waiting:
        made = waiting.pop()
        if isinstance(made, tuple):
            waiting += made
        elif is_dataclass(made) and type(made).__name__ not in found:
            found[type(made).__name__] = type(made)
            waiting += [getattr(made, each.name) for each in fields(made)]
    return found


ALIASES = {
    "AlarmRule": "rule",
    "HealthMetric": "metric",
    "Resolution": "resolution",
    "Step": "step",
    "TrainingBudget": "budget",
}
"""What values of settings are called where they are read, if not by the name of their section or `settings`."""


@cache
def reads() -> dict[str, set[tuple[str, str]]]:
    """Attributes that are read: the name of the value, and the class around it. Checks of settings do not count."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for tree in trees().values():
        for owner, node in inside(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found[node.attr].add((name_of(node.value), owner))
    return found


def name_of(node: ast.AST) -> str:
    """The last name of an expression: `settings` of `self._settings`, `hot_keys` of `policies["hot_keys"]`."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name.strip("_")
    return ""


def is_read(kind: type, field: str) -> bool:
    section = getattr(kind, "section", "").rpartition(".")[2]
    names = {section, ALIASES.get(kind.__name__, section)}
    return any(
        name.endswith("settings") or name in names or (name == "self" and owner == kind.__name__)
        for name, owner in reads()[field]
    )


def inside(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name in {"conflicts", "__post_init__"}:
            continue
        yield owner, node
        yield from inside(node, node.name if isinstance(node, ast.ClassDef) else owner)


@pytest.mark.parametrize("name", sorted(sections()))
def test_every_setting_is_read_by_somebody(name):
    kind = sections()[name]
    unread = [each.name for each in fields(kind) if not is_read(kind, each.name)]
    assert not unread, f"nobody reads {', '.join(unread)} of {name}"


# ---- what a control cycle reads


def written(kind: type, files: tuple[str, ...]) -> set[str]:
    """Fields of a value that are given where it is made or changed, in these files."""
    names = [each.name for each in fields(kind)]
    found: set[str] = set()
    for file, tree in trees().items():
        if not file.startswith(files):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id == kind.__name__:
                found |= {*names[: len(node.args)], *(each.arg for each in node.keywords if each.arg)}
            elif node.func.id == "replace":
                found |= {each.arg for each in node.keywords if each.arg}
    return found


@pytest.mark.parametrize("kind", [World, Observed, Setup, Snapshot])
def test_every_field_of_the_world_is_written_live(kind):
    missing = {each.name for each in fields(kind)} - written(kind, LIVE)
    if kind is World:
        assert written(World, ("control/step.py",)) >= FILLED_BY_THE_LOOP
        missing -= FILLED_BY_THE_LOOP
    assert not missing, f"no live code writes {', '.join(sorted(missing))} of {kind.__name__}"


# ---- alarm rules


@cache
def produced() -> set[str]:
    """Texts in the code that measures: a metric that is not among them is never produced."""
    files = {
        file: tree for file, tree in trees().items() if file.startswith((*LIVE, "metrics/from_batch", "metrics/task"))
    }
    return {
        node.value for tree in files.values() for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }  # fmt: skip


@pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.name)
def test_every_rule_that_is_on_by_itself_has_a_live_input(rule):
    for metric in filter(None, (rule.metric, rule.above_metric)):
        assert metric in produced(), f"'{metric}' of rule '{rule.name}' is never produced"
    if rule.forecast:
        forecasts = ast.unparse(trees()["runtime/loop/world_reader.py"])
        assert "set_forecasts(" in forecasts
        assert f"'{rule.metric}'" in forecasts


def test_a_wire_that_leads_nowhere_is_found():
    """The tests above can fail: for a setting, a field and a metric that nobody knows."""
    assert not is_read(sections()["GuardSettings"], "colour")
    assert is_read(sections()["GuardSettings"], "cooldown")
    assert "placements" in written(Observed, LIVE)
    assert "placements" not in written(Observed, ("store/",))
    assert "join_imbalance" in produced()
    assert "tuples_of_tomorrow" not in produced()
