"""A snapshot: what is known, how old it is, and what is not known."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level, Sample
from foretide.metrics.snapshot import Known, Snapshot, Unknown, freeze

FIGURES = {
    ("capacity", "count"): (0.5, 95.0),
    ("capacity", "parse"): (0.0, 100.0),
    ("batch", "app"): (7.0, 90.0),
    ("task_rows", "parse/1"): (3.0, 100.0),
    ("worker_heap_bytes", "driver"): (1e9, 98.0),
    ("machine_cores", "here"): (2.0, 60.0),
    ("skew", "count"): (1.5, 95.0),
}
SNAPSHOT = Snapshot(100.0, "app", FIGURES)


def test_a_figure_is_known_with_its_age():
    assert SNAPSHOT.figure("capacity", "count") == Known(0.5, age=5.0)
    assert SNAPSHOT.figure("machine_cores", "here") == Known(2.0, age=40.0)


def test_the_query_is_the_subject_unless_another_is_named():
    assert SNAPSHOT.figure("batch") == SNAPSHOT.figure("batch", "app") == Known(7.0, age=10.0)


def test_a_figure_from_a_clock_that_runs_ahead_is_new_not_of_negative_age():
    assert Snapshot(90.0, "app", FIGURES).figure("capacity", "count") == Known(0.5, age=0.0)


def test_what_was_not_measured_is_a_state_of_its_own_and_0_is_not():
    assert SNAPSHOT.figure("capacity", "nobody") == Unknown("not yet known")
    assert SNAPSHOT.figure("utilization", "count") == Unknown("not yet known")
    assert SNAPSHOT.value("capacity", "nobody") is None
    assert SNAPSHOT.figure("capacity", "parse") == Known(0.0, age=0.0)
    assert SNAPSHOT.value("capacity", "parse") == 0.0


def test_a_name_outside_the_catalogue_is_said_to_be_so():
    assert SNAPSHOT.figure("capasity", "count") == Unknown("'capasity' is not in the catalogue")
    assert SNAPSHOT.value("capasity", "count") is None


def test_a_value_can_be_asked_for_only_when_fresh():
    assert SNAPSHOT.value("capacity", "count", within=5) == 0.5
    assert SNAPSHOT.value("capacity", "count", within=4.9) is None
    assert SNAPSHOT.value("machine_cores", "here") == 2.0


@pytest.mark.parametrize(
    ("level", "subjects"),
    [
        (Level.QUERY, ["app"]),
        (Level.OPERATOR, ["count", "parse"]),
        (Level.EDGE, ["count"]),
        (Level.TASK, ["parse/1"]),
        (Level.WORKER, ["driver"]),
        (Level.MACHINE, ["here"]),
    ],
)
def test_each_level_has_its_own_subjects_in_order(level, subjects):
    assert SNAPSHOT.subjects(level) == subjects


def test_a_metric_is_given_for_all_its_subjects():
    assert SNAPSHOT.of("capacity") == {"count": Known(0.5, 5.0), "parse": Known(0.0, 0.0)}
    assert SNAPSHOT.of("utilization") == {}


def test_an_empty_snapshot_knows_nothing():
    nothing = Snapshot(0.0, "app")
    assert nothing.figure("batch") == Unknown()
    assert all(nothing.subjects(level) == [] for level in Level)
    assert list(nothing.samples()) == []
    assert (nothing.forecasts, nothing.problems) == ({}, ())


def test_a_forecast_is_no_figure():
    foreseen = Snapshot(100.0, "app", {}, {("input_rows_per_second", "app"): 500.0})
    assert foreseen.forecasts["input_rows_per_second", "app"] == 500.0
    assert foreseen.figure("input_rows_per_second") == Unknown()


def test_a_snapshot_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        SNAPSHOT.at = 5.0
    with pytest.raises(FrozenInstanceError):
        SNAPSHOT.figure("batch").value = 0.0


def test_what_is_frozen_neither_changes_nor_follows_the_original():
    figures = dict(FIGURES)
    frozen = freeze(figures)
    with pytest.raises(TypeError):
        frozen["batch", "app"] = (8.0, 100.0)
    figures.clear()
    assert frozen == FIGURES


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(sorted(CATALOGUE)), st.text(max_size=5)),
        st.tuples(st.floats(allow_nan=False), st.floats(0, 1e9)),
    ),
    st.floats(0, 1e9),
)
def test_everything_put_in_comes_out_again(figures, at):
    snapshot = Snapshot(at, "app", freeze(figures))
    assert {(s.metric, s.subject): (s.value, s.at) for s in snapshot.samples()} == figures
    assert all(isinstance(sample, Sample) for sample in snapshot.samples())
    for (metric, subject), (value, _) in figures.items():
        figure = snapshot.figure(metric, subject)
        assert isinstance(figure, Known)
        assert figure.value == value
        assert figure.age >= 0
        assert subject in snapshot.subjects(CATALOGUE[metric].level)
