"""`foretide simulate FILE`: run a model in the simulator and show what came of it."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from foretide.cli.options import JsonOption, PlotOption
from foretide.errors import EnvironmentNotReadyError, ForetideError
from foretide.queueing.model_file import model_from_json, model_from_toml
from foretide.simulation.model import plan_of, scenario_of
from foretide.simulation.results import Estimate
from foretide.simulation.simulate import simulate as run_scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from foretide.queueing.model import Model
    from foretide.simulation.results import SimulationResult
    from foretide.simulation.scenario import Scenario


def simulate(
    file: Annotated[
        Path,
        typer.Argument(help="The model: TOML, or JSON if it ends in .json.", dir_okay=False, exists=True),
    ],
    plot: PlotOption = None,
    json: JsonOption = False,
    seed: Annotated[int | None, typer.Option(help="Of the random numbers, in place of the file's.", min=0)] = None,
) -> None:
    """Simulate a model.

    Shows latency, queue lengths and utilization, with confidence intervals.
    """
    try:
        figure = None if plot is None else _figure(plot)
        model = _read(file)
        result = _run(scenario_of(model), plan_of(model).seed if seed is None else seed)
    except ForetideError as error:
        Console(stderr=True).print(f"foretide: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(1) from error
    if plot is not None and figure is not None:
        _draw(result, figure)
        figure.savefig(plot)
    if json:
        typer.echo(dumps(result.as_dict(), indent=2))
    else:
        _show(result, Console())


def _read(file: Path) -> Model:
    text = file.read_text(encoding="utf-8")
    return model_from_json(text) if file.suffix == ".json" else model_from_toml(text)


def _run(scenario: Scenario, seed: int) -> SimulationResult:
    """Simulate under a progress bar. It goes to stderr, so that stdout holds the result and nothing else."""
    columns = (TextColumn("simulating"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        return run_scenario(scenario, np.random.default_rng(seed), lambda share: bar.update(task, completed=share))


def _show(result: SimulationResult, console: Console) -> None:
    console.print(_operators(result))
    console.print(_latencies(result))
    if result.batches is not None:
        batches = result.batches
        console.print(f"{batches.count} batches of {batches.rows} rows, {_time(batches.length)} each")
    for each in result.operators:
        if each.replayed:
            console.print(f"{each.name} lost work with a worker and did it again: {each.replayed} times")
    console.print(f"{result.trees} tuples entered, {result.completed} were fully processed")


def _operators(result: SimulationResult) -> Table:
    table = Table(title="Operators", title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for header in ("operator", "workers", "tuples/s", "utilization", "waiting", "sojourn"):
        table.add_column(header, justify="left" if header == "operator" else "right")
    for each in result.operators:
        cells = [str(each.throughput), str(each.utilization), str(each.queue_length), _time(each.sojourn)]
        table.add_row(each.name, str(each.workers), *cells)
    return table


def _latencies(result: SimulationResult) -> Table:
    table = Table(title="Tuple trees", title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("from arrival until fully processed")
    table.add_column("time", justify="right")
    table.add_row("mean", _time(result.completion_time))
    for level, estimate in result.latency.items():
        table.add_row(f"p{100 * level:g}", _time(estimate))
    table.add_row("sum of all sojourn times", _time(result.total_sojourn))
    return table


def _time(estimate: Estimate) -> str:
    if estimate.value < 1:
        return f"{Estimate(1000 * estimate.value, 1000 * estimate.half_width)} ms"
    return f"{estimate} s"


def _figure(path: Path) -> Figure:
    """An empty figure; made before the simulation runs, so that nobody waits for a plot that cannot be."""
    if path.suffix not in {".png", ".svg"}:
        raise typer.BadParameter(f"'{path}' should end in .png or .svg", param_hint="--plot")
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 an extra
    except ImportError as error:
        raise EnvironmentNotReadyError("plots need matplotlib: pip install 'foretide[plot]'") from error
    return Figure(figsize=(9, 6), layout="constrained")


def _draw(result: SimulationResult, figure: Figure) -> None:
    """Latency and queues over time."""
    latency, queues = figure.subplots(2, 1, sharex=True)
    timeline = result.timeline
    for level, values in timeline.latency.items():
        latency.plot(timeline.times, values, label=f"p{100 * level:g}")
    for name, lengths in timeline.queue_length.items():
        queues.plot(timeline.times, lengths, label=name)
    latency.set(ylabel="latency (s)", title="From arrival until fully processed, by time of arrival")
    queues.set(ylabel="tuples waiting", xlabel="simulated time (s)")
    for axes in (latency, queues):
        axes.legend(loc="upper left")
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
