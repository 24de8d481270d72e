"""`foretide simulate FILE`: run a model in the simulator, with or without the control loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from foretide.cli.console import (
    Console,
    DurationOption,
    JsonOption,
    PlotOption,
    Text,
    check_plot,
    plain_table,
    print_json,
    progress_bar,
)
from foretide.cli.plan import ModelArgument, problems_of, read_model
from foretide.cli.settings import ConfigOption, SetOption, chosen_settings
from foretide.control.decisions.decision import to_data
from foretide.control.simulation.scenario import control_scenario_of, load_of
from foretide.control.simulation.simulate import ControlReport, simulate_control
from foretide.formatting import finite, format_duration
from foretide.queueing.fields import MAX_COUNT
from foretide.reports.plots import draw_simulation
from foretide.simulation.pipeline import simulate as run_scenario
from foretide.simulation.results import Estimate
from foretide.simulation.scenario import scenario_of, simulation_plan

if TYPE_CHECKING:
    from foretide.queueing.model import Model
    from foretide.settings.settings import Settings
    from foretide.simulation.results import SimulationResult

_QUANTILES = (0.5, 0.95, 0.99)


def simulate(
    file: ModelArgument,
    policies: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Run the control loop with these policies."),
    ] = None,
    latency: Annotated[float | None, DurationOption(help="With policies: the latency target, such as 2s.")] = None,
    period: Annotated[
        float, DurationOption(show_default="5s", help="With policies: minimum time between two control cycles.")
    ] = 5.0,
    cores_per_executor: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, help="With policies: cores of each executor.")
    ] = 1,
    max_executors: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="With policies: maximum number of executors.")
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
    the simulated query, and the same load is simulated without it for comparison.
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
        with problems_of(file), progress_bar("simulating") as progress:
            comparison = compare(model, settings, options, chosen_seed, progress)
        _print(as_json, comparison_data(comparison), lambda: show_comparison(comparison, Console()))
        return
    check_plot(plot)
    with problems_of(file):
        scenario = scenario_of(model)
    with progress_bar("simulating") as progress:
        result = run_scenario(scenario, np.random.default_rng(chosen_seed), progress)
    if plot is not None:
        draw_simulation(result, plot)
    _print(as_json, result.as_dict(), lambda: _show(result, Console()))


def _print(as_json: bool, values: dict[str, Any], show: Callable[[], None]) -> None:
    if as_json:
        print_json(values, indent=2)
    else:
        show()


def _show(result: SimulationResult, console: Console) -> None:
    console.print(_operators(result))
    console.print(_latencies(result))
    for sentence in _sentences(result):
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def _sentences(result: SimulationResult) -> Iterator[str]:
    if result.batches is not None:
        batches = result.batches
        yield f"{batches.count:,} batches of {batches.rows} rows, {_time(batches.length)} each"
    for each in result.operators:
        if each.replayed:
            tuples = "1 tuple was" if each.replayed == 1 else f"{each.replayed:,} tuples were"
            yield f"{each.name}: {tuples} processed again after a worker failed"
    yield f"{result.trees:,} tuples entered, {result.completed:,} were fully processed"


def _operators(result: SimulationResult) -> Table:
    table = plain_table("Operators", "operator", "workers", "tuples/s", "busy", "waiting", "sojourn")
    for each in result.operators:
        cells = (str(each.throughput), _percent(each.utilization), str(each.queue_length), _time(each.sojourn))
        table.add_row(Text(each.name), f"{each.workers:,}", *cells)
    for column in table.columns[1:]:
        column.no_wrap = True  # a figure stays on one line with its interval; long names fold
    return table


def _latencies(result: SimulationResult) -> Table:
    table = plain_table("Tuple trees", "from arrival until fully processed", "time")
    table.add_row("mean", _time(result.completion_time))
    for level, estimate in result.latency.items():
        table.add_row(f"p{100 * level:g}", _time(estimate))
    table.add_row("sum of all sojourn times", _time(result.total_sojourn))
    return table


def _percent(estimate: Estimate) -> str:
    return f"{Estimate(100 * estimate.value, 100 * estimate.half_width)}%"


def _time(estimate: Estimate) -> str:
    if estimate.value < 1:
        return f"{Estimate(1000 * estimate.value, 1000 * estimate.half_width)} ms"
    return f"{estimate} s"


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """What the command line says about the cluster and its control; None leaves a thing as it is."""

    latency: float | None = None
    period: float = 5.0
    cores_per_executor: int = 1
    max_executors: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same load with and without control."""

    policies: tuple[str, ...]
    warm_up: float
    controlled: ControlReport
    uncontrolled: ControlReport


def compare(
    model: Model, settings: Settings, options: ControlOptions, seed: int, progress: Callable[[float], None]
) -> Comparison:
    """Simulate a model under control and without it; both meet the same random numbers."""
    scenario = control_scenario_of(model, options.cores_per_executor, options.max_executors)
    load, control, target = load_of(model), settings.to_control(), settings.target
    if options.latency is not None:
        target = replace(target, latency=options.latency)
    controlled, uncontrolled = (
        simulate_control(
            each,
            scenario,
            load,
            period=options.period,
            target=target,
            rng=np.random.default_rng(seed),
            progress=lambda share, done=done: progress((done + share) / 2),  # type: ignore[misc]
        )
        for done, each in enumerate((control, replace(control, policies=())))
    )
    return Comparison(
        tuple(policy.name for policy in control.policies), simulation_plan(model).warm_up, controlled, uncontrolled
    )


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """All figures and decisions as plain values; what was not measured is None."""
    return {
        "policies": list(comparison.policies),
        "controlled": _figures(comparison.controlled, comparison.warm_up),
        "uncontrolled": _figures(comparison.uncontrolled, comparison.warm_up),
        "decisions": [to_data(decision) for decision in comparison.controlled.decisions],
    }


def _figures(report: ControlReport, warm_up: float) -> dict[str, float | None]:
    seconds = report.load.seconds
    figures = {"latency_mean_s": report.mean_latency(warm_up)}
    figures |= {f"latency_p{100 * level:g}_s": report.latency(level, warm_up) for level in _QUANTILES}
    figures |= {
        "batches": len(report.batches),
        "rows": report.load.rows,
        "rows_processed": report.processed,
        "mean_replicas": report.replica_seconds / seconds,
        "mean_executors": report.executor_seconds / seconds,
        "actions": report.actions,
    }
    plain: dict[str, float | None] = finite(figures)
    return plain


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print the figures side by side, and the decisions."""
    console.print(_comparison_table(comparison))
    decisions = comparison.controlled.decisions
    if not decisions:
        console.print("No action was taken.")
        return
    table = plain_table("Decisions", "time", "action", "policy", "reason", justify="left")
    for decision in decisions:
        for wish in decision.chosen:
            table.add_row(
                format_duration(decision.at), Text(wish.action.describe()), Text(wish.policy), Text(wish.reason)
            )
    console.print(table)


def _comparison_table(comparison: Comparison) -> Table:
    table = plain_table("Simulated", "", ", ".join(comparison.policies), "no control", justify="left")
    pairs = [_figures(each, comparison.warm_up) for each in (comparison.controlled, comparison.uncontrolled)]
    for name in pairs[0]:
        label = name.removesuffix("_s").replace("_", " ")
        table.add_row(label, *(_cell(name, each[name]) for each in pairs))
    return table


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.endswith("_s"):
        return format_duration(value)
    return f"{value:,.1f}" if name.startswith("mean_") else f"{value:,.0f}"
