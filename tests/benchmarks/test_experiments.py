"""The harness of the experiments: order, noise, claims, failures, JSON and report."""

import importlib
import itertools
import json
import math
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
from benchmarks.experiments import catalogue
from benchmarks.experiments.child import run_in_child
from benchmarks.experiments.command import is_there, outcomes_in, report_of, run_all
from benchmarks.experiments.experiment import TWIN, Claim, Experiment, Measure, Side, Verdict
from benchmarks.experiments.markdown import PAGE, between, experiments_table
from benchmarks.experiments.outcome import read_outcome, summary_rows
from benchmarks.experiments.page import report
from benchmarks.experiments.runner import run_experiment
from benchmarks.experiments.show import claims, pivot
from benchmarks.experiments.statistics import beyond_noise, changes, noise, spread
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import FileError

TIME = Measure("time", "s")
FIGURES = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=9)


def fixed(*values):
    return lambda _: {"time": list(values)}


def experiment(sides, claims=(), **options):
    return Experiment("paper", "A title", "computed", tuple(sides), (TIME,), tuple(claims), **options)


def run(made, **options):
    return run_experiment("name", made, quick=False, **options)


@given(FIGURES)
def test_a_side_that_is_the_same_twice_has_no_noise_and_no_difference(figures):
    assert noise(figures, figures) == 0.0
    assert beyond_noise(figures, figures, 0.0) is False
    assert changes(figures, figures) == [0.0] * len(figures)


@given(FIGURES, st.floats(0.0, 10.0))
def test_a_difference_counts_only_if_it_is_more_than_the_noise(figures, level):
    twice = [2 * each for each in figures]
    assert beyond_noise(twice, figures, level) is (level < 1.0)


@given(FIGURES)
def test_the_spread_encloses_the_median(figures):
    found = spread(figures)
    assert found.least <= found.low <= found.median <= found.high <= found.most
    assert found.count == len(figures)


def test_without_figures_nothing_is_said():
    assert spread([math.nan]).count == 0
    assert noise([], []) is None
    assert beyond_noise([1.0], [1.0], None) is None
    assert changes([1.0, math.nan], [math.nan, 1.0]) == []


def test_sides_take_turns_the_first_one_runs_twice_and_warm_ups_do_not_count():
    ran = []

    def side(name):
        def one(repetition):
            ran.append((repetition.number, name, repetition.seed))
            return {"time": [1.0]}

        return Side(name, one)

    found = run(experiment([side("a"), side("b")], repeat=2, warm_ups=1))
    assert [each.order for each in found.repetitions] == [("a", "b", TWIN), (TWIN, "b", "a")]
    names = ["".join(name for _, name, _ in turn) for _, turn in itertools.groupby(ran, key=lambda each: each[0])]
    assert names == ["aba", "aba", "aba"]
    for number in (0, 1):
        of_a, of_b, of_twin = (
            [seed for at, name, seed in ran if (at, name) == (number, "a")],
            [seed for at, name, seed in ran if (at, name) == (number, "b")],
            None,
        )
        assert of_twin is None
        assert len(set(of_a)) == 2
        assert of_b[0] in of_a


def test_raw_samples_are_kept_and_a_repetition_counts_by_its_median(tmp_path):
    found = run(experiment([Side("a", fixed(1.0, 2.0, 9.0)), Side("b", fixed(4.0))], repeat=3))
    again = read_outcome(found.save(tmp_path))
    assert again.samples("a", "time") == [1.0, 2.0, 9.0] * 3
    assert again.median("a", "time") == 2.0
    assert again.change("b", "time") == 1.0
    assert again.differs("b", "time") is True
    assert again == found


def test_what_is_not_finite_comes_back_from_json_as_not_a_number(tmp_path):
    found = run(experiment([Side("a", fixed(math.inf, math.nan))], repeat=1))
    (one, other) = read_outcome(found.save(tmp_path)).samples("a", "time")
    assert math.isnan(one)
    assert math.isnan(other)


def test_a_difference_within_the_noise_is_not_marked():
    turns = itertools.count()
    noisy = Side("a", lambda _: {"time": [1.0 + next(turns) % 2]})
    found = run(experiment([noisy, Side("b", fixed(1.4))], repeat=2))
    assert found.noise("time") == 1.0 or found.noise("time") == 0.5
    assert found.differs("b", "time") is False
    assert "*" not in "".join(cell for row in pivot(found)[1] for cell in row)


def test_claims_stand_beside_what_was_measured_and_short_ones_say_so():
    judges = [
        Claim("below 2", lambda found: Verdict(f"{found.median('a', 'time'):g}", found.median("a", "time") < 2)),
        Claim("below 1", lambda found: Verdict(f"{found.median('a', 'time'):g}", found.median("a", "time") < 1)),
        Claim("broken", lambda _: Verdict(f"{1 / 0}", reached=True)),
        Claim("missing", lambda found: Verdict("", reached=found.median("b", "time") < 1)),
        Claim("missing", lambda found: Verdict("", reached=found.change("b", "time") < 1)),
    ]
    found = run(experiment([Side("a", fixed(1.5))], judges, repeat=1))
    assert [row[1:] for row in claims(found)][:2] == [("1.5", "reached"), ("1.5", "short of it")]
    assert claims(found)[2][1:] == ("not measured: division by zero", "not comparable")
    assert [row[1:] for row in claims(found)[3:]] == [("not measured: time of b", "not comparable")] * 2


def test_a_failure_is_said_and_what_was_measured_before_it_is_kept():
    def fails(repetition):
        if repetition.number == 1:
            raise OSError("no room")
        return {"time": [1.0]}

    closed = []

    @contextmanager
    def resource(_):
        yield "session"
        closed.append(True)

    found = run(experiment([Side("a", fails)], repeat=3))
    assert found.error is not None
    assert found.error.startswith("OSError: no room (test_experiments.py:")
    assert len(found.repetitions) == 1
    silent = run(experiment([Side("a", fixed())]))
    assert silent.error is not None
    assert "nothing was measured of a" in silent.error
    seen = []
    run(
        experiment([Side("a", lambda each: seen.append(each.resource) or {"time": [1.0]})], repeat=1, resource=resource)
    )
    assert seen == ["session", "session"]
    assert closed == [True]


DYING = """
import os

from benchmarks.experiments.experiment import Experiment, Measure, Side

EXPERIMENT = Experiment(
    "paper", "title", "live", (Side("a", lambda run: {"time": [run.seed]} if %s else os._exit(3)),), (Measure("time"),)
)
"""


@pytest.mark.parametrize(("lives", "error"), [(True, None), (False, "its process ended with exit code 3")])
def test_a_live_experiment_runs_in_a_process_whose_death_is_reported(lives, error, tmp_path, monkeypatch):
    (tmp_path / "dying.py").write_text(DYING % lives, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module("dying").EXPERIMENT
    monkeypatch.delitem(sys.modules, "dying")
    shares = []
    found = run_in_child("name", "dying", made, tmp_path, quick=True, progress=shares.append)
    assert found.error == error
    assert len(found.repetitions) == (2 if lives else 0)
    assert set(shares) <= {0.0, 0.5, 1.0}


def test_an_exit_of_a_benchmark_is_a_failure_of_its_experiment():
    def leaves(_):
        raise SystemExit("stateless, static failed")

    found = run(experiment([Side("a", leaves)]))
    assert found.error is not None
    assert "stateless, static failed" in found.error


def test_what_is_measured_together_must_have_every_side():
    sides = [Side("a", fixed()), Side("b", fixed())]
    whole = run(experiment(sides, repeat=1, together=lambda _: {"a": {"time": [1.0]}, "b": {"time": [2.0]}}))
    assert whole.error is None
    assert whole.noise("time") is None
    assert whole.differs("b", "time") is None
    part = run(experiment(sides, repeat=1, together=lambda _: {"a": {"time": [1.0]}}))
    assert part.error is not None
    assert "b not measured" in part.error


def test_the_others_run_after_one_failed_and_results_that_are_there_are_not_made_again(tmp_path):
    def broken(_):
        raise ValueError("broken")

    both = {"bad": experiment([Side("a", broken)]), "good": experiment([Side("a", fixed(1.0))], repeat=1)}
    options = {"quick": False, "bar": lambda _: nullcontext(lambda _: None)}
    found = list(run_all(both, tmp_path, resume=False, **options))
    assert [(each.name, each.error is None) for each in found] == [("bad", False), ("good", True)]
    assert [each.name for each in run_all(both, tmp_path, resume=True, **options)] == ["bad"]
    page = report_of(tmp_path).read_text(encoding="utf-8")
    assert "ValueError: broken" in page
    assert 'id="good"' in page


def test_claims_are_judged_anew_when_the_report_is_made(tmp_path):
    name = "drs-overhead"
    made = catalogue.load(name)
    samples = {side.name: {made.measures[0].name: [1.0]} for side in made.sides}
    found = run_experiment(name, replace(made, together=lambda _: samples, claims=()), quick=True)
    assert found.claims == ()
    found.save(tmp_path)
    (again,) = outcomes_in(tmp_path)
    assert [each.reached for each in again.claims] == [False, True]
    assert "short of it" in report_of(tmp_path).read_text(encoding="utf-8")


def test_a_quick_result_does_not_stand_for_a_whole_one(tmp_path):
    run_experiment("name", experiment([Side("a", fixed(1.0))]), quick=True).save(tmp_path)
    assert is_there(tmp_path / "name.json", quick=True)
    assert not is_there(tmp_path / "name.json", quick=False)
    assert not is_there(tmp_path / "none.json", quick=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', '{"format": 1}', "\x00"])
def test_a_damaged_result_is_refused_with_its_name(text, tmp_path):
    (tmp_path / "name.json").write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=r"name\.json"):
        read_outcome(tmp_path / "name.json")


def test_the_report_escapes_names_draws_sweeps_and_loads_nothing():
    sides = [Side(f"<b>{at}", fixed(at), "line", float(at)) for at in (1, 2, 4)]
    found = run(experiment(sides, [Claim("<script>", lambda _: Verdict("&", reached=None))], repeat=2, axis="z"))
    page = report([found], made=0.0)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == 2
    assert "http" not in page.replace("http-equiv", "")
    assert "cannot do live" in page


def test_summary_rows_have_the_noise_and_changes():
    found = run(experiment([Side("a", fixed(2.0)), Side("b", fixed(3.0))], repeat=2))
    first, second = summary_rows(found)
    assert (first["change"], first["noise"]) == (None, 0.0)
    assert (second["change"], second["beyond noise"]) == (0.5, True)
    assert json.loads(json.dumps(found.data()))["summary"][1]["median"] == 3.0


@pytest.mark.parametrize("name", catalogue.names())
def test_every_experiment_is_complete(name):
    found = catalogue.load(name)
    assert found.paper
    assert found.title
    assert found.claims
    assert found.measures
    assert len({side.name for side in found.sides}) == len(found.sides)
    assert TWIN not in {side.name for side in found.sides}
    assert found.chosen(quick=True)[0] == found.sides[0]
    assert 0 < found.minutes < 30
    assert 0 <= found.quick_minutes <= found.minutes


def test_the_page_has_the_experiments_as_they_are():
    assert PAGE.read_text(encoding="utf-8") == between(
        PAGE.read_text(encoding="utf-8"), "experiments", experiments_table()
    ), "run python -m benchmarks.experiments.markdown"


def test_the_quick_form_of_all_takes_about_ten_minutes():
    assert sum(catalogue.load(name).quick_minutes for name in catalogue.names()) <= 11
