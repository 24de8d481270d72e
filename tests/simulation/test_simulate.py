"""The simulator as a whole: nothing lost, no chance but what is handed in, and bad input refused."""

import numpy as np
import pytest

from foretide.errors import ModelError
from foretide.queueing.model_file import model_from_toml
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.pipeline import run_pipeline, simulate
from foretide.simulation.results import report
from foretide.simulation.routes import RouteChange
from foretide.simulation.scenario import Scenario, scenario_of
from foretide.simulation.variation import ArrivalStream, RateCurve, Variation
from foretide.simulation.workers import Outage, Slowdown


def diamond(**options):
    """A fork, a join, a gain below and one above 1, and a loop."""
    network = Network(
        (
            Operator("in", 100.0),
            Operator("left", 60.0, service_scv=0.5),
            Operator("right", 40.0, service_scv=2.0),
            Operator("out", 200.0, splits=True),
        ),
        (
            Flow("in", "left", 1.4),
            Flow("in", "right", 0.6),
            Flow("left", "out"),
            Flow("right", "out", 2.0),
            Flow("out", "left", 0.1),
        ),
        {"in": 50.0},
    )
    workers = {"in": 2, "left": 3, "right": 2, "out": 2}
    return Scenario(network, workers, **{"duration": 200.0, **options})


DISTURBED = {
    "slowdowns": (Slowdown(0, 20.0, 60.0, 0.3, "left"), Slowdown(1, 50.0, 90.0, 0.0, "out")),
    "outages": (
        Outage(0, 30.0, 40.0, "in"),
        Outage(1, 35.0, 45.0, "in"),
        Outage(2, 70.0, 95.0, "left"),
        Outage(0, 100.0, 130.0, "right"),
    ),
    "routes": {
        "right": (RouteChange((3.0, 1.0)), RouteChange((0.0, 1.0), since=99.0), RouteChange((1.0, 1.0), since=140.0))
    },
}


@pytest.mark.parametrize("options", [{}, DISTURBED], ids=["calm", "disturbed"])
def test_every_tuple_is_processed_once(options):
    result = simulate(diamond(**options), np.random.default_rng(1))
    assert result.trees == result.completed > 9_000
    for operator in result.operators:
        assert operator.arrived == operator.served, operator.name
    into = {operator.name: operator.arrived for operator in result.operators}
    assert into["in"] == result.trees
    assert 1.3 * into["in"] < into["left"] - 0.1 * into["out"] < 1.5 * into["in"]
    if options:
        replayed = sum(operator.replayed for operator in result.operators)
        assert 1 <= replayed <= 4, "each outage takes what its worker had, if it had anything"


@pytest.mark.parametrize("options", [{}, DISTURBED], ids=["calm", "disturbed"])
def test_windows_change_nothing(options):
    scenario = diamond(**options)

    def with_window(window):
        records = run_pipeline(scenario, np.random.default_rng(5), lambda _: None, window)
        return np.sort(records.trees.completion_times), report(scenario, records)

    (small_times, small), (large_times, large) = with_window(137), with_window(10**9)
    assert np.array_equal(small_times, large_times)
    for one, other in zip(small.operators, large.operators, strict=True):
        assert one.queue_length.value == pytest.approx(other.queue_length.value, abs=1e-9)


def test_same_seed_same_result_and_another_seed_another():
    first, same, other = (simulate(diamond(), np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert first == same
    assert first.completion_time != other.completion_time


def test_a_route_leaves_arrivals_and_service_times_as_they_were():
    plain = simulate(diamond(), np.random.default_rng(2))
    routed = simulate(diamond(routes={"out": (RouteChange((1.0, 1.0)),)}), np.random.default_rng(2))
    assert plain.operator("in") == routed.operator("in")
    assert plain.operator("right") == routed.operator("right")
    assert plain.operator("out").sojourn.value < routed.operator("out").sojourn.value


def test_littles_law_holds_within_a_run():
    result = simulate(diamond(duration=2000.0), np.random.default_rng(1))
    for each in result.operators:
        busy = each.utilization.value * each.workers
        present = each.queue_length.value + busy
        assert present == pytest.approx(each.throughput.value * each.sojourn.value, rel=0.01)


def one(**options):
    network = Network((Operator("only", 10.0),), external={"only": options.pop("rate", 5.0)})
    return Scenario(network, {"only": options.pop("workers", 1)}, **{"duration": 400.0, **options})


def test_a_slow_worker_hurts_while_it_is_slow_and_a_bypass_helps():
    slow = {"workers": 4, "rate": 16.0, "batches": 20, "slowdowns": (Slowdown(0, 100.0, 300.0, 0.1, "only"),)}
    equal = (RouteChange((1.0,) * 4),)
    bypass = (*equal, RouteChange((0.0, 1.0, 1.0, 1.0), since=110.0), RouteChange((1.0,) * 4, since=310.0))
    hurt = simulate(one(**slow, routes={"only": equal}), np.random.default_rng(1)).timeline.latency[0.95]
    helped = simulate(one(**slow, routes={"only": bypass}), np.random.default_rng(1)).timeline.latency[0.95]
    assert max(hurt[:4]) < 2
    assert max(hurt[6:14]) > 100
    assert max(helped[7:14]) < 2


def test_arrivals_follow_their_curve():
    curve = RateCurve((0.0, 100.0, 200.0), (100.0, 400.0, 50.0))
    network = Network((Operator("only", 1000.0),), external={"only": 1.0})
    result = simulate(
        Scenario(network, {"only": 1}, 300.0, curves={"only": curve}, batches=3), np.random.default_rng(1)
    )
    assert result.trees == pytest.approx(55_000, rel=0.02)


@pytest.mark.parametrize("scv", [0.0, 0.3, 1.0, 3.0])
def test_arrival_gaps_have_the_given_variation(scv):
    times = ArrivalStream(RateCurve.constant(10.0), Variation(scv), np.random.default_rng(1), 10_000.0).until(1e9)
    gaps = np.diff(times)
    assert gaps.mean() == pytest.approx(0.1, rel=0.03)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(scv, rel=0.05, abs=1e-9)


@pytest.mark.parametrize("shape", ["steps", "linear"])
def test_curves_invert_and_pause(shape):
    curve = RateCurve((0.0, 10.0, 20.0, 30.0, 40.0), (5.0, 0.0, 0.0, 8.0, 2.0), shape)
    times = np.array([0.5, 3.0, 9.5, 33.0, 45.0, 100.0])
    counts = np.array([curve.expected(time) for time in times])
    assert curve.when(counts) == pytest.approx(times)
    pause = ArrivalStream(RateCurve((0.0, 5.0), (3.0, 0.0)), Variation(0.0), np.random.default_rng(1), 100.0)
    assert pause.until(1e9).tolist() == pytest.approx([i / 3 for i in range(1, 16)], abs=1e-9)


def test_nothing_enters_and_nothing_happens():
    result = simulate(one(rate=0.0), np.random.default_rng(1))
    assert result.trees == 0
    assert result.as_dict()["completion_time"] == {"value": None, "half_width": None}
    assert result.operator("only").utilization.value == 0.0


def test_progress_rises_to_one():
    seen = []
    simulate(one(rate=500.0, workers=60), np.random.default_rng(1), seen.append)
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("options", "figure"),
    [
        ({"duration": 0.0}, "duration is 0"),
        ({"warmup": 400.0}, "warm-up is 400 of 400"),
        ({"workers": 0}, "has 0 workers"),
        ({"batches": 1}, "batches is 1"),
        ({"confidence": 1.0}, "confidence is 1"),
        ({"limit": 0}, "limit is 0"),
        ({"routes": {"only": (RouteChange((1.0, 1.0)),)}}, "2 weights for a pool of 1"),
        ({"routes": {"only": (RouteChange((0.0,)),)}}, "no task active"),
        ({"routes": {"only": (RouteChange((-1.0,)),)}}, "weights are (-1.0,)"),
        ({"routes": {"only": (RouteChange((1.0,), since=3.0),)}}, "begins at 3"),
        ({"routes": {"only": (RouteChange((1.0,)), RouteChange((1.0,)))}}, "not in order"),
        ({"routes": {"other": (RouteChange((1.0,)),)}}, "operator 'other'"),
        ({"slowdowns": (Slowdown(0, 0.0, 1.0, -1.0, "only"),)}, "speed is -1"),
        ({"slowdowns": (Slowdown(3, 0.0, 1.0, 0.5, "only"),)}, "worker 3 of only: does not exist"),
        ({"slowdowns": (Slowdown(0, 0.0, float("inf"), 0.0, "only"),)}, "never comes back"),
        ({"outages": (Outage(0, 5.0, 4.0, "only"),)}, "from 5 to 4"),
        ({"outages": (Outage(0, 5.0, 6.0),)}, "belongs to no operator"),
    ],
)
def test_bad_input_is_refused_with_its_figures(options, figure):
    with pytest.raises(ModelError) as refused:
        one(**options)
    assert figure in str(refused.value)


@pytest.mark.parametrize(
    ("since", "rates"),
    [((0.0,), (1.0, 2.0)), ((1.0,), (1.0,)), ((0.0, 2.0, 1.0), (1.0,) * 3), ((0.0,), (-1.0,))],
)
def test_bad_curves_are_refused(since, rates):
    with pytest.raises(ModelError):
        RateCurve(since, rates)


def test_bad_variation_is_refused():
    with pytest.raises(ModelError, match="scv is -1"):
        Variation(-1.0)


MODEL = """
[[operator]]
name = "parse"
service_rate = 100
arrivals = 150
processors = 2

[[operator]]
name = "count"
service_rate = 100
processors = 3
pool = 6

[[flow]]
from = "parse"
to = "count"

[micro_batch]
cores = 4
fixed_cost = 0.2

[simulation]
mode = "{mode}"
curve = [[30, 2.0]]
{more}
"""


def test_a_pipeline_from_a_file():
    more = 'routes = {count = [1, 1]}\nslow_worker = [{operator = "count", replica = 1, factor = 4}]'
    scenario = scenario_of(model_from_toml(MODEL.format(mode="pipeline", more=more)))
    assert scenario.workers == {"parse": 2, "count": 6}
    assert scenario.routes["count"][0].shares == (0.5, 0.5, 0, 0, 0, 0)
    assert scenario.slowdowns[0].speed == 0.25
    assert scenario.curve_of("parse") == RateCurve((0.0, 30.0), (150.0, 300.0))


def test_micro_batches_from_a_file():
    scenario = scenario_of(model_from_toml(MODEL.format(mode="micro-batch", more="")))
    assert scenario.workers == {"parse": 2, "count": 6}
    assert scenario.routes["count"][0].shares == pytest.approx((1 / 3, 1 / 3, 1 / 3, 0, 0, 0))
    assert scenario.batching.cores == 4


def test_a_file_that_says_too_little_is_refused():
    text = MODEL.format(mode="pipeline", more="").replace("processors = 2", "")
    with pytest.raises(ModelError, match="operator 'parse': has no workers"):
        scenario_of(model_from_toml(text))
