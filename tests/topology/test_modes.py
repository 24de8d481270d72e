"""What is possible in each execution mode."""

from __future__ import annotations

import foretide as ft
from foretide.settings.run import RunSettings
from foretide.topology.modes import MICRO_BATCH, REAL_TIME
from foretide.topology.validate import find_run_problems

KAFKA = ft.KafkaSource("localhost:9092", "words")
SINK = ft.KafkaSink("localhost:9092", "out-{stream}")


def topology(source=KAFKA):
    return ft.Topology("loud", [ft.Spout("in", source)], [ft.Bolt("upper", lambda frame: frame, [ft.From("in")])])


def test_from_kafka_to_kafka_at_least_once_is_possible_in_real_time():
    assert find_run_problems(topology(), SINK, "at-least-once", REAL_TIME) == []
    assert find_run_problems(topology(), SINK, "none", REAL_TIME) == []


def test_what_is_not_possible_in_real_time_is_named_with_the_way_out():
    found = find_run_problems(topology(ft.Rate(10)), ft.Parquet("out"), "exactly-once", REAL_TIME)
    texts = [str(problem) for problem in found]
    assert any("real-time mode cannot read Rate" in text and "Use KafkaSource" in text for text in texts)
    assert any("real-time mode cannot write to Parquet" in text and "Use KafkaSink" in text for text in texts)
    assert any("real-time mode cannot give exactly-once" in text and "at-least-once" in text for text in texts)


def test_a_limit_of_rows_is_refused_in_real_time_only():
    limited = topology(ft.KafkaSource("localhost:9092", "words", max_rows=10))
    (problem,) = find_run_problems(limited, SINK, "at-least-once", REAL_TIME)
    assert "max_rows" in str(problem)
    assert find_run_problems(limited, SINK, "at-least-once", MICRO_BATCH) == []


def test_settings_take_the_strongest_guarantee_of_a_mode():
    assert RunSettings().in_mode("micro-batch").guarantee == "exactly-once"
    assert RunSettings().in_mode("real-time").guarantee == "at-least-once"
    assert RunSettings(guarantee="none").in_mode("real-time").guarantee == "none"
