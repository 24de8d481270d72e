"""Forecasts beside a running pipeline: from real load at irregular times, over restarts, and whatever breaks."""

import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from foretide.errors import SettingsError
from foretide.forecasting.load.registry import make_ensemble
from foretide.forecasting.load_history import LOAD, Earlier
from foretide.metrics.metric import Sample
from foretide.runtime.forecasts.load import LiveLoadForecast
from foretide.runtime.forecasts.load_fit import fit
from foretide.runtime.forecasts.service import ForecastService
from foretide.runtime.forecasts.workers import MISSING
from foretide.settings.forecasts import ForecastSettings
from foretide.workloads.traces import load_trace

SETTINGS = ForecastSettings(spouts=("requests",), workers=False, retrain_every=1e6)
QUICK = replace(SETTINGS, models=("ewma", "ridge"))  # where it does not matter what is fitted
TAXI = load_trace("taxi").values[:1200].tolist()
WALK = np.maximum(1000 + np.cumsum(np.random.default_rng(3).normal(0, 5, 600)), 1).tolist()
KEY = (LOAD, "requests")


def moments(count, seed=5):
    """A time in each second, anywhere in it."""
    return (np.arange(count) + np.random.default_rng(seed).uniform(0, 0.99, count)).tolist()


def measured(values):
    return lambda: {"requests": Earlier(tuple(zip(moments(len(values)), values, strict=True)), 1.0)}


class Clock:
    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


def after_fits(service, fits=1):
    """Turn until that many fits have ended."""
    for _ in range(12_000):
        service.turn()
        if not service.loads.fitting and len(service.log) >= fits:
            return service
        time.sleep(0.01)
    raise AssertionError(f"no fit has ended: {service.log}, {service.problems}")


def fitted(values, folder=None, settings=SETTINGS, **options):
    """A service that has learnt all the values and was fitted once."""
    return after_fits(ForecastService(settings, measured(values), folder, clock=Clock(len(values) + 0.5), **options))


@pytest.fixture(scope="module", name="saved")
def fitted_and_saved(tmp_path_factory):
    """A service that was fitted to 900 seconds, and the folder that it has left; neither is changed."""
    folder = tmp_path_factory.mktemp("models")
    service = fitted(TAXI[:900], folder)
    service.close()
    return service, folder


def forecast_of(service, at):
    return service.forecasts(at).by_series.get(KEY)


def test_real_load_at_irregular_times_is_foreseen_better_than_by_the_last_value():
    clock = Clock()
    service = ForecastService(SETTINGS, measured(TAXI[:900]), clock=clock)
    after_fits(service)
    horizons, forecasts = SETTINGS.steps_ahead, {}
    for second, at in enumerate(moments(1030)[900:], start=900):
        clock.now = at
        service.see([Sample(LOAD, "requests", at, TAXI[second]), Sample(LOAD, "other", at, 1.0)])
        service.turn()
        forecasts[second] = forecast_of(service, at)
    assert service.problems == []
    assert all(forecast.by != "last value" for forecast in forecasts.values())
    for place, far in enumerate(horizons):
        errors = [
            (forecast.points[place].mean - TAXI[second + far], TAXI[second] - TAXI[second + far])
            for second, forecast in forecasts.items()
        ]
        own, naive = np.sqrt(np.mean(np.square(errors), axis=0))
        assert own < 0.9 * naive, far
    inside = [
        forecast.points[1].quantiles[0.1] <= TAXI[at + 3] <= forecast.points[1].quantiles[0.9]
        for at, forecast in forecasts.items()
    ]
    assert 0.6 < np.mean(inside) < 0.95


def test_where_nothing_beats_the_last_value_it_is_the_forecast():
    service = fitted(WALK)
    forecast = forecast_of(service, 600.2)
    assert forecast.by == "last value"
    assert forecast.points[0].mean == pytest.approx(WALK[-1])


def test_points_stand_at_the_horizons_counted_from_now_and_end_when_the_last_figure_is_too_old(saved):
    service, _ = saved
    assert [point.seconds for point in forecast_of(service, 900.1).points] == list(SETTINGS.horizons)
    later = forecast_of(service, 902.1)
    sooner = forecast_of(service, 900.1)
    assert later.points[0].mean == sooner.points[1].mean  # 1 s from then is 3 s from here
    assert forecast_of(service, 1000.0) is None


# ---- fitted anew


def candidate_for(load, *names):
    ensemble = make_ensemble(SETTINGS.steps_ahead, None, 0, names)
    request = load.fit_request()
    return ensemble, fit(ensemble, request.values, request.held_out).means


def load_with(*names):
    """A spout whose present ensemble was fitted to all but the last values, and has forecast those."""
    load = LiveLoadForecast("requests", SETTINGS)
    load.learn(TAXI[:800])
    load.adopt(*candidate_for(load, *names), 0)
    return load


def test_a_better_model_replaces_the_one_in_place():
    load = load_with("moving average")
    candidate, means = candidate_for(load, "ridge", "fft", "ewma")
    learnt = load.learnt
    load.learn(TAXI[800:820])  # came while it was fitted
    found = load.adopt_if_better(candidate, means, learnt)
    assert found.replaced
    assert found.after < 0.7 * found.before
    assert load.ensemble is candidate
    assert candidate.count == 820
    assert candidate.members[0].forecast(1).mean[0] == TAXI[819]


def test_a_worse_model_does_not():
    load = load_with("ridge", "fft", "ewma")
    before = load.ensemble
    candidate, means = candidate_for(load, "moving average")
    found = load.adopt_if_better(candidate, means, load.learnt)
    assert not found.replaced
    assert found.after > found.before
    assert load.ensemble is before


def test_both_are_told_in_a_sentence(saved):
    assert saved[0].log[-1].startswith("fitted the load of 'requests': RMSE ")
    assert saved[0].log[-1].endswith(", replaced")
    assert fitted(TAXI[:130]).log[-1].endswith(", kept")


def test_drift_calls_for_a_new_model_before_its_time():
    rng = np.random.default_rng(1)
    clock = Clock(300.5)
    service = after_fits(ForecastService(QUICK, measured(rng.normal(1000, 5, 300).tolist()), clock=clock))
    for second, value in enumerate(rng.normal(3000, 1500, 100).clip(0), start=300):
        service.see([Sample(LOAD, "requests", second + 0.5, value)])
    clock.now = 400.0
    after_fits(service, 2)


def test_no_fit_happens_in_the_process_of_the_pipeline(saved):
    service = ForecastService(SETTINGS, folder=saved[1])
    service.turn()
    mix = service.loads.loads["requests"].ensemble
    fits = [member.fits for member in mix.members]
    service.loads.loads["requests"].learn(TAXI[900:1200])  # models by themselves are fitted at 1000
    assert mix.count == 1200
    assert [member.fits for member in mix.members] == fits


# ---- restarts


def test_a_restart_goes_on_where_it_was(saved):
    first, folder = saved
    second = ForecastService(SETTINGS, folder=folder, clock=Clock(900.5))
    second.turn()
    assert second.problems == []
    assert forecast_of(second, 900.7) == forecast_of(first, 900.7)
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".json", ".npz"}


def test_after_a_restart_only_what_is_new_in_the_history_is_learnt(saved):
    again = ForecastService(SETTINGS, measured(TAXI[:950]), saved[1], clock=Clock(951.5))
    again.turn()
    assert list(again.loads.loads["requests"].values) == TAXI[:950]
    assert again.loads.loads["requests"].ensemble.count == 950


@pytest.mark.parametrize("damage", ["arrays", "json", "other settings"])
def test_a_damaged_folder_is_said_and_one_starts_afresh(saved, tmp_path, damage):
    shutil.copytree(saved[1], tmp_path, dirs_exist_ok=True)
    settings = SETTINGS
    if damage == "other settings":
        settings = replace(SETTINGS, horizons=(1.0, 5.0))
    else:
        pattern = "*.npz" if damage == "arrays" else "model.json"
        next(tmp_path.rglob(pattern)).write_bytes(b"rubbish")
    service = ForecastService(settings, measured(TAXI[:100]), tmp_path, clock=Clock(100.5))
    service.turn()
    assert len(service.problems) == 1
    assert "a new one is started" in service.problems[0]
    assert forecast_of(service, 101.0) is not None
    service.close()  # it is kept now, in place of the damaged one
    again = ForecastService(settings, folder=tmp_path, clock=Clock(101.0))
    again.turn()
    assert again.problems == []


# ---- what breaks


def test_figures_that_are_no_load_are_left_out():
    service = ForecastService(SETTINGS, clock=Clock(5.5))
    for at, value in (
        (0.5, 4.0),
        (1.5, float("nan")),
        (2.5, -3.0),
        (3.5, float("inf")),
        (float("nan"), 1.0),
        (4.5, 6.0),
    ):
        service.see([Sample(LOAD, "requests", at, value)])
    service.turn()
    assert list(service.loads.loads["requests"].values) == [4.0, None, None, None, 6.0]
    assert service.problems == []


def test_rubbish_is_said_and_raises_nothing():
    service = ForecastService(SETTINGS, lambda: 1 // 0, clock=Clock())
    service.see([object()])
    service.see(None)
    service.turn()
    assert len(service.problems) == 2
    service.see([Sample(LOAD, "requests", 0.5, 4.0), Sample(LOAD, "requests", 1.5, 4.0)])
    service.turn()
    assert forecast_of(service, 1.6) is not None


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    service = fitted(TAXI[:300], tmp_path / "file", QUICK)
    assert "cannot be written" in service.problems[0]


def test_a_fit_that_fails_leaves_the_model_in_place_and_says_why():
    failing = [sys.executable, "-c", "import sys; sys.exit('no luck')"]
    service = fitted(TAXI[:300], settings=QUICK, command=lambda folder, nice: failing)
    assert "no luck" in service.problems[0]
    assert "no luck" in service.log[0]
    assert forecast_of(service, 300.5) is not None


def test_a_command_that_does_not_exist_is_said():
    service = ForecastService(
        QUICK, measured(TAXI[:300]), clock=Clock(300.5), command=lambda folder, nice: ["/no/such/thing"]
    )
    service.turn()
    assert "/no/such/thing" in service.problems[0]
    assert forecast_of(service, 300.5) is not None


def test_a_fit_that_hangs_stops_nothing_and_is_ended():
    hanging = [sys.executable, "-c", "import time; time.sleep(600)"]
    clock = Clock(300.5)
    service = ForecastService(QUICK, measured(TAXI[:300]), clock=clock, command=lambda folder, nice: hanging)
    service.turn()
    process = service.loads._fit[2]._process
    for second in range(300, 310):
        clock.now = second + 0.5
        service.see([Sample(LOAD, "requests", clock.now, TAXI[second])])
        service.turn()
        assert service.loads.fitting
        assert service.loads.views["requests"].last == second
        assert forecast_of(service, clock.now) is not None
    clock.now += SETTINGS.training_limit
    service.turn()
    assert not service.loads.fitting
    assert process.poll() is not None
    assert "took too long" in service.log[0]


def test_closing_ends_a_fit_that_is_under_way():
    hanging = [sys.executable, "-c", "import time; time.sleep(600)"]
    service = ForecastService(
        QUICK, measured(TAXI[:300]), clock=Clock(300.5), command=lambda folder, nice: hanging
    ).start()
    while not service.loads.fitting:
        time.sleep(0.01)
    training = service.loads._fit[2]
    service.close()
    service.close()
    assert training._process.poll() is not None
    assert not training.folder.exists()


def test_many_threads_may_see_and_ask_at_once():
    service = ForecastService(replace(QUICK, spouts=None, min_history=1e5, max_history=1e6), clock=Clock()).start()
    asked, wrong, stop = [], [], threading.Event()

    def ask():
        while not stop.is_set():
            asked.append(len(service.forecasts(60.0).by_series))
            wrong.extend(service.problems)
            time.sleep(0.001)

    def tell(spout):
        for second in range(200):
            service.see([Sample(LOAD, spout, second + 0.5, float(second))])

    askers = [threading.Thread(target=ask) for _ in range(2)]
    tellers = [threading.Thread(target=tell, args=(f"s{i}",)) for i in range(4)]
    for thread in [*askers, *tellers]:
        thread.start()
    for thread in tellers:
        thread.join()
    while any(f"s{i}" not in service.loads.loads or service.loads.loads[f"s{i}"].learnt < 200 for i in range(4)):
        time.sleep(0.01)
    stop.set()
    for thread in askers:
        thread.join()
    service.close()
    assert asked
    assert wrong == []
    assert all(list(load.values) == [float(second) for second in range(200)] for load in service.loads.loads.values())


def test_memory_is_bounded_even_when_nobody_turns():
    service = ForecastService(SETTINGS)
    for start in range(0, 60_000, 1000):
        service.see([Sample(LOAD, "requests", float(start + i), 1.0) for i in range(1000)])
    assert len(service._pending) == 50_000


# ---- without nets


def test_without_jax_the_load_is_foreseen_and_the_lack_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    settings = replace(SETTINGS, workers=True, pretrained=False)
    service = ForecastService(settings, measured(TAXI[:300]), clock=Clock(300.5))
    service.see([Sample("worker_slowness", "1", 300.0, 1.0)])
    service.turn()
    assert service.problems == [MISSING]
    assert forecast_of(service, 300.5) is not None
    service.close()


def test_the_pipelines_own_process_never_loads_jax():
    code = (
        "import sys; from foretide.runtime.forecasts.service import ForecastService;"
        "from foretide.metrics.metric import Sample;"
        "s = ForecastService(); s.see([Sample('arrival_rate', 'a', float(i), 1.0) for i in range(90)]); s.turn();"
        "assert s.forecasts(90.0).by_series; s.close(); print('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# ---- settings


@pytest.mark.parametrize(
    "bad",
    [
        {"step": 0.0}, {"step": float("nan")}, {"horizons": ()}, {"horizons": (0.5,)}, {"horizons": (3.0, 1.0)},
        {"models": ("crystal ball",)}, {"models": ()}, {"seasons": (0.3,)}, {"max_history": 10.0}, {"held_out": 0.9},
        {"niceness": 20}, {"retrain_every": -1.0}, {"training_limit": float("inf")},
    ],
)  # fmt: skip
def test_settings_out_of_bounds_are_refused_by_name(bad):
    with pytest.raises(SettingsError, match=next(iter(bad))):
        ForecastSettings(**bad)
