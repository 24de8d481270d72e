import json
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.spark.compile.bolts import DEAD_COLUMN, Guard, conform
from foretide.spark.compile.timing import Timer
from foretide.topology.graph import Arrow, PerTuple

SCHEMA = pa.schema([("n", pa.int64())])


class Unheard:
    def add(self, sums):
        """Nobody listens."""


INPUT = pa.schema([("n", pa.int64()), ("word", pa.string())])


def batch(numbers):
    return pa.RecordBatch.from_pylist([{"n": n, "word": f"w{n}"} for n in numbers], INPUT)


def run(work, *batches, kind=PerTuple, attempts=3):
    """Good numbers and dead letters, as Spark would get them."""
    made = list(Guard("parse", kind(work, "n long"), SCHEMA, attempts, Timer(Unheard())).run(iter(batches)))
    assert all(part.schema.names == ["n", DEAD_COLUMN] for part in made)
    rows = [row for part in made for row in part.to_pylist()]
    good = [row["n"] for row in rows if row[DEAD_COLUMN] is None]
    dead = [row[DEAD_COLUMN] for row in rows if row[DEAD_COLUMN] is not None]
    assert all(row["n"] is None for row in rows if row[DEAD_COLUMN] is not None)
    return good, dead


def numbers_of(dead):
    return [json.loads(letter["tuple"])["n"] for letter in dead]


def per_tuple(breaks):
    def work(row):
        if breaks(row["n"]):
            raise ValueError(f"no {row['n']}")
        yield {"n": row["n"] * 10}

    return work


def in_arrow(breaks):
    def work(batches):
        for part in batches:
            for n in part["n"].to_pylist():
                if breaks(n):
                    raise ValueError(f"no {n}")
            yield pa.RecordBatch.from_pydict({"n": [n * 10 for n in part["n"].to_pylist()]})

    return work


KINDS = pytest.mark.parametrize(("kind", "make"), [(PerTuple, per_tuple), (Arrow, in_arrow)])


@KINDS
def test_work_that_never_fails_passes_every_tuple(kind, make):
    assert run(make(lambda _: False), batch([1, 2]), batch([3]), kind=kind) == ([10, 20, 30], [])


@KINDS
def test_a_task_without_tuples_makes_none(kind, make):
    assert run(make(lambda _: False), kind=kind) == ([], [])
    assert run(make(lambda _: False), batch([]), kind=kind) == ([], [])


@KINDS
def test_failing_tuples_are_found_and_set_aside_with_all_there_is_to_know(kind, make):
    good, dead = run(make(lambda n: n in {3, 7}), batch(range(5)), batch(range(5, 9)), kind=kind, attempts=3)
    assert good == [0, 10, 20, 40, 50, 60, 80]
    assert dead == [
        {"bolt": "parse", "error": f"ValueError: no {n}", "attempts": 3, "tuple": json.dumps({"n": n, "word": f"w{n}"})}
        for n in (3, 7)
    ]


@KINDS
@pytest.mark.parametrize("attempts", [1, 4])
def test_a_tuple_that_fails_for_good_is_tried_as_often_as_was_asked(kind, make, attempts):
    tries = Counter()

    def breaks(n):
        tries[n] += 1
        return n == 1

    _, dead = run(make(breaks), batch([1]), kind=kind, attempts=attempts)
    assert tries == {1: attempts}
    assert dead[0]["attempts"] == attempts


@KINDS
def test_a_failure_that_passes_is_recovered_by_a_retry(kind, make):
    tries = Counter()

    def breaks(n):
        tries[n] += 1
        return n == 2 and tries[n] < 3

    assert run(make(breaks), batch([1, 2, 3]), kind=kind, attempts=3) == ([10, 20, 30], [])


@KINDS
def test_without_retries_a_failure_that_would_pass_is_final_for_a_lone_tuple(kind, make):
    tries = Counter()

    def breaks(n):
        tries[n] += 1
        return tries[n] == 1

    good, dead = run(make(breaks), batch([2]), kind=kind, attempts=1)
    assert (good, numbers_of(dead)) == ([], [2])


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=4), st.sets(st.integers(0, 30)), st.booleans())
def test_good_and_dead_together_are_the_input(parts, bad, arrow):
    kind, make = (Arrow, in_arrow) if arrow else (PerTuple, per_tuple)
    good, dead = run(make(bad.__contains__), *map(batch, parts), kind=kind, attempts=2)
    everything = [n for part in parts for n in part]
    assert good == [n * 10 for n in everything if n not in bad]
    assert numbers_of(dead) == [n for n in everything if n in bad]


@settings(deadline=None)
@given(st.integers(1, 40), st.data())
def test_bisecting_looks_at_few_parts_when_few_tuples_fail(size, data):
    bad = data.draw(st.integers(0, size - 1))
    calls = []

    def work(batches):
        calls.append(1)
        yield from in_arrow(lambda n: n == bad)(batches)

    run(work, batch(range(size)), kind=Arrow, attempts=1)
    assert len(calls) <= 2 * size.bit_length() + 1


# ---- what a tuple turns into


def test_a_tuple_may_become_none_or_many():
    def work(row):
        for _ in range(row["n"]):
            yield {"n": row["n"]}

    assert run(work, batch([0, 1, 3])) == ([1, 3, 3, 3], [])


def test_nothing_of_a_tuple_that_fails_half_way_comes_out():
    def work(row):
        yield {"n": 1}
        raise RuntimeError("half way")

    good, dead = run(work, batch([5]))
    assert good == []
    assert dead[0]["error"] == "RuntimeError: half way"


@pytest.mark.parametrize("misfit", ["text", [1], {"a": 1}, object(), 2**70], ids=lambda value: type(value).__name__)
def test_output_that_does_not_fit_the_schema_makes_its_own_tuple_a_dead_letter(misfit):
    def work(row):
        yield {"n": misfit if row["n"] == 2 else row["n"]}

    good, dead = run(work, batch([1, 2, 3]))
    assert good == [1, 3]
    assert numbers_of(dead) == [2]
    assert dead[0]["error"]


@pytest.mark.parametrize("output", [None, 5, [5]], ids=["nothing", "a number", "a list of numbers"])
def test_output_that_is_no_tuple_at_all_makes_a_dead_letter(output):
    good, dead = run(lambda row: output if row["n"] == 2 else [row], batch([1, 2, 3]))
    assert good == [1, 3]
    assert numbers_of(dead) == [2]


def test_arrow_output_that_does_not_fit_makes_dead_letters():
    def work(batches):
        for part in batches:
            numbers = part["n"].to_pylist()
            yield pa.RecordBatch.from_pydict({"wrong" if 2 in numbers else "n": numbers})

    good, dead = run(work, batch([1, 2, 3]), kind=Arrow)
    assert good == [1, 3]
    assert numbers_of(dead) == [2]
    assert dead[0]["error"] == "ValueError: the bolt's output lacks n; it has wrong"


def test_work_that_changes_its_tuple_gets_it_whole_at_the_next_try_and_so_does_the_dead_letter():
    seen = []

    def work(row):
        seen.append(row.pop("word", "gone"))
        raise ValueError

    _, dead = run(work, batch([1]), attempts=2)
    assert seen == ["w1", "w1"]
    assert json.loads(dead[0]["tuple"]) == {"n": 1, "word": "w1"}


def test_a_dead_letter_holds_values_that_json_has_no_word_for():
    row = pa.RecordBatch.from_pydict({"at": pa.array([0], pa.timestamp("us", tz="UTC")), "raw": [b"\xff"], "s": ["é"]})
    _, dead = run(per_tuple(lambda _: True), row)
    held = json.loads(dead[0]["tuple"])
    assert held["at"].startswith("1970-01-01")
    assert "\\xff" in held["raw"]
    assert held["s"] == "é"
    assert "é" in dead[0]["tuple"]


def test_what_stops_a_process_is_not_caught():
    def work(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(work, batch([1]))


# ---- the declared schema


def test_output_is_put_in_the_order_and_types_of_the_schema():
    made = conform(
        pa.RecordBatch.from_pydict({"extra": ["x"], "b": pa.array([2], pa.int32()), "a": ["s"]}),
        pa.schema([("a", pa.string()), ("b", pa.int64())]),
    )
    assert made.schema == pa.schema([("a", pa.string()), ("b", pa.int64())])
    assert made.to_pylist() == [{"a": "s", "b": 2}]


def test_a_cast_that_would_lose_something_is_an_error():
    with pytest.raises(pa.ArrowInvalid):
        conform(pa.RecordBatch.from_pydict({"n": [1.5]}), SCHEMA)


def test_missing_columns_are_all_named():
    with pytest.raises(ValueError, match="lacks a, b; it has n"):
        conform(batch([1]).select(["n"]), pa.schema([("a", pa.string()), ("n", pa.int64()), ("b", pa.string())]))
