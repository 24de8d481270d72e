"""Views as values: joins, forecasts, heat and capacity, whatever is known of a pipeline."""

from dataclasses import replace

import pytest

from control.worlds import SETUP, loaded
from foretide.control.forecast_scores import HorizonTrust
from foretide.control.history import RecordedForecasts, RecordedSeries, RecordedWorld
from foretide.control.world.setup import Setup
from foretide.joins.plan import JoinPlan, JoinView, KeyGrid, KeyLoad, TailLoad
from foretide.metrics.metric import Level, Sample
from foretide.status.views.forecasts import chosen_series, forecast_view, series_of
from foretide.status.views.heat import heat_map
from foretide.status.views.joins import joins
from foretide.status.views.overview import overview
from foretide.status.views.seen import Seen
from foretide.status.views.topology import topology
from foretide.status.views.what_if import Question, answer

NOTHING = Seen("q-1", "q", 100.0, running=True)


def samples(*figures):
    return {(metric, subject): Sample(metric, subject, 100.0, value) for metric, subject, value in figures}


def test_of_a_pipeline_that_has_said_nothing_there_is_a_view_too():
    assert (overview(NOTHING).health, topology(NOTHING).operators) == ("starting", ())
    assert (joins(NOTHING), heat_map(NOTHING, Level.WORKER).rows) == ((), ())
    assert answer([], Question()).problem == "no batch was recorded in the last minutes"


def test_a_graph_is_made_of_measurements_where_no_control_loop_runs():
    found = topology(Seen("q", "q", 100.0, running=True, samples=samples(
        ("flow_fraction", "read->work", 2.0), ("arrival_rate", "read", 10.0), ("arrival_rate", "work", 20.0),
        ("capacity", "work", 0.9),
    )))  # fmt: skip
    assert [(each.name, each.spout, each.level, each.bottleneck) for each in found.operators] == [
        ("read", True, 0, False),
        ("work", False, 1, True),
    ]
    assert [(each.source, each.target, each.rate) for each in found.streams] == [("read", "work", 20.0)]


def test_a_worker_is_warm_by_how_far_it_exceeds_its_peers_and_a_share_of_time_by_itself():
    found = heat_map(Seen("q", "q", 100.0, running=True, samples=samples(
        ("worker_slowness", "0", 1.0), ("worker_slowness", "1", 3.0), ("worker_slowness", "2", 1.0),
        ("worker_cpu_wait_percent", "1", 40.0),
    )), Level.WORKER)  # fmt: skip
    assert [[cell.heat for cell in row] for row in found.rows] == [[0.0, 0.0], [1.0, 0.4], [0.0, 0.0]]
    assert [cell.text for cell in found.rows[0]] == ["1", "-"]


def test_a_join_shows_loads_with_and_without_its_plan_and_its_hot_keys_by_name():
    keys = (KeyLoad(7, 100.0, 100.0), KeyLoad(8, 1.0, 1.0))
    view = JoinView("j", 2, windows=3, keys=keys, tail=(TailLoad(1.0, 1.0), TailLoad(1.0, 1.0)), names={7: "cell 7"},
                    plan=JoinPlan({7: KeyGrid(((0, 1),))}))  # fmt: skip
    (found,) = joins(Seen("q", "q", 1.0, running=True, world=RecordedWorld(0.0, Setup("q"), joins={"j": view})))
    assert found.imbalance < 0.1
    assert found.hash_imbalance > 0.9
    assert [(key.name, key.placement, key.partitions) for key in found.keys] == [
        ("cell 7", "1 x 2 grid", (0, 1)),
        ("8", "by hash", ()),
    ]


def test_a_forecast_is_held_against_what_came_at_the_horizon_that_is_asked_for():
    def made(at, first):
        series = RecordedSeries("arrival_rate", "read", "naive", (5.0, 10.0), (first, first + 1), {0.1: (1.0, 2.0)})
        return RecordedForecasts(at, (series, RecordedSeries("lag", "read", "naive", (5.0,), (0.0,))))

    records = [made(100.0, 10.0), made(105.0, 20.0)]
    known = series_of(records)
    assert [each.metric for each in known] == ["arrival_rate", "lag"]
    chosen = chosen_series(known, None, "read")
    trust = [
        HorizonTrust("arrival_rate", "read", 5.0, True, 9, 1.0, 2.0),
        HorizonTrust("lag", "x", 5.0, False, 0, 0, 0),
    ]
    found = forecast_view(110.0, chosen, records, [Sample("arrival_rate", "read", 105.0, 11.0)], trust, (), 9.0)
    assert (found.horizon, [(each.at, each.mean, each.low) for each in found.earlier]) == (
        10.0,
        [(110.0, 11.0, 2.0), (115.0, 21.0, 2.0)],
    )
    assert ([each.at for each in found.ahead], [each.seconds for each in found.trust]) == ([110.0, 115.0], [5.0])
    assert chosen_series(known, "nothing", None) is None


def test_what_if_says_why_there_is_no_answer():
    found = answer([loaded()], Question(rate=1e5, latency=1.0))
    assert "too few" in found.problem
    assert found.processors is None


@pytest.mark.parametrize(("budget", "fits"), [(3, False), (64, True)])
def test_what_if_in_real_time_plans_within_a_budget(budget, fits):
    found = answer([loaded(setup=replace(SETUP, mode="pipeline"))], Question(budget=budget))
    assert (found.mode, found.problem is None) == ("pipeline", fits)
    assert not fits or (found.processors <= budget and found.rate == pytest.approx(1000.0))
