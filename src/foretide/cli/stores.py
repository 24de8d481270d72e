"""Finding the store, and the pipeline in it, that a command means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from foretide.errors import PipelineNotFoundError, StoreError
from foretide.status.running import default_store, find_running, list_running
from foretide.store.metric_store import MetricStore

APP_HELP = "The pipeline, or the path of its store; the pipeline that runs unless said."

AppArgument = Annotated[str | None, typer.Argument(metavar="APP", help=APP_HELP)]
StoreOption = Annotated[str | None, typer.Option("--store", help="The store (a file or URL), instead of its name.")]


@contextmanager
def opened_store(app: str | None, store: str | None) -> Iterator[tuple[MetricStore, str]]:
    """The store given, or that of the running pipeline, and the pipeline that is meant in it.

    Raises:
        PipelineNotFoundError: No such pipeline runs, and no store was given.
        StoreError: There is no store at the place, or nothing of the pipeline in it.
    """
    location, name = _location(app, store)
    with MetricStore.open(location, create=False) as found:
        yield found, _pipeline(found, name)


def _location(app: str | None, store: str | None) -> tuple[str, str | None]:
    if store is not None:
        return store, app
    if app is not None and ("://" in app or Path(app).is_file()):
        return app, None
    try:
        running = find_running(app)
    except PipelineNotFoundError:
        raise PipelineNotFoundError(_not_found(app)) from None
    return running.store or default_store(running.control, running.name), app


def _not_found(app: str | None) -> str:
    names = [running.name for running in list_running()]
    if app is None and not names:
        what = "no pipeline runs on this machine"
    elif app is None or app in names:
        what = f"say which pipeline with its name or --store; running: {', '.join(names)}"
    else:
        what = f"no pipeline '{app}' runs here; running: {', '.join(names) or 'none'}"
    return f"{what}. What one that has ended left behind is read with --store FILE"


def _pipeline(store: MetricStore, app: str | None) -> str:
    """The pipeline that is meant; an error lists those there are."""
    there = store.pipelines()
    if app is not None and app in there:
        return app
    if app is None and len(there) == 1:
        return there[0]
    names = ", ".join(there) or "none"
    meant = "say which pipeline" if app is None else f"there are no metrics of '{app}'"
    raise StoreError(f"{meant}; the store has: {names}")
