"""Any model may be asked live; one that costs much must be worth it."""

import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from foretide.forecasting.load.registry import MODELS, make_ensemble
from foretide.runtime.forecasts.load import LiveLoadForecast
from foretide.runtime.forecasts.load_fit import fit
from foretide.runtime.forecasts.service import ForecastService
from foretide.settings.forecasts import ForecastSettings
from runtime.forecasts.test_service import TAXI, after_fits, forecast_of, measured
from runtime.forecasts.test_service import Clock as Time

SETTINGS = ForecastSettings(spouts=("requests",), workers=False, retrain_every=1e6, longer=())
NAMES = ("last value", "ewma", "ridge")


def clock_of(costs):
    """A clock on which the fits of the models take these seconds, in order."""
    ticks = itertools.accumulate([0.0, *itertools.chain.from_iterable((cost, 0.0) for cost in costs)])
    return lambda: next(ticks)


def fitted(costs, min_gain=0.001, values=TAXI[:600], names=NAMES):
    ensemble = make_ensemble((1, 3), (48,), names=names)
    return fit(ensemble, values, 150, min_gain, clock_of(costs))


def names_of(found):
    return [member.name for member in found.ensemble.members]


def test_cheap_models_stay_whatever_they_save():
    assert names_of(fitted([0.4, 0.4, 0.4], min_gain=1e6)) == list(NAMES)


def test_a_costly_model_stays_where_it_saves_enough_for_each_cpu_second():
    found = fitted([0.0, 20.0, 20.0])
    assert names_of(found) == ["last value", "ridge"]  # the taxi counts have a day, which ridge knows
    [out] = found.left_out
    assert (out.name, out.cpu_seconds) == ("ewma", 20.0)
    assert out.gain < 0.02
    assert names_of(fitted([0.0, 20.0, 20.0], min_gain=1.0)) == ["last value"]


def test_the_forecasts_of_what_is_left_are_as_if_nobody_else_had_been_there():
    found = fitted([0.0, 1e9, 0.0])
    alone = fitted([0.0, 0.0], names=("last value", "ridge"))
    assert np.array_equal(found.means, alone.means)
    assert np.array_equal(found.ensemble.forecast(3).quantiles, alone.ensemble.forecast(3).quantiles)


def test_who_was_left_out_is_tried_again_later():
    load = LiveLoadForecast("requests", replace(SETTINGS, models=NAMES))
    load.learn(TAXI[:300])
    asked = []
    for _ in range(17):
        request = load.fit_request()
        asked.append("ewma" in request.members)
        load.leave_out(request.members, ["ewma"] if asked[-1] else [])
    assert [at for at, was in enumerate(asked) if was] == [0, 8, 16]
    load.leave_out(["ewma"], [])  # worth it now
    assert all("ewma" in load.fit_request().members for _ in range(10))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_may_be_named(name):
    assert ForecastSettings(models=(name,)).member_names == tuple(dict.fromkeys(("last value", name)))


def test_costly_models_are_asked_live_and_left_out_with_a_reason(tmp_path):
    heavy = ("ridge", "svr", "arima", "seasonal trend", "neural net")
    settings, clock = replace(SETTINGS, models=heavy, min_gain=0.0), Time(300.5)
    service = after_fits(ForecastService(settings, measured(TAXI[:300]), tmp_path, clock=clock))
    assert service.problems == []
    members = service.loads.loads["requests"].ensemble.members
    assert [member.name for member in members if member.ready] == ["last value", *heavy]
    assert forecast_of(service, 300.5) is not None
    service.close()
    greedy = replace(settings, min_gain=1e6)
    again = ForecastService(greedy, measured(TAXI[:300]), clock=clock)
    after_fits(again)
    assert "neural net (" in again.log[0]  # to import what it needs takes longer than a cheap fit
    assert "neural net" not in [member.name for member in again.loads.loads["requests"].ensemble.members]


def test_a_restart_takes_what_was_left_and_asks_all_at_the_next_fit(tmp_path):
    settings = replace(SETTINGS, models=("ewma", "ridge"))
    service = after_fits(ForecastService(settings, measured(TAXI[:300]), tmp_path, clock=Time(300.5)))
    service.close()
    more = replace(settings, models=("ewma", "ridge", "moving average"))
    again = ForecastService(more, folder=tmp_path, clock=Time(300.5))
    again.turn()
    assert again.problems == []
    load = again.loads.loads["requests"]
    assert [member.name for member in load.ensemble.members] == ["last value", "ewma", "ridge"]
    assert load.fit_request().members == ("last value", "ewma", "ridge", "moving average")
    again.close()


def test_the_process_of_the_pipeline_loads_nothing_that_fits(tmp_path):
    """What other processes have fitted is followed in NumPy."""
    code = (
        "import sys; from pathlib import Path; from foretide.runtime.forecasts.service import ForecastService;"
        "from foretide.settings.forecasts import ForecastSettings; from foretide.metrics.metric import Sample;"
        "names = ('random forest', 'svr', 'arima');"
        "settings = ForecastSettings(spouts=('a',), workers=False, models=names, min_gain=0);"
        "s = ForecastService(settings, folder=Path(sys.argv[1]));"
        "see = lambda i: (s.see([Sample('arrival_rate', 'a', float(i), 5.0 + i % 7)]), s.turn());"
        "[see(i) for i in range(200)];"
        "[s.turn() for _ in iter(lambda: len(s.log) > 0 or __import__('time').sleep(0.02), True)];"
        "[see(i) for i in range(200, 230)];"
        "assert s.problems == [], s.problems; s.close(); print('replaced' in s.log[0] or 'kept' in s.log[0]);"
        "print({'jax', 'sklearn', 'statsforecast'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "set()"]
