"""The catalogue: every metric once, with a name, a unit and a sentence."""

import re
from collections import Counter

import pytest

from foretide.metrics.catalogue import CATALOGUE, EDGE, OPERATOR, QUERY, TASK, at_level
from foretide.metrics.machine_metrics import MACHINE
from foretide.metrics.metric import Level
from foretide.metrics.worker_metrics import WORKER

LEVELS = {
    Level.QUERY: QUERY,
    Level.OPERATOR: OPERATOR,
    Level.EDGE: EDGE,
    Level.TASK: TASK,
    Level.WORKER: WORKER,
    Level.MACHINE: MACHINE,
}


def test_no_name_is_taken_twice_over_all_levels():
    names = Counter(metric.name for metrics in LEVELS.values() for metric in metrics)
    assert [name for name, times in names.items() if times > 1] == []
    assert set(CATALOGUE) == set(names)


@pytest.mark.parametrize("level", Level)
def test_a_level_lists_its_metrics_in_order(level):
    assert at_level(level) == list(LEVELS[level]) != []


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda metric: metric.name)
def test_a_metric_has_a_name_in_snake_case_a_unit_and_a_sentence(metric):
    assert CATALOGUE[metric.name] is metric
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", metric.name)
    assert metric.unit
    assert metric.unit == metric.unit.strip()
    assert re.fullmatch(r"[A-Z0-9].*\S\.", metric.meaning)


@pytest.mark.parametrize("metric", [*QUERY, *OPERATOR, *EDGE, *TASK], ids=lambda metric: metric.name)
def test_a_name_that_tells_its_unit_tells_the_right_one(metric):
    units = {
        "_ms_per_second": "ms/s",
        "_rows_per_second": "tuples/s",
        "_ms": "ms",
        "_bytes": "bytes",
        "_rate": "tuples/s",
    }
    told = [unit for ending, unit in units.items() if metric.name.endswith(ending)]
    assert told in ([], [metric.unit])


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("capacity", Level.OPERATOR),
        ("true_processing_rate", Level.OPERATOR),
        ("lag", Level.OPERATOR),
        ("utilization", Level.OPERATOR),
        ("busy_time_ms_per_second", Level.OPERATOR),
        ("input_rows_per_second", Level.QUERY),
    ],
)
def test_the_names_that_storm_flink_and_spark_use_are_kept(name, level):
    assert CATALOGUE[name].level is level


def test_the_catalogue_cannot_be_changed():
    with pytest.raises(TypeError):
        CATALOGUE["new"] = QUERY[0]
