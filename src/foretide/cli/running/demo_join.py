"""`foretide demo join`: a join of streams whose hot keys are found and split while it runs."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from foretide.apps.taxi_join import NAME as JOIN
from foretide.apps.taxi_join_demo import City, JoinOutcome
from foretide.apps.taxi_join_demo import run as run_join
from foretide.cli.console import Console, DurationOption, JsonOption, PlotOption, check_plot, print_json
from foretide.cli.running.application import spark_session
from foretide.cli.running.beside import DashboardOption, dashboard_beside
from foretide.cli.running.preflight import (
    MAX_RATE,
    MAX_SECONDS,
    SPARK_LOG,
    check_between,
    check_can_replay,
    check_home,
    check_master,
    check_temporary,
    ended_by_signals,
    only_run,
    run_folder,
)
from foretide.errors import EnvironmentNotReadyError
from foretide.reports.plots import draw_partitions

_MAX_PARTITIONS = 1000
_WHAT_LI_IS = (
    "LI is the load imbalance of the partitions: how much more than the average the busiest one has, 0 if all have "
    "the same. The load of a partition is the rows that it stores of one side times those that come on the other. Hot "
    "cells are found in windows of 5 s, and split over partitions."
)


def join(
    duration: Annotated[float, DurationOption(show_default="60s", help="Length of the replay, at least 10s.")] = 60.0,
    orders: Annotated[float, typer.Option(help="Mean orders per second; twice as many positions.")] = 400.0,
    zipf: Annotated[float, typer.Option(help="Skew of the cells of the map: Zipf's exponent.")] = 1.6,
    partitions: Annotated[int, typer.Option(help="Partitions of the join.")] = 4,
    master: Annotated[str, typer.Option(help="Master URL of Spark.")] = "local[2]",
    plot: PlotOption = Path("foretide-join.png"),
    *,
    dashboard: DashboardOption = False,
    as_json: JsonOption = False,
) -> None:
    """Join taxi orders with vehicle positions by cell.

    Hot cells move, and the control loop splits them while the join runs. At the end the load of each partition is
    compared for the same rows, with the plan and without, in numbers and in a plot.
    """
    check_can_replay()
    check_between("--duration", duration, 10, MAX_SECONDS, " s")
    check_between("--orders", orders, 1, MAX_RATE, " a second")
    check_between("--zipf", zipf, 0, 3)
    check_between("--partitions", partitions, 2, _MAX_PARTITIONS)
    check_master(master)
    check_demo_plot(plot)
    check_temporary()
    check_home()
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    city = City(seconds=duration, orders=orders, positions=2 * orders, zipf=zipf, move_every=duration)
    with (
        ended_by_signals(),
        only_run(JOIN) as tell,
        run_folder("join") as folder,
        dashboard_beside(dashboard, console.print),
        spark_session(master, "foretide-join", partitions, folder / SPARK_LOG, console) as spark,
    ):
        tell(folder / "checkpoint" / "foretide")
        console.print(_WHAT_LI_IS)
        found = run_join(spark, city, folder, console.print)
    plotted = _plotted(found, plot)
    if as_json:
        print_json(asdict(found))
        return
    for line in found.same_rows():
        console.print(line)
    console.print(found.conclusion())
    if plotted is not None:
        console.print(plotted)


def check_demo_plot(plot: Path | None) -> None:
    """Refuse a file that cannot be written. Without matplotlib the demonstration runs, and there is no plot."""
    with contextlib.suppress(EnvironmentNotReadyError):
        check_plot(plot)


def _plotted(found: JoinOutcome, plot: Path | None) -> str | None:
    """Plot the load of each partition, and say where, or why not; None if there is nothing to plot."""
    if plot is None or not found.loads:
        return None
    try:
        draw_partitions({"by the hash alone": found.hash_loads, "by the plan": found.loads}, plot)
    except EnvironmentNotReadyError as error:
        return f"no plot: {error}"
    return f"plot: {plot}"
