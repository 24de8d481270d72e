"""The report at the end of a demonstration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from foretide.cli.console import Console
from foretide.errors import FileError, ForetideError
from foretide.reports.plots import check_output_file
from foretide.reports.report import report_on
from foretide.status.runs import read_runs

ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Save a report on both runs as .html; see `foretide report`."),
]
DEFAULT_REPORT = Path("foretide-report.html")


def check_report(path: Path | None) -> None:
    """Refuse a file that cannot be written, before anything is run."""
    if path is None:
        return
    try:
        check_output_file(path, (".html", ".htm"))
    except FileError as error:
        raise typer.BadParameter(str(error), param_hint="--report") from None


def write_report(folders: Mapping[str, Path], path: Path | None, console: Console) -> None:
    """Report on the runs in these folders, by their names, and say where; or say why there is none."""
    if path is None:
        return
    try:
        runs = [replace(run, name=name) for name, folder in folders.items() for run in read_runs([str(folder)])]
        console.print(f"report: {report_on(runs).save(path)} (open it in a browser)")
    except ForetideError as error:
        console.print(f"no report: {error}")
