"""Finds the stores of runs, and reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from foretide.control_folder.filesystem import local_path
from foretide.errors import EmptyStoreError, StoreError
from foretide.secrets import masked_url
from foretide.status.pipelines import list_running, running_store
from foretide.status.run_record import RunRecord, read_run
from foretide.store.metric_store import MetricStore

_STORE = "metrics.db"
_PLACES = ("", "foretide", "checkpoint/foretide")
"""Where a run keeps its store below its control folder, its checkpoint, or the output folder of `foretide run`."""


def read_runs(given: Sequence[str], *, since: float | None = None, app: str | None = None) -> list[RunRecord]:
    """What is recorded of runs; those of the same name are told apart by where they were found.

    Args:
        given: For each, the name of a running pipeline, a folder, or a store.
        since: Only what was recorded from this time on.
        app: Only this pipeline, where a store has several; by default all of them.

    Raises:
        StoreError: There is no such store, or it has nothing of the run.
    """
    found = [(each, run) for each in given for run in _read(each, since, app)]
    names = [run.name for _, run in found]
    return [replace(run, name=f"{run.name} ({masked_url(place)})") if names.count(run.name) > 1 else run
            for place, run in found]  # fmt: skip


def _read(given: str, since: float | None, app: str | None) -> Iterator[RunRecord]:
    location, name = _locate(given)
    with MetricStore.open(location, create=False) as store:
        pipelines = store.pipelines()
        wanted = [each for each in (name, app) if each is not None] or pipelines
        if not pipelines:
            raise EmptyStoreError(f"the store of '{masked_url(given)}' is empty: no pipeline has written to it yet")
        for each in dict.fromkeys(wanted):
            if each not in pipelines:
                there = ", ".join(f"'{known}'" for known in pipelines)
                raise StoreError(f"the store of '{masked_url(given)}' has no metrics of '{each}'; it has: {there}")
            yield read_run(store, each, since=since)


def _locate(given: str) -> tuple[str, str | None]:
    """The store, and the name of the pipeline in it if that is known."""
    running = list_running()
    for each in running:
        folder = local_path(each.control_folder)
        if given == each.name or (folder is not None and "://" not in given and _same(folder, given)):
            return running_store(each), each.name
    if "://" in given or not os.path.isdir(given):  # noqa: PTH112 - False for a name that no file can have
        return given, None
    for place in _PLACES:
        store = Path(given) / place / _STORE
        if os.path.isfile(store):  # noqa: PTH113 - False for a loop of links
            return str(store), None
    raise StoreError(
        f"'{given}' has no store: neither it nor {' nor '.join(each for each in _PLACES if each)} below it has "
        f"{_STORE}; give the folder of a run, or its store, a file or URL"
    )


def _same(one: Path, other: str) -> bool:
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # no file can have such a name
        return False
