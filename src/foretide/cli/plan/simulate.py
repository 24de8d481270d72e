"""`foretide simulate FILE`: run a model in the simulator and show what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from foretide.cli.options import DurationOption, JsonOption, PlotOption
from foretide.cli.plan import controlled
from foretide.cli.plan.controlled import ControlOptions, compare
from foretide.cli.plan.plan import ModelArgument, read_model
from foretide.cli.settings_options import ConfigOption, SetOption, chosen_settings
from foretide.errors import EnvironmentNotReadyError
from foretide.simulation.results import Estimate
from foretide.simulation.scenario import scenario_of, simulation_plan
from foretide.simulation.simulate import simulate as run_scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from foretide.simulation.results import SimulationResult


def simulate(
    file: ModelArgument,
    policies: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Run the control loop with these policies."),
    ] = None,
    latency: Annotated[float | None, DurationOption(help="With policies: the latency target, such as 2s.")] = None,
    period: Annotated[float, DurationOption(help="With policies: minimum time between two control cycles.")] = "5s",  # type: ignore[assignment]
    cores_per_executor: Annotated[int, typer.Option(min=1, help="With policies: cores of each executor.")] = 1,
    max_executors: Annotated[
        int | None, typer.Option(min=1, help="With policies: most executors that may be requested.")
    ] = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    plot: PlotOption = None,
    seed: Annotated[int | None, typer.Option(help="Seed, in place of that of the model.", min=0)] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Simulate a model, with or without the control loop.

    Shows latency, queue lengths and utilization, with confidence intervals. With --policies, the control loop runs on
    the simulated query, and the same load without control beside it.
    """
    if policies is None and (latency, max_executors) != (None, None):
        raise typer.BadParameter("goes with --policies only", param_hint="--latency" if latency else "--max-executors")
    if policies is not None and plot is not None:
        raise typer.BadParameter("cannot be combined with --policies", param_hint="--plot")
    model = read_model(file)
    chosen_seed = simulation_plan(model).seed if seed is None else seed
    if policies is not None:
        settings = chosen_settings(config, sets, [name.strip() for name in policies.split(",")])
        options = ControlOptions(latency, period, cores_per_executor, max_executors)
        with _progress() as progress:
            comparison = compare(model, settings, options, chosen_seed, progress)
        _print(as_json, controlled.to_data(comparison), lambda: controlled.show(comparison, Console()))
        return
    figure = None if plot is None else _figure(plot)
    scenario = scenario_of(model)
    with _progress() as progress:
        result = run_scenario(scenario, np.random.default_rng(chosen_seed), progress)
    if plot is not None and figure is not None:
        _draw(result, figure)
        figure.savefig(plot)
    _print(as_json, result.as_dict(), lambda: _show(result, Console()))


def _print(as_json: bool, values: dict[str, Any], show: Callable[[], None]) -> None:
    if as_json:
        typer.echo(dumps(values, indent=2))
    else:
        show()


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """A progress bar. It goes to stderr, so that stdout holds the result and nothing else."""
    columns = (TextColumn("simulating"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share: bar.update(task, completed=share)


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
