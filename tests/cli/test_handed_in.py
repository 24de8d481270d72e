"""`foretide run MODULE:NAME --history --event --model`: what is handed in reaches the forecasts. Spark is stubbed."""

import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from foretide.cli.main import app
from foretide.forecasting.load_history import LOAD
from foretide.runtime.forecasts.handed_in import forecast_service

TOPOLOGY = """
import foretide as ft

work = ft.Bolt("work", ft.Native(lambda df: df), [ft.From("read")])
shop = ft.Topology("shop", [ft.Spout("read", ft.Rate(50))], [work])
"""


class Ended:
    """A pipeline that has ended at once."""

    running, last_batch, reports, alarms = False, 0, (), ()

    def stop(self):
        """Nothing runs."""

    def raise_failure(self):
        """Nothing has failed."""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the topology with these options; returns the result and the settings that the control loop was given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "handed_jobs.py").write_text(TOPOLOGY)
    given = []

    @contextmanager
    def session(*_):
        yield None

    loop = SimpleNamespace(control=lambda _, target, settings: given.append(settings))
    submit = SimpleNamespace(submit=lambda *_: Ended())
    application = SimpleNamespace(STOP_SECONDS=1.0, spark_session=session)
    monkeypatch.setitem(sys.modules, "foretide.cli.running.application", application)
    monkeypatch.setitem(sys.modules, "foretide.runtime.loop.attach", loop)
    monkeypatch.setitem(sys.modules, "foretide.runtime.pipeline.submit", submit)

    def call(*options):
        command = ["run", "handed_jobs:shop", "--latency", "2s", "--output", "out", *options]
        return CliRunner().invoke(app, command), given

    yield call
    sys.modules.pop("handed_jobs", None)


def write_rates(name="rates.csv", size=240):
    """Four minutes in steps of a second, which end now, with a season of 20 s."""
    end = datetime.now(UTC).replace(microsecond=0)
    rows = [f"{end - timedelta(seconds=size - at)},{100 + 50 * (at % 20 < 10)}" for at in range(size)]
    Path(name).write_text("time,rows_per_second\n" + "\n".join(rows) + "\n")


def test_all_three_reach_the_control_loop(run):
    write_rates()
    assert CliRunner().invoke(app, ["train", "rates.csv", "--output", "rates"]).exit_code == 0
    result, given = run(
        "--history", "rates.csv", "--history", "rates.csv", "--model", "rates", "--event", "2026-11-27 18:00 1h x3"
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    [settings] = given
    assert settings.forecasts.history == ("rates.csv", "rates.csv")
    assert settings.forecasts.model == "rates"
    assert settings.forecasts.events == ("2026-11-27 18:00 1h x3",)


def test_history_and_events_are_forecast_from_the_first_moment(run):
    write_rates()
    soon = datetime.fromtimestamp(time.time() + 30).astimezone()
    _, [settings] = run("--history", "rates.csv", "--event", f"{soon.isoformat(sep=' ', timespec='seconds')} 1h x3")
    service = forecast_service("shop", replace(settings.forecasts, spouts=("read",), workers=False), None, None)
    service.turn()
    forecast = service.forecasts(time.time()).by_series[LOAD, "read"]
    before, after = forecast.points[0], forecast.points[-1]  # 1 s and a minute from now
    assert before.announced is None
    assert after.announced is not None
    assert after.mean > 2 * before.mean
    service.close()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--event", "tomorrow"), "tomorrow"),
        (("--event", "2026-11-27 18:00 1h"), "2026-11-27 18:00 1h"),
        (("--set", "forecasts.models=crystal ball"), "crystal ball"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(run, options, named):
    result, given = run(*options)
    assert result.exit_code == 1
    assert named in result.output
    assert not given
