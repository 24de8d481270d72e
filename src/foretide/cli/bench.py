"""`foretide bench`: the experiments of the papers. They are in `benchmarks/`, which is not part of the package."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

import foretide
from foretide.cli.console import Console, JsonOption, Text, echo, plain_table, print_json, progress_bar, warn
from foretide.errors import EnvironmentNotReadyError, FileError

_MODULE = "benchmarks.experiments"


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Experiments, or papers such as 'drs', by name. Default: all of them."),
    ] = None,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the JSON of each experiment and the report go.")
    ] = Path("artifacts/experiments"),
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="The quick form: fewer repetitions and less load, ten minutes in all.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Leave out experiments whose results are in the folder already.")
    ] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments, and run none.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the experiments of the papers, with their rivals beside them.

    Each experiment repeats its sides in alternated order and runs the first side twice, which gives the noise. It
    writes its own JSON, with all raw samples; the report is one HTML file about all results in the folder. If an
    experiment fails, the others run. Requires a clone of Foretide's repository.
    """
    command = _experiments()
    experiments = command.select(names or [])
    if show_list:
        _list(command, command.listed(experiments), as_json=as_json)
        return
    if quick:  # those without a quick form run if they are named themselves
        experiments = {name: each for name, each in experiments.items() if each.quick_minutes or name in (names or [])}
    if _run(command, experiments, _checked(folder), quick=quick, resume=resume, as_json=as_json):
        raise typer.Exit(1)


def _experiments() -> Any:
    """The module that runs experiments, from the repository that this package was installed from.

    Raises:
        EnvironmentNotReadyError: The benchmarks are not there.
    """
    root = Path(foretide.__file__).parents[2]
    if (root / "benchmarks" / "experiments").is_dir() and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        found = find_spec(_MODULE)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise EnvironmentNotReadyError(
            "the experiments are not part of the installed package: clone Foretide's repository, and run "
            "'make experiments' or 'foretide bench' from an installation of the clone (pip install -e .)"
        )
    return import_module(f"{_MODULE}.command")


def _checked(folder: Path) -> Path:
    """Refuse a folder that cannot be written to before anything runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise FileError(folder, f"cannot be a folder of results: {why}") from error
    return folder


def _list(command: Any, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    table = plain_table("Experiments", "experiment", "paper", "how", "minutes", "quick", "title", justify="left")
    for row in rows:
        table.add_row(*(Text("-" if value is None else value) for value in row.values()))
    console = Console()
    console.print(table)
    for what, why in command.NOT_IN_SPARK:
        console.print(f"Not in Spark: {what}. {why}", highlight=False)


def _run(
    command: Any, experiments: dict[str, Any], folder: Path, *, quick: bool, resume: bool, as_json: bool
) -> list[str]:
    """Run them, and write the report; the names of those that failed."""
    console, failed, found = Console(), [], []
    for outcome in command.run_all(experiments, folder, quick=quick, resume=resume, bar=progress_bar):
        if outcome.error:
            failed.append(outcome.name)
            warn(f"{outcome.name} failed: {outcome.error}")
        if as_json:
            found.append(outcome.data())
        else:
            command.show(outcome, console)
    report = command.report_of(folder)
    if as_json:
        print_json(found)
    else:
        echo(f"report: {report}")
    return failed
