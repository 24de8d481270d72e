"""`foretide run APP`: runs an application under a replayed load, shows it live, and verifies its output."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from foretide.apps.app import Load, find_app
from foretide.apps.experiment import Verification
from foretide.cli.options import DurationOption, JsonOption, PlotOption, check_plot
from foretide.cli.run.runner import AppRun, spark_session, warm_up
from foretide.cli.run.view import open_view
from foretide.cli.settings_options import ConfigOption, PolicyOption, SetOption, chosen_settings
from foretide.control.decisions.explain import summary
from foretide.control.world.setup import Latency
from foretide.errors import ControlFolderError
from foretide.reports.run_plot import draw_run
from foretide.routing.table import RouteTable, parse_ratio
from foretide.runtime.loop.attach import control
from foretide.topology.graph import Bolt, Topology


def run(
    name: Annotated[str, typer.Argument(metavar="APP", help="The application; see `foretide apps`.")] = "url-count",
    duration: Annotated[float, DurationOption(show_default="40s", help="Length of the replay.")] = 40.0,
    rate: Annotated[float, typer.Option(min=1, help="Mean rows per second.")] = 20_000.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated rows.")] = 7,
    ratio: Annotated[str, typer.Option(help="New split of an edge midway, such as 4:3:1, or 'none'.")] = "",
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for output and checkpoint. Default: a temporary one.")
    ] = None,
    master: Annotated[str, typer.Option(help="Master URL of Spark.")] = "local[2]",
    policy: PolicyOption = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    latency: Annotated[float | None, DurationOption(help="Target of the p99 latency, such as 2s.")] = None,
    plot: PlotOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run an application under a replayed real load curve.

    Midway an edge is split in a new ratio, or policies control the pipeline. At the end the output is compared, row by
    row, with what it has to be.
    """
    check_plot(plot)
    app, load = find_app(name), Load(duration, rate, seed)
    settings = chosen_settings(config, sets, policy)
    target = settings.target if latency is None else Latency(p99=latency)
    split = _check_ratio(ratio or ("none" if policy else app.ratio), app.build(load), app.edge)
    folder = _empty_folder(output, name)
    console = Console(stderr=as_json)
    with spark_session(master, f"foretide-{name}", 2, folder / "spark.log", console) as spark:
        warm_up(spark, app, console)
        replay = AppRun.start(spark, app, load, folder, settings.to_run())
        view = open_view(console, app, replay.plan, split)
        if policy:
            controller = control(replay.pipeline, policy, target, settings=settings)
            controller.on_decision(lambda decision: view.say(f"decision {decision.id}: {summary(decision)}"))
        with view:
            replay.watch(_Turn(replay, view, split))
            view.update(replay.batches)
        replay.stop()
        verification = replay.verify()
        if plot is not None:
            draw_run(replay.batches, plot, app.edge)
        summarized = _summary(replay, verification, folder)
        if as_json:
            typer.echo(json.dumps(summarized))
        else:
            view.conclude(console, replay.pipeline, verification, summarized)
    if not verification.exact:
        raise typer.Exit(1)


class _Turn:
    """Shows the run, and publishes the new split when half of the load curve is over."""

    def __init__(self, run: AppRun, view: Any, ratio: str | None) -> None:
        self._run, self._view, self._ratio = run, view, ratio

    def __call__(self) -> None:
        batches, app = self._run.batches, self._run.app
        if self._ratio is not None and batches and batches[-1].due >= self._run.plan.source.curve.duration / 2:
            version = self._run.pipeline.split(app.edge, self._ratio).version
            self._view.say(f"{app.edge} is split {self._ratio}: published as version {version}")
            self._ratio = None
        self._view.update(batches)


def _check_ratio(ratio: str, topology: Topology, edge: str) -> str | None:
    """The ratio, None for no split. One that does not fit is refused before anything is started."""
    if ratio == "none":
        return None
    bolt = topology.component(edge)
    assert isinstance(bolt, Bolt)  # noqa: S101 - an application names an edge of its own
    RouteTable().declare(edge, bolt.pool_size).split(edge, parse_ratio(edge, ratio))
    return ratio


def _empty_folder(output: Path | None, name: str) -> Path:
    """A folder without an earlier run in it, since the verification covers the whole output."""
    if output is None:
        return Path(tempfile.mkdtemp(prefix=f"foretide-{name}-"))
    if output.is_dir() and any(output.iterdir()):
        raise ControlFolderError(f"'{output}' is not empty; give a new folder for output and checkpoint")
    return output


def _summary(run: AppRun, verification: Verification, folder: Path) -> dict[str, Any]:
    reports = list(run.pipeline.reports)
    return {
        "rows_handed_out": verification.handed_out,
        "rows_taken": sum(report.input_rows for report in reports),
        "batches": len(reports),
        "batches_audited": sum(1 for report in reports if report.edges is not None),
        "alarms": [alarm.message for alarm in run.pipeline.alarms],
        "result_rows": verification.found_rows,
        "expected_rows": verification.expected_rows,
        "missing": verification.missing,
        "surplus": verification.surplus,
        "restarts": run.pipeline.restarts,
        "output": str(folder / "output"),
        "metrics": run.pipeline.monitor.store if run.pipeline.monitor else None,
    }
