"""Decisions and setups in the store, on SQLite and on PostgreSQL alike, and through the writer beside a pipeline."""

import math
from dataclasses import replace
from functools import partial
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from foretide.control.actions.registry import SetReplicas
from foretide.control.decisions.decision import Decision, Effect, Wish
from foretide.control.history import RecordedForecasts, RecordedWorld
from foretide.control.world.setup import Observed, OperatorSetup, Setup, Target
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.errors import StoreError
from foretide.metrics.metric import Sample
from foretide.store import records
from foretide.store.database import database_url
from foretide.store.metric_store import MetricStore
from foretide.store.upkeep import WriterSettings
from foretide.store.writer import StoreWriter

PIPELINES = (f"pipeline-{number}" for number in count())
WISH = Wish("replicas", SetReplicas("parse", 4), "the load rises, and nul \0")
BETTER = Effect(1, "better", "latency_p99_ms went from 900 to 400: better", "latency_p99_ms", 900.0, 400.0, 1.5)
SETUP = Setup("p", (OperatorSetup("read", spout=True), OperatorSetup("parse", pool=8, edge="parse")))
RECORDED = RecordedWorld(
    5.0, SETUP, Target(2.0), Observed(routes={"parse": (1.0, 0.0)}, quarantined=frozenset("3")), ("replicas",)
)


def decision(number, at=None, *, acts=True, **more):
    chosen = (WISH,) if acts else ()
    return Decision(number, float(number) if at is None else at, "p", wishes=(WISH,), chosen=chosen, **more)


def sql(location, *statements):
    engine = create_engine(database_url(location))
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def ids(found):
    return [each.id for each in found]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 30), st.booleans(), st.sampled_from(["act", "advise"])), max_size=20))
def test_decisions_are_read_by_number_and_by_what_is_asked_for(store, made):
    pipeline = next(PIPELINES)
    written = [decision(number, acts=acts, mode=mode) for number, acts, mode in made]
    store.write_decisions(pipeline, written)
    there = sorted({each.id: each for each in written}.values(), key=lambda each: each.id)
    assert store.decisions(pipeline) == there
    assert store.decisions(pipeline, last=3) == there[-3:]
    assert store.decisions(pipeline, since=10.0) == [each for each in there if each.at >= 10.0]
    assert store.decisions(pipeline, ids=[4, 7, 99]) == [each for each in there if each.id in {4, 7}]
    acted = [each for each in there if each.chosen and each.mode == "act"]
    assert store.decisions(pipeline, acted=True, last=2) == acted[-2:]
    assert store.last_decision_id(pipeline) == max(ids(there), default=0)


def test_pipelines_do_not_see_the_decisions_of_each_other(store):
    store.write_decisions("a", [decision(1)])
    store.write_decisions("b", [decision(1, at=9.0), decision(2)])
    store.write_setups("a", [RECORDED])
    assert store.decisions("a") == [decision(1)]
    assert (store.last_decision_id("a"), store.last_decision_id("c")) == (1, 0)
    assert (store.setups("b"), store.decisions("c")) == ([], [])


def test_an_earlier_decision_gets_its_effect_whether_in_the_same_write_or_a_later_one(store):
    later = decision(2, acts=False, effects_of_earlier=(BETTER, replace(BETTER, decision=77)))
    store.write_decisions("together", [decision(1), later])
    store.write_decisions("later", [decision(1)])
    store.write_decisions("later", [later])
    for pipeline in ("together", "later"):
        assert store.decisions(pipeline) == [decision(1).with_effect(BETTER), later]


def test_writing_a_decision_again_takes_the_old_place_and_does_not_forget_its_effect(store):
    store.write_decisions("p", [decision(1), decision(2, effects_of_earlier=(BETTER,))])
    store.write_decisions("p", [decision(1, problems=("one",))])
    assert store.decisions("p", ids=[1]) == [decision(1, problems=("one",)).with_effect(BETTER)]
    store.write_decisions("p", [decision(1, at=500.0)])
    assert store.decisions("p", ids=[1]) == [decision(1, at=500.0)]


def test_decisions_are_bounded_by_count_and_by_age(store):
    store.write_decisions("p", [decision(number) for number in range(1, 31)], max_decisions=10)
    store.write_decisions("q", [decision(1)])
    assert ids(store.decisions("p")) == list(range(21, 31))
    store.delete_before("p", 25.0)
    assert ids(store.decisions("p")) == list(range(25, 31))
    assert ids(store.decisions("q")) == [1]
    assert records.MAX_DECISIONS == 10_000


def test_many_decisions_are_written_in_parts_and_effects_reach_across_them(store, monkeypatch):
    monkeypatch.setattr(records, "DECISIONS_PER_STATEMENT", 3)
    later = decision(8, acts=False, effects_of_earlier=(BETTER,))
    store.write_decisions("p", [*(decision(number) for number in range(1, 8)), later])
    found = store.decisions("p")
    assert ids(found) == list(range(1, 9))
    assert found[0].effect == BETTER


def test_forgetting_keeps_the_setup_that_was_in_force_at_the_moment(store, monkeypatch):
    setups = [replace(RECORDED, at=at) for at in (1.0, 2.0, 30.0)]
    store.write_setups("p", setups)
    store.delete_before("p", 10.0)
    assert store.setups("p") == setups[1:]
    store.delete_before("p", 99.0)
    assert store.setups("p") == setups[2:]
    monkeypatch.setattr(records, "MAX_SETUPS", 2)
    for at in (40.0, 50.0, 50.0):
        store.write_setups("p", [replace(RECORDED, at=at)])
    assert [each.at for each in store.setups("p")] == [40.0, 50.0]


def test_forecasts_are_kept_for_half_a_day(store, location):
    points = (
        ForecastPoint(10.0, 1 / 3, {0.5: 0.3, 0.9: 0.7, 0.05: 0.1}),
        ForecastPoint(30.0, 2.0, {0.5: 1.0, 0.9: 3.0}),
    )
    made = Forecasts({("arrival_rate", "read"): Forecast("ensemble", points)})
    first, second = (RecordedForecasts.of(at, made) for at in (5.0, 6.0))
    store.write_forecasts("p", [first, second])
    store.write_forecasts("other", [first])
    assert store.forecasts("p") == [first, second]
    assert store.forecasts("p", since=5.5) == store.forecasts("p", since=6.0, until=7.0) == [second]
    read = store.forecasts("p")[0].forecasts(5.0).by_series["arrival_rate", "read"]
    assert read.by == "ensemble"
    assert [point.mean for point in read.points] == [0.333333, 2.0]
    assert read.points[0].quantiles == {0.5: 0.3, 0.9: 0.7}
    store.delete_before("p", 5.5)
    assert store.forecasts("p") == [second]
    late = replace(first, at=6.5 + records.FORECASTS_KEPT_SECONDS)
    store.write_forecasts("p", [late])
    assert store.forecasts("p") == [late]
    assert store.forecasts("other") == [first]
    sql(location, "UPDATE foretide_forecasts SET json = 'no JSON' WHERE at = 5")
    told = []
    assert store.forecasts("other", on_problem=told.append) == []
    assert told[0].startswith("forecast 5 of the store was left out")


def test_damaged_rows_are_told_and_left_out(store, location):
    store.write_decisions("p", [decision(number) for number in range(1, 6)])
    store.write_setups("p", [RECORDED, replace(RECORDED, at=6.0)])
    sql(
        location,
        "UPDATE foretide_decisions SET json = 'no JSON' WHERE id = 1",
        "UPDATE foretide_decisions SET json = replace(json, '\"replicas\"', '\"others\"') WHERE id = 2",
        "UPDATE foretide_decisions SET json = replace(json, '\"format\":1', '\"format\":9') WHERE id = 3",
        "UPDATE foretide_decisions SET json = '[]' WHERE id = 4",
        "UPDATE foretide_setups SET json = '{}' WHERE at = 5",
    )
    told = []
    assert ids(store.decisions("p", on_problem=told.append)) == [5]
    assert [line.split(" of the store")[0] for line in told] == [f"decision {number}" for number in (1, 2, 3, 4)]
    assert "format: this release reads format 1, got 9" in told[2]
    assert store.setups("p", on_problem=told.append) == [replace(RECORDED, at=6.0)]
    assert told[-1].startswith("setup 5 of the store was left out")
    store.write_decisions("p", [decision(1), decision(6, effects_of_earlier=(replace(BETTER, decision=2),))])
    assert ids(store.decisions("p", on_problem=told.append)) == [1, 5, 6]


@pytest.mark.parametrize("wrong", [replace(decision(1), at=math.nan), decision(0), decision(2**63)])
def test_a_decision_that_cannot_be_kept_is_refused_with_all_of_its_batch(store, wrong):
    with pytest.raises(StoreError, match="cannot be stored"):
        store.write_decisions("p", [decision(7), wrong])
    assert store.decisions("p") == []


def without_journal(location):
    """A store as it was before there were decisions."""
    with MetricStore.open(location) as store:
        store.write("p", [Sample("cpu", "w", 1.0, 2.0)])
    sql(location, "DROP TABLE foretide_decisions", "DROP TABLE foretide_setups")


def test_a_store_from_before_there_were_decisions_gets_their_tables_and_keeps_what_it_has(location):
    without_journal(location)
    with MetricStore.open(location, create=False) as store:
        assert (store.decisions("p"), store.setups("p")) == ([], [])
    with MetricStore.open(location) as store:
        store.write_decisions("p", [decision(1)])
        store.write_setups("p", [RECORDED])
    with MetricStore.open(location, create=False) as store:
        assert (store.decisions("p"), store.setups("p")) == ([decision(1)], [RECORDED])
        assert store.read("p") == [Sample("cpu", "w", 1.0, 2.0)]


def test_who_may_only_read_an_older_store_still_reads_its_samples(postgres):
    location = postgres.fresh_url()
    without_journal(location)
    schema = location.rpartition("%3D")[2]
    postgres.run("DROP ROLE IF EXISTS reader")
    postgres.run("CREATE ROLE reader LOGIN")
    postgres.run(f"GRANT USAGE ON SCHEMA {schema} TO reader")
    postgres.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
    with MetricStore.open(location.replace("foretide@", "reader@"), create=False) as store:
        assert len(store.read("p")) == 1
        with pytest.raises(StoreError, match="foretide_decisions"):
            store.decisions("p")


def test_the_writer_keeps_setups_and_decisions_and_applies_their_news(location):
    with StoreWriter(partial(MetricStore.open, location), "p", WriterSettings(max_decisions=2)).start() as writer:
        writer.put_setup(RECORDED)
        writer.put_decisions([decision(1), decision(2)])
        writer.put_decisions([decision(3, acts=False, effects_of_earlier=(replace(BETTER, decision=2),)), decision(0)])
        assert writer.flush(60)
        assert (writer.pending, writer.dropped, writer.refused, writer.problem) == (0, 0, 1, None)
        with MetricStore.open(location) as store:
            assert store.setups("p") == [RECORDED]
            assert [(each.id, each.effect and each.effect.outcome) for each in store.decisions("p")] == [
                (2, "better"),
                (3, None),
            ]
