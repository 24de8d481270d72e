"""`foretide demo join`: taxi orders joined with vehicle positions; hot cells are found and split while it runs."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from foretide.apps.taxi_join import City, build
from foretide.cli.console import DurationOption, JsonOption, check_at_least
from foretide.cli.run import spark_session
from foretide.control.decisions.explain import summary
from foretide.control.policies.hot_keys import HotKeySettings
from foretide.control_folder.folder import ControlFolder
from foretide.joins.settings import WindowSettings
from foretide.runtime.loop.attach import control
from foretide.settings.settings import Settings

if TYPE_CHECKING:
    from foretide.control.decisions.decision import Decision
    from foretide.runtime.loop.controller import Controller


_LINE_SECONDS = 5.0


def join(
    duration: Annotated[float, DurationOption(show_default="60s", help="Length of the replay, at least 10s.")] = 60.0,
    orders: Annotated[float, typer.Option(min=1, help="Mean orders per second; twice as many positions.")] = 400.0,
    zipf: Annotated[float, typer.Option(min=0, max=3, help="Skew of the cells of the map: Zipf's exponent.")] = 1.6,
    partitions: Annotated[int, typer.Option(min=2, help="Partitions of the join.")] = 4,
    master: Annotated[str, typer.Option(help="Master URL of Spark.")] = "local[2]",
    *,
    as_json: JsonOption = False,
) -> None:
    """Join taxi orders with vehicle positions by cell.

    Hot cells move, and the control loop splits them while the join runs.
    """
    check_at_least(10, duration)
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    city = City(seconds=duration, orders=orders, positions=2 * orders, zipf=zipf, move_every=duration)
    log_file = Path(tempfile.gettempdir()) / "foretide-join-spark.log"
    with (
        tempfile.TemporaryDirectory(prefix="foretide-join-") as folder,
        spark_session(master, "foretide-join", partitions, log_file, console) as spark,
    ):
        found = _run(spark, city, Path(folder), console)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        console.print(_conclusion(found))


def _run(spark: Any, city: City, place: Path, console: Console) -> dict[str, Any]:
    folder = ControlFolder(str(place / "checkpoint" / "foretide"))
    joined = build(spark, city, folder)
    output = place / "output"
    writer = joined.writeStream.queryName("taxi-join").format("parquet").option("path", str(output))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(processingTime="1 second").start()
    hot_keys = HotKeySettings(windows=WindowSettings(5.0), min_saving=0.0)  # few rows: balance is what is shown
    settings = Settings(policies={"hot_keys": hot_keys})
    controller = control(query, ["hot_keys"], settings=settings, control_folder=folder.location)
    decisions: list[str] = []

    def show(decision: Decision) -> None:
        if decision.chosen:
            decisions.append(summary(decision))
            console.print(f"[bold green]>> decision {decision.id}: {decisions[-1]}[/]")

    controller.on_decision(show)
    imbalance = _watch(query, controller, city.seconds, console)
    query.stop()
    controller.stop()
    rows = spark.read.schema(joined.schema).parquet(str(output)).count() if output.exists() else 0
    return {"imbalance": imbalance, "decisions": decisions, "rows": rows}


def _watch(query: Any, controller: Controller, seconds: float, console: Console) -> list[tuple[float, float]]:
    """Print the load imbalance (LI) of the partitions every few seconds, and return it."""
    found: list[tuple[float, float]] = []
    start = time.monotonic()
    while query.isActive and time.monotonic() < start + seconds + _LINE_SECONDS:
        time.sleep(_LINE_SECONDS)
        view = controller.joins.get("join")
        if view is None or view.imbalance is None:
            continue
        elapsed = time.monotonic() - start
        found.append((round(elapsed, 1), round(view.imbalance, 3)))
        measured = "" if view.measured_imbalance is None else f" ({view.measured_imbalance:.2f} by rows of tasks)"
        cells, batch = len(view.plan.grids), query.lastProgress.batchId
        console.print(f"t={elapsed:5.1f} s  LI {view.imbalance:5.2f}{measured}  {cells} cells placed  batch {batch}")
    if query.exception():
        raise query.exception()
    return found


def _conclusion(found: dict[str, Any]) -> str:
    values = [value for _, value in found["imbalance"]]
    if not values:
        return "No window of keys was complete; use a longer --duration."
    third = max(1, len(values) // 3)
    first, last = max(values[: (len(values) + 1) // 2]), sum(values[-third:]) / third
    return f"LI was {first:.2f} at first and {last:.2f} at the end; {found['rows']:,} rows were joined."
