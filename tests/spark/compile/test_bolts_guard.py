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


# ---- poison


def failing(kind, make_error, bad=frozenset({3})):
    """Work of either kind that raises what is made for it."""

    def per_tuple(row):
        if row["n"] in bad:
            raise make_error()
        yield {"n": row["n"] * 10}

    def in_arrow(batches):
        for part in batches:
            if bad & set(part["n"].to_pylist()):
                raise make_error()
            yield pa.RecordBatch.from_pydict({"n": [n * 10 for n in part["n"].to_pylist()]})

    return per_tuple if kind is PerTuple else in_arrow


class MuteError(Exception):
    def __str__(self):
        raise SystemExit("no words")


class WordyStr(str):
    __slots__ = ()

    def __format__(self, spec):
        raise RuntimeError("no format")

    def encode(self, *_):
        raise RuntimeError("no code")


class WordyError(Exception):
    def __str__(self):
        return WordyStr("well \udc80")


class Nameless(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")


class NamelessError(Exception, metaclass=Nameless):
    pass


EITHER_KIND = pytest.mark.parametrize("kind", [PerTuple, Arrow])
POISON = {
    "SystemExit: 3": lambda: SystemExit(3),
    "KeyboardInterrupt: ": KeyboardInterrupt,
    "GeneratorExit: ": GeneratorExit,
    "RuntimeError: generator raised StopIteration": StopIteration,
    "ValueError: bad \\ud800 text": lambda: ValueError("bad \ud800 text"),
    "ValueError: \\udcff\x00": lambda: ValueError(b"\xff\x00".decode("utf-8", "surrogateescape")),
    "MuteError: (cannot be read)": MuteError,
    "WordyError: well \\udc80": WordyError,
    "an exception without a readable name: ": NamelessError,
}


@EITHER_KIND
@pytest.mark.parametrize("told", POISON)
def test_whatever_is_raised_the_tuple_is_a_dead_letter_and_the_others_pass(kind, told):
    good, dead = run(failing(kind, POISON[told]), batch(range(6)), kind=kind, attempts=1)
    assert good == [0, 10, 20, 40, 50]
    assert (numbers_of(dead), dead[0]["error"]) == ([3], told)


@EITHER_KIND
@given(text=st.text(st.characters(), max_size=50), error=st.sampled_from([*POISON.values()]), long=st.booleans())
@settings(max_examples=60)
def test_any_text_of_any_error_can_be_written_and_is_cut(kind, text, error, long):
    made = error()
    made.args = (text * (1_000 if long else 1),)
    _, dead = run(failing(kind, lambda: made), batch([3]), kind=kind, attempts=2)
    assert len(dead) == 1
    assert dead[0]["error"].encode()
    assert len(dead[0]["error"]) < 6 * 4_000 + 100


@EITHER_KIND
def test_a_huge_error_text_is_cut_and_says_how_much_was_left_out(kind):
    _, dead = run(failing(kind, lambda: ValueError("x" * 30_000_000)), batch([3]), kind=kind, attempts=1)
    assert dead[0]["error"] == f"ValueError: {'x' * 3988}... (29996012 more)"


def not_utf8(values):
    return pa.array(values, pa.binary()).view(pa.string())


ODD_VALUES = {
    "text": (not_utf8([b"ok", b"\xff\x00\xfe", b"ok"]), "\\xff\x00\\xfe"),
    "time": (pa.array([0, 569_000_000_000_000_000, 0]).cast(pa.timestamp("us")), "569000000000000000 (timestamp[us])"),
    "day": (pa.array([0, 2**30, 0], pa.int32()).cast(pa.date32()), "1073741824 (date32[day])"),
    "list": (pa.ListArray.from_arrays([0, 1, 2, 3], not_utf8([b"ok", b"\xff", b"ok"])), ["\\xff"]),
    "struct": (pa.StructArray.from_arrays([not_utf8([b"ok", b"\xff", b"ok"])], ["s"]), {"s": "\\xff"}),
}


@EITHER_KIND
@pytest.mark.parametrize("name", ODD_VALUES)
def test_a_tuple_that_python_cannot_hold_is_a_dead_letter_with_what_can_be_told_of_it(kind, name):
    column, told = ODD_VALUES[name]
    odd = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), column], ["n", name])

    def in_arrow(batches):
        for part in batches:
            yield pa.RecordBatch.from_pylist([{"n": row["n"] * 10} for row in part.to_pylist()])

    good, dead = run(per_tuple(lambda _: False) if kind is PerTuple else in_arrow, odd, kind=kind)
    assert good == [10, 30]
    assert json.loads(dead[0]["tuple"]) == {"n": 2, name: told}


class Hostile:
    """A row, or a value, that raises whatever it is asked."""

    def __getattr__(self, name):
        raise SystemExit(name)

    def __contains__(self, name):
        raise KeyboardInterrupt(name)

    def __index__(self):
        raise GeneratorExit


@pytest.mark.parametrize(
    "made",
    [Hostile(), {"n": Hostile()}, None, 7, {"n": "seven"}, {"n": 2**70}, {"n": "\ud800"}],
    ids=lambda made: type(made).__name__,
)
def test_output_of_any_kind_that_does_not_fit_is_a_dead_letter_of_its_tuple(made):
    def work(row):
        yield {"n": row["n"]}
        if row["n"] == 2:
            yield made

    good, dead = run(work, batch([1, 2, 3]))
    assert (good, numbers_of(dead)) == ([1, 3], [2])


def test_a_tuple_that_its_work_has_changed_is_told_as_it_came():
    def work(row):
        row["items"].append(Hostile())
        raise ValueError("no")

    _, dead = run(work, pa.RecordBatch.from_pydict({"n": [1], "items": [[1, 2]]}), attempts=1)
    assert json.loads(dead[0]["tuple"]) == {"n": 1, "items": [1, 2]}


def test_arrow_work_that_raises_without_tuples_makes_none():
    def work(batches):
        list(batches)
        raise ValueError("no")

    assert run(work, batch([]), kind=Arrow) == ([], [])


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
