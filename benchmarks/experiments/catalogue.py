"""The experiments by name: every file of `papers/` has one."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from benchmarks.experiments.experiment import Experiment
from foretide.errors import ForetideError

_FOLDER = Path(__file__).parent / "papers"


class UnknownExperimentError(ForetideError):
    """A name that is neither that of an experiment nor of a paper."""


def names() -> list[str]:
    """The names, which are those of the files with hyphens."""
    return sorted(path.stem.replace("_", "-") for path in _FOLDER.glob("[!_]*.py"))


def module_of(name: str) -> str:
    """The module of an experiment."""
    return f"benchmarks.experiments.papers.{name.replace('-', '_')}"


def load(name: str) -> Experiment:
    """The experiment of that name."""
    found = import_module(module_of(name)).EXPERIMENT
    assert isinstance(found, Experiment), name
    return found


def select(wanted: Sequence[str]) -> dict[str, Experiment]:
    """The experiments of these names, or of these papers; all of them if none is named.

    Raises:
        UnknownExperimentError: There is no experiment or paper of a name.
    """
    every = {name: load(name) for name in names()}
    papers = {experiment.paper for experiment in every.values()}
    found: dict[str, Experiment] = {}
    for name in wanted or every:
        chosen = {key: each for key, each in every.items() if name in (key, each.paper)}
        if not chosen:
            raise UnknownExperimentError(
                f"there is no experiment or paper '{name}'; {_like(name, [*every, *sorted(papers)])}"
            )
        found |= chosen
    return found


def _like(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else "foretide bench --list shows them all"
