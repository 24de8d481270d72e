"""The fit and the tables of `benchmarks.scaling`, and that its made-up batches are what their size says."""

import pytest
from benchmarks.scaling.growth import exponent, exponent_at_end, gathered, is_worse_than_linear, rows
from benchmarks.scaling.worlds import BEGIN, BOLTS, MadeUp, rest_tasks

from foretide.metrics.from_batch import SLOWNESS
from foretide.spark.progress.tasks import read_task

SIZES = [10, 100, 1_000, 10_000]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power):
    assert exponent({size: 3.0 * size**power for size in SIZES}) == pytest.approx(power, abs=1e-5)


@pytest.mark.parametrize("costs", [{}, {10: 1.0}, {10: 0.0, 100: 5.0}])
def test_nothing_is_fitted_to_fewer_than_two_costs_above_zero(costs):
    assert exponent(costs) is None
    assert not is_worse_than_linear(costs)


def test_what_is_paid_at_any_size_does_not_hide_a_square_among_large_sizes():
    costs = {size: 1e4 + 0.01 * size**2 for size in SIZES}
    assert exponent(costs) < 1 < exponent_at_end(costs)
    assert is_worse_than_linear(costs)


def test_a_row_has_the_cost_at_each_size_and_both_exponents():
    linear, square = rows({"linear": {10: 1.0, 100: 10.0}, "square": {100: 100.0, 1_000: 10_000.0}})
    assert linear == {
        "cost": "linear",
        "10": 1.0,
        "100": 10.0,
        "1,000": "-",
        "exponent": "1.00",
        "larger half": "1.00",
        "worse than linear": "no",
    }
    assert (square["10"], square["exponent"], square["worse than linear"]) == ("-", "2.00", "YES")


def test_costs_are_gathered_by_their_names():
    found = gathered([1, 2, 4], lambda size: {"a": float(size), "b": 1.0})
    assert [(row["cost"], row["4"], row["exponent"]) for row in found] == [("a", 4.0, "1.00"), ("b", 1.0, "0.00")]


def test_a_made_up_batch_has_its_tasks_on_its_executors_and_tells_the_slow_ones():
    made = MadeUp(300, 20, slow=True)
    report = made.report(1)
    assert len(report.tasks) == 300
    assert {run.worker for run in report.tasks} == set(made.workers)
    made.latest.put(made.samples(report))
    world = made.world(1)
    slow = {worker for worker in made.workers if world.snapshot.value(SLOWNESS, worker) > 2}
    assert slow == {"0", "10"}
    assert all(len(world.observed.routes[bolt]) == made.pool == 100 for bolt in BOLTS)


def test_made_up_answers_of_spark_are_read_as_tasks():
    runs = [read_task(task, BEGIN) for task in rest_tasks(8, 4)]
    assert [run.worker for run in runs] == ["0", "1", "2", "3"] * 2
    assert all(run.rows_in and run.run_ms for run in runs)
