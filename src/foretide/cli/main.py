"""Puts the commands together, and turns Foretide's errors into one clear sentence and exit code 1."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from foretide.cli import settings
from foretide.cli.forecast import evaluate, forecast, train
from foretide.cli.inspect import decisions, explain, metrics, replay
from foretide.cli.operate import admission, route, target
from foretide.cli.operate import pipelines as operate
from foretide.cli.plan import plan, simulate
from foretide.cli.run import apps, demo, run, topology
from foretide.cli.run import demo_join as join
from foretide.errors import ForetideError


class _Friendly(typer.Typer):
    """A Typer application whose errors are sentences."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        try:
            return super().__call__(*args, **kwargs)
        except ForetideError as error:
            Console(stderr=True).print(f"foretide: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            sys.exit(1)


app = _Friendly(
    help="Predictive control for streaming pipelines on Spark.", no_args_is_help=True, pretty_exceptions_enable=False
)
app.command("run")(run.run)
app.command("demo")(demo.demo)
app.command("join")(join.join)
app.command("apps")(apps.apps)
app.command("list")(operate.list_pipelines)
app.command("status")(operate.status)
app.command("stop")(operate.stop)
app.command("drain")(operate.drain)
app.command("restart")(operate.restart)
app.command("metrics")(metrics.metrics)
app.command("decisions")(decisions.decisions)
app.command("explain")(explain.explain)
app.command("replay")(replay.replay)
app.command("settings")(settings.settings)
app.command("plan")(plan.plan)
app.command("simulate")(simulate.simulate)
app.command("train")(train.train)
app.command("forecast")(forecast.forecast)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(topology.app, name="topology")
app.add_typer(route.app, name="route")
app.add_typer(admission.app, name="admission")
app.add_typer(target.app, name="target")
