"""Odd input for every command: none ends in a traceback, none hangs, and JSON stays JSON."""

import os
import re
from pathlib import Path

import pytest

from cli.fuzz_cases import KINDS, QUICK, READERS, REFUSED_BEFORE_SPARK, Case, cases, words_of
from cli.fuzzing import Fuzzer, Outcome, report

SEED = int(os.environ.get("FORETIDE_FUZZ_SEED", "7"))
CASES = 300


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    return Fuzzer(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(scope="module")
def outcomes(fuzzer):
    found = [fuzzer.run(case) for case in cases(SEED, CASES)]
    print(f"seed {SEED}\n{report(found)}")
    return found


def test_a_command_exits_with_a_code_and_a_sentence_and_json_if_it_was_asked_for(outcomes):
    wrong = [each for each in outcomes if each.wrong]
    assert not wrong, report(wrong)


def test_no_command_computes_or_waits_without_end(outcomes):
    hangs = [each for each in outcomes if each.hung]
    assert not hangs, report(hangs)


def test_whatever_is_refused_is_refused_by_foretide(outcomes):
    unexpected = [each for each in outcomes if each.unexpected is not None]
    assert not unexpected, report(unexpected)


def test_what_cannot_run_is_refused_before_spark_starts(fuzzer):
    early = [each for argv in REFUSED_BEFORE_SPARK if (each := fuzzer.run(Case("run", tuple(argv)))).started_spark]
    assert not early, "\n".join(str(each.case) for each in early)


def test_without_odd_input_a_command_works(fuzzer):
    for name in (*QUICK, "apps", "list", "settings", "run", "demo join"):
        outcome = fuzzer.run(Case("good", (*words_of(name), *QUICK.get(name, []))))
        assert outcome.code == 0 or outcome.started_spark, outcome.output


@pytest.mark.parametrize("argv", [each for group in READERS.values() for each in group], ids=" ".join)
def test_without_damage_a_reader_of_files_works(fuzzer, argv):
    outcome = fuzzer.run(Case("good", tuple(argv)))
    assert outcome.code == 0 or outcome.started_spark, outcome.output


def test_a_seed_gives_the_same_cases_again():
    assert [str(each) for each in cases(5, 200)] == [str(each) for each in cases(5, 200)]
    assert [str(each) for each in cases(5, 200)] != [str(each) for each in cases(6, 200)]


def test_the_report_is_the_table_of_the_documentation():
    groups = ("plan", "file: model", "models: plan", "environment", "refused before Spark")
    printed = report([Outcome(Case(group, ()), 0, "") for group in groups])
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text(encoding="utf-8")
    table = re.search(r"^\| inputs \|.*?^\| all \|.*?$", page, re.MULTILINE | re.DOTALL)[0]

    def form(text):
        return [re.sub(r"\d[\d,]*", "N", line) for line in text.splitlines()]

    assert form(printed) == form(table)
    assert [line.split(" | ")[0][2:] for line in table.splitlines()[2:]] == [*KINDS, "all"]
