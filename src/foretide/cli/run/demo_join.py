"""`foretide join`: taxi orders joined with vehicle positions, hot cells found and split while it runs."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from foretide.apps.taxi_join import City, build
from foretide.cli.pipelines import JsonOption
from foretide.cli.spark_log import spark_log
from foretide.control.decisions.explain import summary
from foretide.control.policies.hot_keys import HotKeySettings
from foretide.control_folder.folder import ControlFolder
from foretide.runtime.loop.attach import control
from foretide.settings.settings import Settings
from foretide.spark.session import session

_EVERY = 5.0


def join(
    seconds: Annotated[float, typer.Option(min=10, help="Length of the replay.")] = 60.0,
    orders: Annotated[float, typer.Option(min=1, help="Mean orders a second; twice as many positions.")] = 400.0,
    zipf: Annotated[float, typer.Option(min=0, max=3, help="How uneven the cells of the map are.")] = 1.6,
    partitions: Annotated[int, typer.Option(min=2, help="Partitions of the join.")] = 4,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    *,
    as_json: JsonOption = False,
) -> None:
    """Join taxi orders with vehicle positions by cell.

    Hot cells move, and the control loop splits them while the join runs.
    """
    logging.getLogger("foretide").addHandler(logging.NullHandler())
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    city = City(seconds=seconds, orders=orders, positions=2 * orders, zipf=zipf, move_every=seconds)
    with tempfile.TemporaryDirectory(prefix="foretide-join-") as place:
        console.print(f"Starting Spark on {master} ...")
        with spark_log(Path(tempfile.gettempdir()) / "foretide-join-spark.log"):
            spark = session(master, "foretide-join", {"spark.sql.shuffle.partitions": str(partitions)})
        spark.sparkContext.setLogLevel("OFF")
        found = _run(spark, city, Path(place), console)
        spark.stop()
    if as_json:
        typer.echo(json.dumps(found))
    else:
        console.print(_words(found))


def _run(spark: Any, city: City, place: Path, console: Console) -> dict[str, Any]:
    folder = ControlFolder(str(place / "checkpoint" / "foretide"))
    joined = build(spark, city, folder)
    out = place / "out"
    writer = joined.writeStream.queryName("taxi-join").format("parquet").option("path", str(out))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(processingTime="1 second").start()
    settings = Settings(hot_keys=HotKeySettings(window=5.0, least_saving=0.0))  # few rows: balance is what is shown
    controller = control(query, ["hot_keys"], settings=settings, folder=folder.location)
    decisions: list[str] = []

    def tell(decision: Any) -> None:
        if decision.chosen:
            decisions.append(summary(decision))
            console.print(f"[bold green]>> decision {decision.id}: {decisions[-1]}[/]")

    controller.on_decision(tell)
    balance = _watch(query, controller, city.seconds, console)
    query.stop()
    controller.stop()
    rows = spark.read.schema(joined.schema).parquet(str(out)).count() if out.exists() else 0
    return {"imbalance": balance, "decisions": decisions, "rows": rows}


def _watch(query: Any, controller: Any, seconds: float, console: Console) -> list[tuple[float, float]]:
    balance: list[tuple[float, float]] = []
    begun = time.monotonic()
    while query.isActive and time.monotonic() < begun + seconds + _EVERY:
        time.sleep(_EVERY)
        view = controller.joins.get("join")
        if view is not None and view.imbalance is not None:
            at = time.monotonic() - begun
            balance.append((round(at, 1), round(view.imbalance, 3)))
            split = f"{len(view.plan.grids)} cells placed"
            taken = "" if view.measured is None else f" ({view.measured:.2f} by rows of tasks)"
            console.print(
                f"t={at:5.1f} s  LI {view.imbalance:5.2f}{taken}  {split}  batch {query.lastProgress.batchId}"
            )
    if query.exception():
        raise query.exception()
    return balance


def _words(found: dict[str, Any]) -> str:
    values = [value for _, value in found["imbalance"]]
    if not values:
        return "No window of keys was complete; let it run longer."
    third = max(1, len(values) // 3)
    first, last = max(values[: (len(values) + 1) // 2]), sum(values[-third:]) / third
    return f"LI was {first:.2f} at first and {last:.2f} at last; {found['rows']:,} rows were joined."
