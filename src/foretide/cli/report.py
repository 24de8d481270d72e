"""`foretide report`: what happened in one or several runs, as one HTML file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from foretide.cli.console import JsonOption, SinceOption, echo, print_json
from foretide.errors import FileError
from foretide.reports.plots import check_output_file
from foretide.reports.report import report as make_report


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="A running pipeline by its name, the folder of a run (output, checkpoint or control folder), or a "
            "metrics store, a file or URL.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write; an older one is replaced.")
    ] = Path("foretide-report.html"),
    pipeline: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default="all", help="Only this pipeline, where a store has several."),
    ] = None,
    since: SinceOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Report on one or several runs in an HTML file.

    What happened, latency against the target, load and forecasts, decisions with their reasons and effects, workers,
    and cost; several runs side by side. The file needs no network and no scripts. With --json the figures are printed,
    and no file is written.
    """
    if not as_json:
        try:
            check_output_file(output, (".html", ".htm"))
        except FileError as error:
            raise typer.BadParameter(str(error), param_hint="--output") from None
    found = make_report(*runs, since=None if since is None else time.time() - since, app=pipeline)
    if as_json:
        print_json(found.data())
        return
    echo(f"report: {found.save(output)}")
