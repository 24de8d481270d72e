"""`foretide run APP`: runs an application on an embedded source, shows it live, and proves that nothing was lost."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from foretide.apps.app import App, Load
from foretide.apps.registry import find_app
from foretide.apps.verify import Verification, is_over, replay_of, verify
from foretide.cli.pipelines import JsonOption
from foretide.cli.run.view import BatchRow, RunView, open_view, sample_of
from foretide.cli.settings_options import ConfigOption, PolicyOption, SetOption, chosen_settings
from foretide.cli.spark_log import spark_log
from foretide.control.decisions.explain import summary
from foretide.control.world.latency import Latency
from foretide.errors import ControlFolderError
from foretide.routing.table import RouteTable, parse_ratio
from foretide.runtime.loop.attach import control
from foretide.runtime.pipeline.submit import Pipeline, submit
from foretide.spark.session import session
from foretide.spark.sources.replay import ReplayPlan
from foretide.topology.graph import Bolt, Topology
from foretide.topology.sinks import Parquet

_GRACE = 120.0
_SHORT = 2.0


def run(
    name: Annotated[str, typer.Argument(metavar="APP", help="The application (see `foretide apps`).")] = "url-count",
    seconds: Annotated[float, typer.Option(min=1, help="Length of the replay.")] = 40.0,
    rate: Annotated[float, typer.Option(min=1, help="Mean rows a second.")] = 20_000.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated rows.")] = 7,
    ratio: Annotated[str, typer.Option(help="Split midway: a ratio, or `none`.")] = "",
    output: Annotated[Path | None, typer.Option(help="Folder for output and checkpoint; else a temporary one.")] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    policy: PolicyOption = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    latency: Annotated[str | None, typer.Option(help="p99 latency for the control loop to hold, such as `2s`.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the run (PNG or SVG; needs the extra 'plot').")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run an application under a replayed real load curve.

    Midway an edge is split in a new ratio, or policies control the pipeline. At the end the output is compared, row by
    row, with what it has to be.
    """
    logging.getLogger("foretide").addHandler(logging.NullHandler())
    app = find_app(name)
    settings = chosen_settings(config, sets, policy)
    target = settings.to_target() if latency is None else Latency(p99=latency)
    load = Load(seconds, rate, seed)
    topology = app.build(load)
    split = _checked(ratio or ("none" if policy else app.ratio), topology, app.edge)
    folder = _fresh(output, name)
    console = Console(stderr=as_json)
    console.print(f"Starting Spark on {master} ...", highlight=False)
    with spark_log(folder / "spark.log"):
        spark = session(master, f"foretide-{name}", {"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("FATAL")  # what goes wrong is said by Foretide
    console.print("Warming up ...", highlight=False)
    warm_up(spark, app)
    plan = replay_of(topology)
    view = open_view(console, app, plan, split)
    pipeline = submit(spark, topology, Parquet(str(folder / "output")), str(folder / "checkpoint"), settings.to_run())
    if policy:
        controller = control(pipeline, policy, target, settings=settings)
        controller.on_decision(lambda decision: view.say(f"decision {decision.id}: {summary(decision)}"))
    samples = _watch(pipeline, app, plan, view, split)
    pipeline.stop()
    pipeline.raise_failure()
    verdict = verify(pipeline, plan, app.result, lambda rows: app.truth(rows, load))
    if picture is not None:
        _draw(samples, picture, app)
    _conclude(console, view, pipeline, verdict, folder, as_json=as_json)
    spark.stop()
    if not verdict.exact:
        raise typer.Exit(1)


def _checked(ratio: str, topology: Topology, edge: str) -> str | None:
    """The ratio, refused now if it does not fit rather than midway; None for no split at all."""
    if ratio == "none":
        return None
    bolt = topology.component(edge)
    assert isinstance(bolt, Bolt)  # noqa: S101 - an application names an edge of its own
    RouteTable().declare(edge, bolt.pool_size).split(edge, parse_ratio(edge, ratio))
    return ratio


def _fresh(output: Path | None, name: str) -> Path:
    """A folder without an earlier run in it, since the proof at the end speaks of the whole output."""
    if output is None:
        return Path(tempfile.mkdtemp(prefix=f"foretide-{name}-"))
    if output.is_dir() and any(output.iterdir()):
        raise ControlFolderError(f"'{output}' is not empty; give a new folder for output and checkpoint")
    return output


def warm_up(spark: Any, app: App, load: Load | None = None, short_batches: int = 0) -> None:
    """Run some rows through, so that the replay does not begin while the JVM is still loading classes.

    With `short_batches`, until so many took less than two seconds; executors take longer to get going.
    """
    topology = app.build(load or Load(seconds=1.0, rate=2000.0, paced=False))
    with tempfile.TemporaryDirectory(prefix="foretide-warm-up-") as folder:
        pipeline = submit(spark, topology, Parquet(f"{folder}/output"), f"{folder}/checkpoint")
        end = time.monotonic() + _GRACE
        while pipeline.running and not is_over(pipeline, replay_of(topology)) and time.monotonic() < end:
            time.sleep(0.1)
            if short_batches and sum(r.duration < _SHORT for r in list(pipeline.reports)) >= short_batches:
                break
        pipeline.stop()
        pipeline.raise_failure()


def _watch(pipeline: Pipeline, app: App, plan: ReplayPlan, view: RunView, ratio: str | None) -> list[BatchRow]:
    """Show the run until its end; publish the new split when half of the curve is over."""
    samples: list[BatchRow] = []
    pipeline.on_report(lambda report, alarms: samples.append(sample_of(report, alarms, plan, app.edge)))
    begun, split_at, latest = time.time(), None if ratio is None else plan.source.curve.duration / 2, _GRACE
    latest += begun + plan.source.curve.duration
    with view:
        while pipeline.running and not is_over(pipeline, plan) and time.time() < latest:
            elapsed = samples[-1].due if samples else 0.0
            if split_at is not None and ratio is not None and elapsed >= split_at:
                version = pipeline.split(app.edge, ratio).version
                view.say(f"{app.edge} re-split to {ratio}: published as version {version}")
                split_at = None
            view.update(samples)
            time.sleep(0.25)
        view.update(samples)
    return samples


def _conclude(
    console: Console, view: RunView, pipeline: Pipeline, verdict: Verification, folder: Path, *, as_json: bool
) -> None:
    reports = list(pipeline.reports)
    audited = sum(1 for report in reports if report.edges is not None)
    summary = {
        "rows_handed_out": verdict.handed_out,
        "rows_taken": sum(report.input_rows for report in reports),
        "batches": len(reports),
        "batches_audited": audited,
        "alarms": [alarm.message for alarm in pipeline.alarms],
        "result_rows": verdict.found_rows,
        "expected_rows": verdict.expected_rows,
        "missing": verdict.missing,
        "surplus": verdict.surplus,
        "restarts": pipeline.restarts,
        "output": str(folder / "output"),
        "metrics": pipeline.monitor.store if pipeline.monitor else None,
    }
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        view.conclude(console, pipeline, verdict, summary)


def _draw(samples: list[BatchRow], picture: Path, app: App) -> None:
    from foretide.cli.run.run_plot import draw_run  # noqa: PLC0415 - matplotlib is an extra

    draw_run(samples, picture, app.edge)
