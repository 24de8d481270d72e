"""Every test that docs/reliability.md names exists."""

import ast
import re

from docs.pages import ROOT

NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8"))


def functions_in(path):
    return {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


def test_the_tests_behind_each_promise_exist():
    assert len(NAMED) > 40
    missing = [
        f"{path}::{name}"
        for path, name in NAMED
        if not (ROOT / path).is_file() or (name and name not in functions_in(path))
    ]
    assert missing == []


def test_every_promise_names_a_test():
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    promises = [
        line
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith(("| promise", "| group", "| ---"))
    ]
    assert [line for line in promises if line.count("|") == 5 and "`tests/" not in line] == []
