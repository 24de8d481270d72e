"""Forecasts of the workers of a machine: what every net has to do, and that knowing the neighbours helps."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.generators.colocated import colocated_steps

from foretide.errors import BadSeriesError, ForecastError, ModelFolderError, NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS
from foretide.forecasting.settings import TrainingBudget, WorkerNetSettings
from foretide.forecasting.worker_forecaster import WorkerForecaster
from foretide.forecasting.worker_frames import MachineFrame, WorkerHistory

TARGETS = ("cpu", "sending_time", "queuing_time")
TRAINED = 300  # steps to train on: the same everywhere, so that everything compiles once
SMALL = WorkerNetSettings(
    hidden=8, horizon=2, retrain_every=0, first_training=TRAINED, budget=TrainingBudget(seeds=1, epochs=1, steps=4)
)
FRAMES = [MachineFrame(step.machine, step.workers) for step in colocated_steps(2, 420, workers=4)]
KINDS = ("interference", "plain", "flat")


def fresh(kind="interference", seed=1, **changes):
    return WorkerForecaster(seed, replace(SMALL, net=kind, **changes))


@cache
def state_of(kind):
    """The state of a net that has learnt; each test goes on from it."""
    model = fresh(kind)
    model.learn(FRAMES[:TRAINED])
    return model.state()


@pytest.fixture(scope="module", params=KINDS)
def trained(request):
    return request.param, state_of(request.param)


@pytest.fixture(scope="module")
def interference():
    return "interference", state_of("interference")


def restored(trained):
    model = fresh(trained[0], seed=99)
    model.restore(trained[1])
    return model


def same(one, other):
    assert one.keys() == other.keys()
    for worker, targets in one.items():
        for target, forecast in targets.items():
            np.testing.assert_array_equal(forecast.mean, other[worker][target].mean)
            np.testing.assert_array_equal(forecast.quantiles, other[worker][target].quantiles)


def without(frame, *names):
    return MachineFrame(frame.machine, {name: each for name, each in frame.workers.items() if name not in names})


def test_nothing_learnt_is_said_so():
    with pytest.raises(NotEnoughHistoryError):
        fresh().forecast(1)
    with pytest.raises(NotEnoughHistoryError):
        fresh().retrain()


def test_one_frame_is_enough_for_the_last_value():
    model = fresh()
    model.learn(FRAMES[:1])
    ahead = model.forecast(3)["w1"]["cpu"]
    assert ahead.mean.tolist() == [FRAMES[0].workers["w1"]["cpu"]] * 3
    assert ahead.quantiles.shape == (3, len(LEVELS))


def test_every_worker_and_target_gets_a_distribution(trained):
    ahead = restored(trained).forecast(5)
    assert set(ahead) == {"w0", "w1", "w2", "w3"}
    for worker in ahead.values():
        assert tuple(worker) == TARGETS
        for forecast in worker.values():
            assert forecast.mean.shape == (5,)
            assert (forecast.quantiles >= 0).all()
            assert (np.diff(forecast.quantiles, axis=1) >= 0).all()
            low, high = forecast.interval(0.9)
            assert (high > low).all()
            assert high[4] - low[4] > high[1] - low[1] or low[4] == 0


def test_going_on_after_a_restart_gives_the_same(trained):
    model = restored(trained)
    model.learn([*FRAMES[TRAINED : TRAINED + 5], None, without(FRAMES[306], "w1")])
    later = restored((trained[0], model.state()))
    same(model.forecast(4), later.forecast(4))
    for each in (model, later):
        each.learn([FRAMES[307], FRAMES[308]])
    same(model.forecast(4), later.forecast(4))


def test_frames_one_by_one_or_together_give_the_same(trained):
    together, single = restored(trained), restored(trained)
    together.learn(FRAMES[TRAINED : TRAINED + 6])
    for frame in FRAMES[TRAINED : TRAINED + 6]:
        single.learn([frame])
    same(together.forecast(2), single.forecast(2))


def test_the_state_is_made_of_plain_values_and_arrays(trained):
    for value in trained[1].values():
        assert isinstance(value, bool | int | float | str | list | np.ndarray)


def test_who_is_away_gets_no_forecast_and_is_back_later(trained):
    model = restored(trained)
    model.learn([without(FRAMES[TRAINED], "w2")])
    assert set(model.forecast(1)) == {"w0", "w1", "w3"}
    model.learn([None])
    assert model.forecast(1) == {}
    model.learn([FRAMES[TRAINED + 2]])
    assert set(model.forecast(1)) == {"w0", "w1", "w2", "w3"}


def test_more_workers_than_places_are_made_room_for(trained):
    model = restored(trained)
    frame = FRAMES[TRAINED]
    crowd = MachineFrame(frame.machine, {f"x{at}": frame.workers["w0"] for at in range(11)})
    model.learn([crowd, crowd])
    assert set(model.forecast(1)) == set(crowd.workers)
    assert model.trainings == (2 if trained[0] == "flat" else 1)  # a flat net knows a fixed number of places


def test_workers_that_take_a_place_over_start_with_an_empty_memory(trained):
    model, other = restored(trained), restored(trained)
    frame = FRAMES[TRAINED]
    strangers = {f"x{at}": frame.workers["w0"] for at in range(8)}
    busy = {f"y{at}": frame.workers["w3"] for at in range(4)}
    model.learn([MachineFrame(frame.machine, {**frame.workers, **busy})] * 3)
    other.learn([frame] * 3)
    for each in (model, other):
        each.learn([MachineFrame(frame.machine, strangers)])
    if trained[0] == "plain":  # the other nets know that the neighbours were different
        same(model.forecast(1), other.forecast(1))
    assert set(model.forecast(1)) == set(strangers)


def test_a_feature_that_is_not_measured_keeps_its_last_value(trained):
    whole, partly = restored(trained), restored(trained)
    frame = FRAMES[TRAINED - 1]
    partial = MachineFrame({}, {name: {t: each[t] for t in TARGETS} for name, each in frame.workers.items()})
    whole.learn([frame])
    partly.learn([partial])
    same(whole.forecast(1), partly.forecast(1))


def test_the_order_of_workers_does_not_matter_to_the_interference_net(interference):
    one, other = restored(interference), restored(interference)
    frame = FRAMES[TRAINED]
    one.learn([MachineFrame(frame.machine, {f"a{at}": frame.workers[f"w{at}"] for at in range(4)})])
    other.learn([MachineFrame(frame.machine, {f"a{at}": frame.workers[f"w{3 - at}"] for at in range(4)})])
    for target in TARGETS:
        assert one.forecast(1)["a0"][target].mean == pytest.approx(other.forecast(1)["a3"][target].mean, rel=1e-4)


@pytest.mark.parametrize(
    ("features", "words"),
    [({"cpu": float("nan")}, "cpu of worker 'w'"), ({"odd": float("inf")}, "odd"), ({"cpu": -1.0}, "negative")],
)
def test_what_is_no_measurement_is_refused_and_leaves_the_model_as_it_was(features, words):
    model = fresh()
    model.learn(FRAMES[:2])
    before = model.forecast(1)
    with pytest.raises(BadSeriesError, match=words):
        model.learn([FRAMES[2], MachineFrame({}, {"w": features})])
    same(before, model.forecast(1))
    with pytest.raises(BadSeriesError, match="machine"):
        model.learn([MachineFrame({"load": float("nan")}, {})])


@pytest.mark.parametrize("value", [0.0, 7.0, 1e300])
def test_a_constant_stays(value):
    model = fresh(first_training=50)
    frame = MachineFrame({"load": 1.0}, {"w": dict.fromkeys(TARGETS, value)})
    model.learn([frame] * 60)
    assert model.trainings == 0  # there is nothing to learn
    for forecast in model.forecast(3)["w"].values():
        assert forecast.mean.tolist() == [value] * 3
        assert forecast.quantiles.tolist() == [[value] * len(LEVELS)] * 3


def test_huge_values_stay_finite():
    model = fresh("plain")
    huge = [
        MachineFrame(each.machine, {w: {f: v * 1e305 for f, v in row.items()} for w, row in each.workers.items()})
        for each in FRAMES[:TRAINED]
    ]
    model.learn(huge)
    assert model.trainings == 1
    model.learn([MachineFrame({}, {"w0": dict.fromkeys(TARGETS, 1.7e308), "w1": dict.fromkeys(TARGETS, 0.0)})] * 3)
    assert all(np.isfinite(each.quantiles).all() for one in model.forecast(3).values() for each in one.values())


def test_a_worker_that_never_changes_beside_one_that_does_stays(trained):
    model = restored(trained)
    frame = FRAMES[TRAINED]
    model.learn([MachineFrame(frame.machine, {"w0": frame.workers["w0"], "idle": dict.fromkeys(TARGETS, 0.0)})] * 3)
    assert all(np.isfinite(each.quantiles).all() for each in model.forecast(2)["idle"].values())


def test_frames_without_targets_never_train():
    model = fresh(first_training=50)
    model.learn([MachineFrame({"load": float(at)}, {"w": {"odd": float(at)}}) for at in range(60)])
    assert model.trainings == 0
    assert model.forecast(1) == {}


def test_a_state_of_another_net_is_refused(trained):
    other = fresh("plain" if trained[0] != "plain" else "flat")
    with pytest.raises(ModelFolderError, match="net"):
        other.restore(trained[1])
    with pytest.raises(ModelFolderError, match="another net"):
        fresh(trained[0], hidden=5).restore(trained[1])


def test_a_horizon_below_one_and_a_net_that_is_not_there_are_refused():
    model = fresh()
    model.learn(FRAMES[:1])
    with pytest.raises(ForecastError, match="horizon"):
        model.forecast(0)
    with pytest.raises(ValueError, match="must be one of"):
        WorkerNetSettings(net="deep")


def test_training_again_starts_from_the_weights_and_the_seed_decides_the_first(interference):
    one, same_seed, other = restored(interference), fresh(), fresh(seed=2)
    for model in (same_seed, other):
        model.learn(FRAMES[:TRAINED])
    first = one.state()["model_net0_weight00"]
    same(one.forecast(2), same_seed.forecast(2))
    assert not np.array_equal(first, other.state()["model_net0_weight00"])
    one.retrain()
    assert one.trainings == 2
    assert np.abs(one.state()["model_net0_weight00"] - first).max() < 0.1


def test_enough_new_frames_train_again_by_themselves():
    model = fresh(retrain_every=60, keep=TRAINED)
    model.learn(FRAMES[:TRAINED])
    model.learn(FRAMES[TRAINED : TRAINED + 59])
    assert model.trainings == 1
    model.learn(FRAMES[TRAINED + 59 : TRAINED + 60])
    assert model.trainings == 2


def rmse(model, frames):
    """Of the last value and of the model, one step ahead, by target."""
    wrong, naive = [], []
    for now, then in pairwise(frames):
        model.learn([now])
        ahead = model.forecast(1)
        wrong.append([[ahead[w][t].mean[0] - then.workers[w][t] for t in TARGETS] for w in then.workers])
        naive.append([[now.workers[w][t] - then.workers[w][t] for t in TARGETS] for w in then.workers])
    return tuple(np.sqrt((np.array(each) ** 2).mean(axis=(0, 1))) for each in (wrong, naive))


def test_a_trained_net_forecasts_better_than_the_last_value():
    model = fresh(budget=TrainingBudget(seeds=1, epochs=6))
    model.learn(FRAMES[:TRAINED])
    found, naive = rmse(model, FRAMES[TRAINED : TRAINED + 60])
    assert np.mean(found / naive) < 1


@pytest.mark.soak
def test_knowing_the_neighbours_makes_better_forecasts():
    budget = TrainingBudget(seeds=1, epochs=25)
    found = {}
    for kind in ("interference", "plain"):
        model = fresh(kind, budget=budget)
        model.learn(FRAMES[:TRAINED])
        found[kind], naive = rmse(model, FRAMES[TRAINED:])
    assert np.mean(found["interference"] / naive) < 0.85
    assert np.mean(found["interference"] / found["plain"]) < 0.9


def test_a_history_gives_its_frames_back():
    frames = [FRAMES[0], None, without(FRAMES[1], "w0", "w3"), MachineFrame({"cpu": 1.0}, {})]
    history = WorkerHistory.of(frames)
    assert history.frames() == frames
    assert history.present(TARGETS).tolist() == [[True] * 4, [False] * 4, [False, True, True, False], [False] * 4]
    assert history.series("w0", "cpu").tolist() == [FRAMES[0].workers["w0"]["cpu"]] * 4
