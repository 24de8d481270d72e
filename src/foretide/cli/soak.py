"""`foretide soak`: a fault campaign against a pipeline, whose output is compared row for row."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.cli.console import Console, JsonOption, echo, plain_table, print_json, progress_bar, warn
from foretide.cli.running.preflight import (
    check_between,
    check_home,
    check_master,
    check_temporary,
    ended_by_signals,
    output_folder,
)
from foretide.errors import CodecError, FileError
from foretide.soak.campaign import run_campaign
from foretide.soak.forms import Form
from foretide.soak.layout import Setup
from foretide.soak.minimise import minimise
from foretide.soak.schedule import Schedule, Step, draw

if TYPE_CHECKING:
    from foretide.soak.outcome import Outcome

_MASTER = "local-cluster[2,1,640]"
_MAX_MINUTES, _MAX_ROWS, _MAX_SEED, _MAX_TRIES = 1440.0, 1_000_000, 2**32, 10_000
_SCHEDULE = "schedule.json"


def soak(
    minutes: Annotated[float, typer.Option(help="How long the pipeline is disturbed.")] = 2.0,
    seed: Annotated[int, typer.Option(min=0, max=_MAX_SEED, help="Seed of the schedule and of the rows.")] = 1,
    rows: Annotated[int, typer.Option(min=1, max=_MAX_ROWS, help="Rows of a file; a batch takes one file.")] = 50_000,
    form: Annotated[
        Form, typer.Option(help="What is disturbed: edges, the same with a Python bolt, or a join with changing plans.")
    ] = "split",
    master: Annotated[str, typer.Option(help="Master URL of Spark, with executors on this host.")] = _MASTER,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for all that is written. Default: a temporary one, removed if all is well."
        ),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A schedule to repeat, in place of one drawn from the seed.")
    ] = None,
    tries: Annotated[
        int, typer.Option(min=0, max=_MAX_TRIES, help="Campaigns to spend on a shorter schedule if this one fails.")
    ] = 0,
    *,
    as_json: JsonOption = False,
) -> None:
    """Disturb a pipeline at random, and compare all that it has written.

    A pipeline over generated rows runs on executors of its own. Its driver and its executors are killed and stopped at
    random instants, its store and control folder are locked, damaged and deleted, and routes, replicas, pools and
    state partitions are changed all the while. At the end its output is compared, row by row, with that of a plain
    Spark query. The exit code is 1 if anything is lost or doubled, or not as promised; then the seed and the schedule
    are printed, which `--replay` repeats.
    """
    check_between("--minutes", minutes, 0.0, _MAX_MINUTES)
    check_master(master)
    if master.startswith("local["):
        raise typer.BadParameter(f"--master must give executors, such as {_MASTER}, got '{master}'")
    check_temporary()
    check_home()
    seconds = 60.0 * minutes
    schedule = draw(seed, seconds) if replay is None else read_schedule(replay)
    with ended_by_signals(), output_folder(output, "soak") as folder:
        setup = Setup(master, rows, schedule.seed, form)
        outcome = _run(schedule, seconds, setup, folder / "campaign")
        shortest = schedule if outcome.passed else _shorten(schedule, seconds, setup, folder, tries)
        (folder / _SCHEDULE).write_text(shortest.to_json())
        _print(outcome, folder, as_json=as_json)
        if outcome.passed and output is None:
            shutil.rmtree(folder, ignore_errors=True)
    if not outcome.passed:
        raise typer.Exit(1)


def read_schedule(file: Path) -> Schedule:
    """The schedule in a file."""
    try:
        return Schedule.from_json(file.read_bytes())
    except OSError as error:
        raise FileError(file, f"cannot be read: {error.strerror}") from error
    except (CodecError, ValueError) as error:
        raise FileError(file, f"is no schedule of a campaign: {error}") from error


def _run(schedule: Schedule, seconds: float, setup: Setup, folder: Path) -> Outcome:
    folder.mkdir()
    with progress_bar("disturbing") as progress:
        return run_campaign(schedule, seconds, setup, folder, progress)


def _shorten(schedule: Schedule, seconds: float, setup: Setup, folder: Path, tries: int) -> Schedule:
    """The shortest part of a schedule that still fails, as far as so many campaigns can tell."""

    def fails(steps: Sequence[Step]) -> bool:
        trial = folder / "trial"
        failed = not _run(Schedule(schedule.seed, tuple(steps)), seconds, setup, trial).passed
        shutil.rmtree(trial)
        return failed

    return Schedule(schedule.seed, minimise(schedule.steps, fails, tries))


def _print(outcome: Outcome, folder: Path, *, as_json: bool) -> None:
    if as_json:
        print_json(outcome_data(outcome, folder), indent=2)
        return
    console, table = Console(), plain_table("Campaign", "", "")
    for name, value in _figures(outcome).items():
        table.add_row(name, value if isinstance(value, str) else f"{value:,}")
    console.print(table)
    for problem in outcome.problems:
        warn(problem)
    if not outcome.passed:
        echo(f"seed {outcome.seed}; repeat it with `foretide soak --replay {folder / _SCHEDULE}`", err=True)


def outcome_data(outcome: Outcome, folder: Path) -> dict[str, Any]:
    """All that is known of a campaign, as plain values."""
    failed = None if outcome.passed else folder / _SCHEDULE
    return {
        "passed": outcome.passed,
        "seed": outcome.seed,
        "seconds": round(outcome.seconds, 1),
        "kills": outcome.kills,
        "driver_starts": outcome.lives,
        "batches": outcome.batches,
        "status_lag": outcome.status_lag,
        "done": outcome.done,
        "refused": outcome.refused,
        "comparison": outcome.comparison,
        "problems": outcome.problems,
        "schedule": failed,
        **outcome.figures,
    }


def _figures(outcome: Outcome) -> dict[str, int | str]:
    figures: dict[str, int | str] = {
        "result": "passed" if outcome.passed else "FAILED",
        "seed": str(outcome.seed),
        "kills": outcome.kills,
        "starts of the driver": outcome.lives,
        "batches": outcome.batches,
        "batches until the status was true": outcome.status_lag,
    }
    figures |= {name.replace("_", " "): count for name, count in outcome.figures.items()}
    figures |= {kind.replace("-", " "): times for kind, times in sorted(outcome.done.items())}
    if outcome.comparison is None:
        return figures | {"rows compared": "none"}
    compared = outcome.comparison
    rows = {"rows compared": sum(compared.rows.values()), "rows lost": compared.lost}
    return figures | rows | {"rows doubled": compared.doubled, "rows not expected": compared.foreign}
