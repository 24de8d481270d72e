import pyarrow as pa
import pytest
from pyspark.accumulators import Accumulator

from foretide.metrics.batch import EventTimes
from foretide.spark.compile import timing
from foretide.spark.compile.bolts import Guard, _each_batch, _each_tuple
from foretide.spark.compile.timing import _NOTHING, Timer, Timers, _SumParam, read_event_times
from foretide.topology.graph import Arrow, PerTuple

SCHEMA = pa.schema([("n", pa.int64())])


def batch(*numbers):
    return pa.RecordBatch.from_pylist([{"n": n} for n in numbers], SCHEMA)


@pytest.fixture
def clock(monkeypatch):
    """Time goes on only when someone works or waits."""

    class Clock:
        now = 0.0

        def spend(self, seconds):
            self.now += seconds

    made = Clock()
    monkeypatch.setattr(timing, "perf_counter", lambda: made.now)
    return made


def timers(each, every=1):
    return Timers({"b": each}, {"b": Timer(Accumulator(0, _NOTHING, _SumParam()), every)})


def test_a_bolt_that_works_tuple_by_tuple_reports_sum_and_squares_of_its_times(clock):
    def work(row):
        clock.spend(row["n"])
        yield row

    mine = timers(each=True)
    assert len(list(_each_tuple(PerTuple(work, "n long"), SCHEMA, mine.timers["b"], [batch(1, 2), batch(3)]))) == 2
    found = mine.since_last()["b"]
    assert (found.tuples, found.timed, found.seconds, found.squares, found.dead) == (3, 3, 6.0, 14.0, 0)


def test_only_every_nth_tuple_is_timed_across_batches_of_a_task(clock):
    def work(row):
        clock.spend(row["n"])
        yield row

    mine = timers(each=True, every=3)
    list(_each_tuple(PerTuple(work, "n long"), SCHEMA, mine.timers["b"], [batch(1, 1), batch(5, 1, 1), batch(7, 1)]))
    found = mine.since_last()["b"]
    assert (found.tuples, found.timed, found.seconds) == (7, 2, 12.0)


def test_each_look_tells_what_came_since_the_last_one(clock):
    mine = timers(each=True)
    mine.timers["b"].report(5, 5, 1.0, 0.5)
    assert mine.since_last()["b"].tuples == 5
    mine.timers["b"].report(2, 1, 0.25, 0.125)
    found = mine.since_last()["b"]
    assert (found.tuples, found.timed, found.seconds, found.squares) == (2, 1, 0.25, 0.125)
    assert mine.since_last()["b"].tuples == 0


@pytest.mark.parametrize("guarded", [False, True])
def test_an_arrow_bolt_is_timed_as_a_whole_without_its_waiting_for_input(clock, guarded):
    def source():
        for numbers in ([1, 2], [3]):
            clock.spend(100)
            yield batch(*numbers)

    def work(batches):
        for given in batches:
            clock.spend(given.num_rows)
            yield given
        clock.spend(0.5)

    mine = timers(each=False)
    if guarded:
        made = Guard("b", Arrow(work, "n long"), SCHEMA, 1, mine.timers["b"]).run(source())
    else:
        made = _each_batch(Arrow(work, "n long"), SCHEMA, mine.timers["b"], source())
    for _ in made:
        clock.spend(1000)  # what happens to the output is not the bolt's time
    found = mine.since_last()["b"]
    assert (found.tuples, found.timed, found.seconds, found.squares) == (3, 3, 3.5, None)


def test_dead_letters_are_counted(clock):
    def work(row):
        if row["n"] > 1:
            raise ValueError("no")
        yield row

    mine = timers(each=True)
    list(Guard("b", PerTuple(work, "n long"), SCHEMA, 1, mine.timers["b"]).run([batch(1, 2, 3)]))
    assert mine.since_last()["b"].dead == 2


def test_event_times_are_told_at_each_level():
    read = read_event_times({"tuples": 4, "mean": 2.5, "at": [1.0, 1.1, 2.0]})
    assert read == EventTimes(4, 2.5, {0.01: 1.0, 0.05: 1.1, 0.5: 2.0})


@pytest.mark.parametrize(
    "nothing", [{"tuples": 0, "mean": None, "at": None}, {"tuples": None, "mean": None, "at": None}]
)
def test_a_batch_without_tuples_has_no_event_times(nothing):
    assert read_event_times(nothing) is None


def test_other_levels_than_were_asked_for_are_no_answer():
    with pytest.raises(ValueError):
        read_event_times({"tuples": 4, "mean": 2.5, "at": [1.0, 2.0]})
