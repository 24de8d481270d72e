"""`foretide history import|show`: the earlier load of a pipeline, from which its forecasts learn at the next start."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from foretide.cli.console import Console, DurationOption, JsonOption, plain_table, print_json
from foretide.dates import local_date
from foretide.errors import ForecastError
from foretide.files import atomic_write
from foretide.forecasting.load_history import ANY, History, merged, read_history
from foretide.formatting import format_duration, format_number
from foretide.runtime.forecasts.handed_in import history_file
from foretide.status.pipelines import private_home

app = typer.Typer(help="Hand in the earlier load of a pipeline.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pipeline.")]


@app.command("import")
def import_history(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A CSV or Parquet file, the JSON answer of Prometheus to a range query, a store, or a trace.",
        ),
    ],
    name: Annotated[str, typer.Option("--app", metavar="NAME", help="Name of the pipeline.")],
    spout: Annotated[
        str | None, typer.Option("--source", help="Which source of the pipeline, where the history does not name it.")
    ] = None,
    step: Annotated[float | None, DurationOption(help="Time between two values of a file without times.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Import the earlier load of a pipeline, in rows a second. It is learnt at the next start.

    What was imported before is kept where the two do not overlap. The series of a Prometheus file are told apart by
    their label `subject`. A history that ended weeks ago is moved by whole weeks, so that days and hours stay what
    they are.
    """
    now = time.time()
    found = read_history(source, now, step)
    if spout is not None:
        found = {spout if known == ANY else known: earlier for known, earlier in found.items()}
    if not any(earlier.samples for earlier in found.values()):
        raise ForecastError(f"'{source}' has no load: no values of arrival_rate")
    file = history_file(name)
    known = [read_history(str(file), now)] if file.exists() else []
    private_home()
    whole = merged([*known, found])
    series = [{"metric": {"subject": known}, "values": earlier.samples} for known, earlier in whole.items()]
    atomic_write(file, json.dumps({"result": series}))
    _show(name, whole, as_json=as_json)


@app.command("show")
def show(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Show the load that was imported for a pipeline."""
    file = history_file(name)
    if not file.exists():
        raise ForecastError(
            f"no history was imported for '{name}'; `foretide history import SOURCE --app {name}` does it"
        )
    _show(name, read_history(str(file), time.time()), as_json=as_json)


def _show(name: str, history: History, *, as_json: bool) -> None:
    ends = {source: (each.samples[0][0], each.samples[-1][0]) for source, each in history.items()}
    means = {source: sum(value for _, value in each.samples) / len(each.samples) for source, each in history.items()}
    if as_json:
        rows = [
            {"source": source or None, "values": len(each.samples), "step_seconds": each.step, "from": ends[source][0],
             "until": ends[source][1], "mean": means[source]}
            for source, each in history.items()
        ]  # fmt: skip
        print_json({"pipeline": name, "file": str(history_file(name)), "history": rows})
        return
    table = plain_table(f"history of {name}", "source", "values", "every", "from", "until", "mean rows/s")
    for source, each in history.items():
        first, last = (local_date(at, "%Y-%m-%d %H:%M") for at in ends[source])
        cells = (f"{len(each.samples):,}", format_duration(each.step), first, last, format_number(means[source]))
        table.add_row(source or "the only one", *cells)
    console = Console(soft_wrap=True, highlight=False)
    console.print(table)
    console.print(f"kept in {history_file(name)}; delete the file to forget it", markup=False)
