"""What `foretide run` and `foretide demo` check before Spark is started, the folders they use, and how they end."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import typer

from foretide.cli.console import echo
from foretide.control.world.setup import Target
from foretide.control_folder.filesystem import local_path
from foretide.errors import (
    ControlError,
    ControlFolderError,
    EnvironmentNotReadyError,
    RegistryError,
    SettingsError,
    StoreError,
)
from foretide.files import PRIVATE
from foretide.runtime.shutdown import Interrupted, interruptible
from foretide.settings.run import MonitorSettings
from foretide.settings.settings import Settings
from foretide.spark.versions import REPLAY, check_has, check_spark
from foretide.status.pipelines import Running, foretide_home, list_running, private_home, withdraw
from foretide.topology.sinks import Json, Parquet, Sink, Table

SPARK_LOG = "spark.log"
MAX_SECONDS = 86_400.0
_PRIVATE_FOLDER = 0o700
MAX_RATE = 1_000_000.0
_MAX_COMPARED = 100_000_000
"""All rows of a run are held in memory at its end, to be compared with the output."""

_MAX_SHOWN = 100
_LOCAL = re.compile(r"local(\[\s*([1-9]\d{0,4}|\*)\s*(,\s*[1-9]\d{0,4}\s*)?\])?", re.ASCII)
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*[1-9]\d{0,3}\s*,\s*[1-9]\d{0,3}\s*,\s*[1-9]\d{0,6}\s*\]", re.ASCII)
_HOST = r"[\w.-]+:\d{1,5}"
_REMOTE = re.compile(rf"yarn|spark://{_HOST}(,{_HOST})*|k8s://(https?://)?[\w.:/\[\]-]+", re.ASCII)


def check_between(option: str, value: float, low: float, high: float, unit: str = "") -> None:
    """Refuse a number that is out of bounds, infinite or not a number."""
    if not low <= value <= high:
        given = f"{value:,}" if isinstance(value, int) else f"{value:g}"
        raise typer.BadParameter(f"{option} must be between {low:,g} and {high:,.0f}{unit}, got {given}")


def check_load(duration: float, rate: float, min_seconds: float, min_rate: float) -> None:
    """Refuse a load that cannot be replayed, or has too many rows to be compared at the end."""
    check_can_replay()
    check_between("--duration", duration, min_seconds, MAX_SECONDS, " s")
    check_between("--rate", rate, min_rate, MAX_RATE, " rows per second")
    if duration * rate > _MAX_COMPARED:
        raise typer.BadParameter(
            f"--rate {rate:g} for {duration:g} s gives {duration * rate:,.0f} rows; at most {_MAX_COMPARED:,} can be "
            "compared with the output"
        )


def check_can_replay() -> None:
    """Refuse to start where Spark is too old for a load that is replayed."""
    check_spark()
    check_has(REPLAY)


def check_master(master: str) -> None:
    """Refuse what is no master URL of Spark."""
    if not any(pattern.fullmatch(master) for pattern in (_LOCAL, _LOCAL_CLUSTER, _REMOTE)):
        raise typer.BadParameter(
            "--master must be a master URL of Spark, such as local[2], local[*], local-cluster[2,1,1024], "
            f"spark://host:7077, yarn or k8s://host:443, got {master!r}"
        )


def check_home() -> None:
    """Refuse a FORETIDE_HOME in which running pipelines cannot be registered."""
    home = foretide_home()
    with suppress(RegistryError):  # what is wrong is found below
        private_home()
    problem = _not_writable(home / "running", _PRIVATE_FOLDER)
    if problem is not None:
        raise EnvironmentNotReadyError(
            f"cannot write to Foretide's own folder {_quoted(home)}: {problem}; set FORETIDE_HOME to another folder"
        )


def check_store(monitoring: MonitorSettings | None) -> None:
    """Refuse a metrics store that can never be opened."""
    if monitoring is None or not monitoring.store:
        return
    from foretide.store.database import database_url  # noqa: PLC0415 - SQLAlchemy takes a while to load

    try:
        url = database_url(monitoring.store)
    except StoreError as error:
        raise StoreError(f"monitoring.store: {error}") from error
    if url.get_backend_name() == "sqlite":
        place = Path(str(url.database))
        problem = "it is a folder" if place.is_dir() else _not_writable(place.parent)
        if problem is not None:
            raise StoreError(f"monitoring.store: cannot write to {_quoted(place)}: {problem}")


def check_control(settings: Settings, target: Target | None, *, handed_in: bool = False) -> None:
    """Refuse what would keep a control loop from starting: with a `target`, or policies, there will be one.

    Args:
        settings: All of them.
        target: What the loop has to hold; None where there will be no loop.
        handed_in: Whether options hand a model, history or events to the forecasts, which only a loop makes.
    """
    if target is None and handed_in:
        raise typer.BadParameter(
            "--history, --model and --event are for the forecasts of the control loop: give --latency or --policy, too"
        )
    monitoring = settings.to_run().monitoring
    if target is not None and monitoring is None:
        raise ControlError("the control loop rests on what is measured; set run.monitoring to true")
    check_store(monitoring)
    forecasts = settings.forecasts
    if target is not None and (forecasts.model is not None or forecasts.history or forecasts.events):
        from foretide.runtime.forecasts.handed_in import check_handed_in  # noqa: PLC0415 - loads models

        check_handed_in(forecasts)


def check_output_mode(mode: str) -> None:
    """Refuse what Spark cannot write to files and tables."""
    if mode != "append":
        raise SettingsError(f"run.output_mode must be append where the output is files or a table, got {mode}")


def check_sink(sink: Sink, output_mode: str) -> None:
    """Refuse a folder of files that cannot be written, and an output mode that files do not take."""
    if isinstance(sink, Parquet | Json | Table):
        check_output_mode(output_mode)
    folder = local_path(sink.path) if isinstance(sink, Parquet | Json) else None
    problem = None if folder is None else _not_writable(folder)
    if folder is not None and problem is not None:
        raise EnvironmentNotReadyError(f"--sink: cannot write to {_quoted(folder)}: {problem}; give another folder")


@contextmanager
def output_folder(output: Path | None, name: str, *, may_exist: bool = False) -> Iterator[Path]:
    """A folder that can be written, for output and checkpoint: a new temporary one if none is given.

    An earlier run in it is refused unless it `may_exist`, since the verification covers the whole output. A temporary
    folder is removed if the run is interrupted, or fails before it has written anything.
    """
    if output is not None:
        problem = _not_writable(output)
        if problem is not None:
            raise ControlFolderError(f"--output: cannot write to {_quoted(output)}: {problem}; give another folder")
        if not may_exist and any(output.iterdir()):
            raise ControlFolderError(f"--output: '{output}' is not empty; give a new folder for output and checkpoint")
        yield output.absolute()
        return
    folder = temporary_folder(f"foretide-{name}-")
    try:
        yield folder
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except BaseException:
        with suppress(OSError):
            folder.rmdir()
        raise


def check_temporary() -> None:
    """Refuse to start where no temporary folder can be created: Spark needs one."""
    temporary_folder("foretide-").rmdir()


def temporary_folder(prefix: str) -> Path:
    """A new folder that only this user can read."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise EnvironmentNotReadyError(
            f"cannot create a temporary folder: {error.strerror}; set TMPDIR to a folder that can be written"
        ) from error


@contextmanager
def run_folder(name: str) -> Iterator[Path]:
    """A temporary folder for a demonstration; if that fails, Spark's log stays there."""
    folder = temporary_folder(f"foretide-{name}-")
    log_file = folder / SPARK_LOG
    try:
        yield folder
    except Exception:
        if log_file.is_file() and log_file.stat().st_size:
            kept = temporary_folder(f"foretide-{name}-") / SPARK_LOG
            shutil.copyfile(log_file, kept)
            echo(f"Spark's log: {kept}", err=True)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _not_writable(folder: Path, mode: int = 0o777) -> str | None:
    """Why no file can be created in a folder, which is created if it is missing; None if one can."""
    try:
        folder.mkdir(mode, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except FileExistsError:
        return "it is a file"
    except OSError as error:
        return error.strerror or type(error).__name__
    except ValueError:
        return "the name is not valid"


def _quoted(path: Path) -> str:
    """The path as a person can read it; of a long one only the beginning.

    >>> _quoted(Path("out"))
    "'out'"
    """
    text = str(path)
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the command on SIGINT or SIGTERM with a sentence and exit code 130 or 143."""
    try:
        with interruptible():
            yield
    except KeyboardInterrupt as interrupt:
        for own in (each for each in list_running() if each.pid == os.getpid()):  # cut off while it started
            withdraw(own)
        raise Interrupted.of(interrupt) from None  # the end of every command says it, as JSON where that is asked for


@contextmanager
def only_run(name: str) -> Iterator[Callable[[Path], None]]:
    """Refuse to run while another process runs a pipeline of the same name.

    Yields a function that tells other processes the control folder.
    """
    path = foretide_home() / "running" / f"{name}.lock"
    path.parent.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8", opener=_private_file) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _is_running(name, _holder(path, name)) from None
        for other in list_running():
            if other.name == name and other.pid != os.getpid():
                raise _is_running(name, other)

        def note(text: str) -> None:
            lock.truncate(0)
            lock.write(text)
            lock.flush()

        def tell(control_folder: Path | str) -> None:
            note(json.dumps({"pid": os.getpid(), "control_folder": str(control_folder)}))

        tell("")  # for `foretide list`, which says that it is starting
        try:
            yield tell
        finally:
            note("")


def _private_file(name: str, flags: int) -> int:
    return os.open(name, flags, PRIVATE)


def _holder(path: Path, name: str) -> Running | None:
    with suppress(OSError, ValueError, TypeError, RecursionError):
        return Running(name, **json.loads(path.read_text(encoding="utf-8")))
    return None


def _is_running(name: str, holder: Running | None) -> ControlFolderError:
    folder = f", control folder '{holder.control_folder}'" if holder is not None and holder.control_folder else ""
    where = "" if holder is None else f" (process {holder.pid}{folder})"
    return ControlFolderError(
        f"'{name}' is already running{where}; stop it with `foretide stop --app {name}`, or wait until it has ended"
    )
