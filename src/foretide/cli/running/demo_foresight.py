"""`foretide demo foresight`: a forecast that acts before the load comes, beside the same load without forecasts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from foretide.apps.foresight import FORESEEN_SECONDS, POOL, WITH, Side, Wave, run_both, to_data
from foretide.cli.console import Console, JsonOption, PlotOption, print_json
from foretide.cli.running.application import spark_session
from foretide.cli.running.demo_join import check_demo_plot
from foretide.cli.running.preflight import (
    SPARK_LOG,
    check_home,
    check_temporary,
    ended_by_signals,
    only_run,
    run_folder,
)
from foretide.errors import EnvironmentNotReadyError
from foretide.reports.plots import draw_foresight

_NAME = "demo-foresight"
_WHAT = (
    "Two queries get the same load at the same time: {low:g} rows/s, and {high:g} for {busy:g} s in every {period:g}. "
    "A row waits 4 ms, so a replica of the operator takes at most 250 rows/s. One query has a history of this load."
)


def foresight(
    waves: Annotated[int, typer.Option(min=2, max=50, help="Waves of the load, 40 s each.")] = 3,
    plot: PlotOption = Path("foretide-foresight.png"),
    *,
    as_json: JsonOption = False,
) -> None:
    """Add replicas before the load rises, as a history that was handed in makes it known.

    The same load runs without forecasts beside it. A table and a plot compare both; it takes about two and a half
    minutes.
    """
    check_demo_plot(plot)
    check_temporary()
    check_home()
    wave = Wave(waves=waves)
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    with (
        ended_by_signals(),
        only_run(_NAME) as tell,
        run_folder("foresight") as folder,
        spark_session(f"local[{2 * POOL + 4}]", "foretide-foresight", 2, folder / SPARK_LOG, console) as spark,
    ):
        tell(folder / WITH.replace(" ", "-") / "checkpoint" / "foretide")
        console.print(_WHAT.format(low=wave.low, busy=wave.busy, period=wave.period, high=wave.high))
        sides = run_both(spark, folder, wave, lambda text: console.print(text, markup=False))
    if plot is not None:
        _draw(sides, wave, plot, console)
    if as_json:
        print_json([to_data(side, wave) for side in sides])
    else:
        _conclude(sides, wave, console)
    if any(side.rows_lost for side in sides):
        raise typer.Exit(1)


def _conclude(sides: tuple[Side, Side], wave: Wave, console: Console) -> None:
    table = Table("", *(side.name for side in sides))
    for rise in wave.rises:
        table.add_row(f"replicas added for the load of t={rise:g} s", *(_when(side, rise, wave) for side in sides))
    table.add_row("p99 latency", *(f"{side.p99:.2f} s" for side in sides))
    table.add_row("replica-seconds", *(f"{side.replica_seconds:,.0f}" for side in sides))
    table.add_row("rows lost", *(f"{side.rows_lost}" for side in sides))
    console.print(table)
    for effect in sides[1].effects:
        console.print(f"what came of it: {effect}", markup=False)


def _when(side: Side, rise: float, wave: Wave) -> str:
    change = side.increase_for(rise, wave)
    if change is None:
        return "none"
    apart = abs(change.at - rise)
    return f"{apart:.1f} s {'before' if change.at < rise else 'after'}{', by a forecast' if change.foreseen else ''}"


def _draw(sides: tuple[Side, Side], wave: Wave, plot: Path, console: Console) -> None:
    moments = sorted({0.0, *wave.rises, *(rise + wave.busy for rise in wave.rises)})
    load = [(at, wave.rate(at)) for at in moments]
    try:
        draw_foresight(load, sides, plot, ahead=FORESEEN_SECONDS)
    except EnvironmentNotReadyError as error:
        console.print(f"no plot: {error}")
    else:
        console.print(f"plot: {plot}")
