"""Every test and benchmark that docs/reliability.md and docs/claims.md name exists."""

import ast
import re

from docs.pages import ROOT

PAGES = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("reliability.md", "claims.md"))
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGES)


def functions_in(path):
    return {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


def test_the_tests_behind_each_promise_exist():
    assert len(NAMED) > 60
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


def test_the_benchmarks_behind_claims_exist():
    named = set(re.findall(r"`python -m benchmarks (\w+)`", PAGES))
    assert named
    assert [name for name in named if not (ROOT / "benchmarks" / f"{name}.py").is_file()] == []
