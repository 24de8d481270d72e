from dataclasses import replace

import pytest

from foretide.metrics.audit import MissedBatches, audit, spouts_were_idle
from foretide.metrics.batch import BatchReport, EdgeFlow, SourceRange, TupleIds
from foretide.topology.shape import FirstEdge


def handed_out(spout, rows):
    return SourceRange(rows, spout=spout, rows=rows)


FIRST = {"parse": FirstEdge(("lines",))}
CLEAN = BatchReport(
    batch=7,
    finished=10.0,
    duration=1.0,
    input_rows=300,
    route_version=2,
    edges={"parse": EdgeFlow(300, 300), "parse.out": EdgeFlow(257, 514, readers=2)},
    sources=(handed_out("lines", 300),),
    ids={"parse": TupleIds(300, -5, 300, -5)},
)


def kinds(report, first_edges=FIRST, **options):
    return [(alarm.kind, alarm.edge) for alarm in audit(report, first_edges, **options)]


def with_edge(name, flow):
    return replace(CLEAN, edges={**CLEAN.edges, name: flow})


def test_a_clean_batch_raises_no_alarm():
    assert audit(CLEAN, FIRST) == []


@pytest.mark.parametrize("read", [256, 258, 0])
def test_what_was_written_but_not_read_is_an_alarm_on_its_edge(read):
    (alarm,) = audit(with_edge("count", EdgeFlow(257, read)), FIRST)
    assert (alarm.kind, alarm.batch, alarm.edge) == ("rows-differ", 7, "count")
    assert alarm.message == f"257 records were written to edge 'count' but {read} were read"


def test_every_reader_of_a_shared_edge_has_to_read_it_all():
    (alarm,) = audit(with_edge("parse.out", EdgeFlow(257, 513, readers=2)), FIRST)
    assert alarm.kind == "rows-differ"
    assert alarm.message.endswith("513 were read by 2 readers")


def test_a_first_edge_that_carries_other_than_the_source_handed_out_is_an_alarm():
    (alarm,) = audit(with_edge("parse", EdgeFlow(299, 299)), FIRST)
    assert (alarm.kind, alarm.batch, alarm.edge) == ("source-differs", 7, "parse")
    assert "lines handed out 300 rows" in alarm.message
    assert "299 were written to edge 'parse'" in alarm.message


def test_copies_and_several_spouts_are_counted_in():
    report = replace(with_edge("both", EdgeFlow(900, 900)), sources=(handed_out("lines", 300), handed_out("more", 150)))
    assert kinds(report, {"both": FirstEdge(("lines", "more"), copies=2)}) == []
    assert kinds(report, {"both": FirstEdge(("lines", "more"))}) == [("source-differs", "both")]


def test_a_source_that_does_not_count_its_rows_proves_nothing():
    report = replace(with_edge("parse", EdgeFlow(1, 1)), sources=(SourceRange(300),))
    assert kinds(report) == []


def test_a_first_edge_that_spark_did_not_show_proves_nothing():
    assert kinds(CLEAN, FIRST | {"elsewhere": FirstEdge(("lines",))}) == []


@pytest.mark.parametrize("ids", [TupleIds(300, -5, 299, -5), TupleIds(300, -5, 300, 4), TupleIds(1, 9, 0, None)])
def test_tuple_ids_that_do_not_cancel_out_are_an_alarm(ids):
    (alarm,) = audit(replace(CLEAN, ids={"parse": ids}), FIRST)
    assert (alarm.kind, alarm.edge) == ("ids-differ", "parse")
    assert f"{ids.sent_rows} sent, {ids.received_rows} arrived" in alarm.message


def test_ids_of_a_retried_batch_prove_nothing():
    report = replace(CLEAN, ids={"parse": TupleIds(450, 7, 300, -5)})
    assert kinds(report) == [("ids-differ", "parse")]
    assert kinds(replace(report, retried=True)) == []


def test_no_tuples_have_no_ids_and_raise_no_alarm():
    assert kinds(replace(CLEAN, ids={"parse": TupleIds(0, None, 0, None)})) == []


@pytest.mark.parametrize(
    ("sources", "idle"),
    [
        ([handed_out("lines", 0), SourceRange(40)], True),
        ([handed_out("lines", 1), SourceRange(40)], False),
        ([SourceRange(40)], False),  # a spout that does not count its rows may have had some
        ([handed_out("lines", 0), handed_out("more", 3)], True),
    ],
)
def test_a_batch_with_nothing_but_what_came_back_had_idle_spouts(sources, idle):
    assert spouts_were_idle(replace(CLEAN, sources=tuple(sources)), ["lines"]) is idle


def test_a_table_that_could_not_be_read_is_an_alarm():
    (alarm,) = audit(replace(CLEAN, route_version=None), FIRST)
    assert (alarm.kind, alarm.batch, alarm.edge) == ("routes-unreadable", 7, None)
    assert "no row was lost" in alarm.message


def test_a_batch_without_rows_or_without_routes_needs_no_table():
    empty = replace(CLEAN, route_version=None, input_rows=0)
    assert kinds(empty) == []
    assert kinds(replace(CLEAN, route_version=None), routed=False) == []


def test_a_retried_batch_proves_nothing_by_its_counts():
    doubled = with_edge("parse", EdgeFlow(450, 300))
    assert kinds(doubled) == [("rows-differ", "parse"), ("source-differs", "parse")]
    assert kinds(replace(doubled, retried=True)) == []


def test_a_batch_that_spark_could_not_be_asked_about_proves_nothing():
    assert kinds(replace(CLEAN, edges=None)) == []


def test_every_mismatch_of_a_batch_is_reported():
    report = replace(
        CLEAN,
        route_version=None,
        edges={"parse": EdgeFlow(299, 298), "count": EdgeFlow(5, 6)},
        ids={"parse": TupleIds(299, 1, 298, 2)},
    )
    found = kinds(report)
    assert len(found) == 5
    assert set(found) == {
        ("ids-differ", "parse"),
        ("routes-unreadable", None),
        ("rows-differ", "parse"),
        ("rows-differ", "count"),
        ("source-differs", "parse"),
    }


# ---- batches that were missed


def missed(*batches):
    """What is told of each of these batches, None for one that could not be audited."""
    found = MissedBatches()
    seen = [found.see(replace(CLEAN, batch=number, unaudited=unaudited)) for number, unaudited in batches]
    return [(report.unreported, [(each.kind, each.batch) for each in told]) for report, told in seen], found


def test_batches_that_were_never_reported_are_named_and_counted_at_the_next_one():
    told, _ = missed((41, False), (42, False), (54, False), (56, False), (57, False))
    assert told == [(0, []), (0, []), (11, [("batches-unreported", 43)]), (1, [("batches-unreported", 55)]), (0, [])]
    found = MissedBatches()
    found.see(CLEAN)
    (failure,) = found.see(replace(CLEAN, batch=19))[1]
    assert failure.message.startswith("batches 8 to 18 (11) were not reported, measured or audited")


def test_a_batch_that_is_replayed_is_no_gap():
    told, _ = missed((4, False), (4, False), (5, False))
    assert told == [(0, [])] * 3


def test_batches_without_sparks_figures_are_told_at_once_and_named_together_at_the_end():
    told, found = missed((4, False), (5, True), (6, True), (7, True), (8, False), (9, True), (10, False))
    first, last = [("batches-unaudited", 5)], [("batches-unaudited", 5)]
    assert [kinds for _, kinds in told] == [[], first, [], [], last, [("batches-unaudited", 9)], []]
    assert found.end() == []
    for number in (11, 12):
        found.see(replace(CLEAN, batch=number, unaudited=True))
    (failure,) = found.end()
    assert failure.message.startswith("batches 11 to 12 (2) were not audited")
