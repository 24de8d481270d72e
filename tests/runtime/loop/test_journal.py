"""The journal of a running loop: never in the way of its caller, in step with the store."""

import threading
from functools import partial

from foretide.control.actions.registry import SetReplicas
from foretide.control.decisions.decision import Decision, Effect, Wish
from foretide.runtime.loop.controller import Journal
from foretide.store.metric_store import MetricStore
from foretide.store.upkeep import WriterSettings
from foretide.store.writer import StoreWriter

BETTER = Effect(1, "better", "latency_p99_ms went from 900 to 400: better", "latency_p99_ms", 900.0, 400.0, 1.5)


def decision(number, **more):
    wish = Wish("replicas", SetReplicas("parse", 4), "the load rises")
    return Decision(number, float(number), "p", wishes=(wish,), chosen=(wish,), **more)


def ids(found):
    return [each.id for each in found]


def test_a_store_that_hangs_never_holds_up_a_journal_and_gets_the_newest_decisions_later(tmp_path):
    go_on, hangs = threading.Event(), threading.Event()

    def hanging():
        hangs.set()
        go_on.wait(60)
        return MetricStore.open(tmp_path / "m.db")

    writer = StoreWriter(hanging, "p", WriterSettings(decision_capacity=4)).start()
    assert hangs.wait(60)
    journal = Journal(writer)
    for number in range(1, 11):
        journal.note(decision(number))
    assert (writer.dropped, len(journal.decisions), journal.problem) == (6, 10, None)
    go_on.set()
    assert writer.close(60)
    with MetricStore.open(tmp_path / "m.db") as store:
        assert ids(store.decisions("p")) == [7, 8, 9, 10]
    journal.note(decision(11))
    assert (writer.dropped, journal.last_id) == (7, 11)


def test_a_journal_tells_the_decisions_in_memory_and_in_the_store_how_they_turned_out(tmp_path):
    with StoreWriter(partial(MetricStore.open, tmp_path / "m.db"), "p").start() as writer:
        journal = Journal(writer)
        for each in (decision(1), Decision(2, 2.0, "p"), Decision(3, 3.0, "p", effects_of_earlier=(BETTER,))):
            journal.note(each)
        assert writer.flush(60)
    assert [each.effect for each in journal.decisions] == [BETTER, None]
    with MetricStore.open(tmp_path / "m.db") as store:
        assert [(each.id, each.effect) for each in store.decisions("p")] == [(1, BETTER), (3, None)]


def test_a_journal_goes_on_counting_where_the_last_run_ended():
    journal = Journal(None, first_id=41)
    assert journal.last_id == 40
    journal.note(decision(45))
    assert (ids(journal.decisions), journal.last_id) == ([45], 45)


def test_a_journal_in_memory_is_bounded():
    journal = Journal(None)
    for number in range(1, 1_202):
        journal.note(decision(number))
        journal.note(Decision(number, float(number), "p"))
    assert ids(journal.decisions) == list(range(202, 1_202))
    assert journal.last_id == 1_201


def test_a_journal_never_fails_its_caller():
    class Broken:
        def put_decisions(self, _):
            raise OSError("no more threads")

    journal = Journal(Broken())
    journal.note(decision(1))
    assert journal.problem == "a decision was not noted: OSError: no more threads"
    assert ids(journal.decisions) == [1]
    journal.note(None)
    assert journal.problem.startswith("a decision was not noted: AttributeError")
    journal.note(Decision(2, 2.0, "p"))
    assert journal.problem is None
