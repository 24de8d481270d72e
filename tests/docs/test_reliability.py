"""Every test and benchmark that docs/reliability.md and docs/claims.md name exists."""

import ast
import re

from docs.pages import ROOT

PAGES = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("reliability.md", "claims.md"))
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGES)


README = (ROOT / "README.md").read_text(encoding="utf-8")
CLAIMS = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")


def section(text, title):
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


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


def test_each_row_of_what_it_can_do_has_a_claim_with_a_test():
    rows = re.findall(r"^\| \*\*(.+?)\*\*", section(README, "What it can do"), re.MULTILINE)
    claims = dict(re.findall(r"^\| (?!row |---)([^|]+?) \| (.*) \|$", section(CLAIMS, "What it can do"), re.MULTILINE))
    assert len(rows) > 10
    assert list(claims) == rows
    assert [row for row, shown in claims.items() if "`tests/" not in shown] == []


def test_the_claims_name_the_command_of_each_figure_of_the_readme():
    commands = set(re.findall(r"`python -m benchmarks \w+`", section(README, "Figures")))
    figures = next(line for line in CLAIMS.splitlines() if line.startswith("| The figures of the README |"))
    assert commands
    assert commands == set(re.findall(r"`python -m benchmarks \w+`", figures))
