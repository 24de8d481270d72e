"""What an experiment found: raw samples of each repetition, what follows from them, and both as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.experiments.experiment import TWIN, Measure, Samples
from benchmarks.experiments.statistics import Spread, beyond_noise, changes, figure, noise, spread
from foretide.errors import FileError
from foretide.files import atomic_write, read_text
from foretide.formatting import finite

FORMAT = 1
_MAX_BYTES = 100_000_000


@dataclass(frozen=True)
class Repetition:
    """Raw samples by side and measure, and the order in which the sides ran."""

    order: tuple[str, ...]
    samples: Mapping[str, Samples]


@dataclass(frozen=True)
class SideLabel:
    """A side without what it does: its name, and its place in a sweep."""

    name: str
    series: str = ""
    at: float | None = None


@dataclass(frozen=True)
class Judged:
    """A claim beside what was measured."""

    says: str
    measured: str
    reached: bool | None


@dataclass(frozen=True)
class Outcome:
    """All of an experiment; `error` says why it failed."""

    name: str
    paper: str
    title: str
    kind: str
    quick: bool
    scale: str
    axis: str
    machine: str
    began: float
    seconds: float
    sides: tuple[SideLabel, ...]
    measures: tuple[Measure, ...]
    repetitions: tuple[Repetition, ...] = ()
    tables: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    claims: tuple[Judged, ...] = ()
    error: str | None = None

    @property
    def base(self) -> str:
        """The side that the others are compared with."""
        return self.sides[0].name

    def samples(self, side: str, measure: str) -> list[float]:
        """Raw samples of all repetitions."""
        return [value for each in self.repetitions for value in each.samples.get(side, {}).get(measure, ())]

    def figures(self, side: str, measure: str) -> list[float]:
        """One figure for each repetition."""
        return [figure(each.samples.get(side, {}).get(measure, ())) for each in self.repetitions]

    def spread(self, side: str, measure: str) -> Spread:
        """Median and spread over the repetitions."""
        return spread(self.figures(side, measure))

    def median(self, side: str, measure: str) -> float:
        """The median of the repetitions; for claims, which say nothing about what was not measured.

        Raises:
            LookupError: It was not measured.
        """
        return _measured(self.spread(side, measure).median, side, measure)

    def noise(self, measure: str) -> float | None:
        """By how much the first side differs from itself, as a share."""
        return noise(self.figures(self.base, measure), self.figures(TWIN, measure))

    def change(self, side: str, measure: str, base: str | None = None) -> float:
        """By how much a side differs from another one within a repetition, as a share: the median.

        Raises:
            LookupError: One of them was not measured.
        """
        return _measured(median_change(self, side, measure, base or self.base), side, measure)

    def differs(self, side: str, measure: str, base: str | None = None) -> bool | None:
        """Whether that is more than the noise."""
        return beyond_noise(self.figures(side, measure), self.figures(base or self.base, measure), self.noise(measure))

    def data(self) -> dict[str, Any]:
        """Values for JSON, with what follows from the samples."""
        return finite({"format": FORMAT, **asdict(self), "summary": summary_rows(self)})

    def save(self, folder: Path) -> Path:
        """Write it to its file in a folder."""
        path = folder / f"{self.name}.json"
        try:
            atomic_write(path, json.dumps(self.data(), indent=1, allow_nan=False))
        except OSError as error:
            raise FileError(path, f"cannot be written: {error.strerror or error}") from error
        return path


def median_change(outcome: Outcome, side: str, measure: str, base: str) -> float:
    """The median of the changes within repetitions, nan if there is none."""
    found = changes(outcome.figures(side, measure), outcome.figures(base, measure))
    return median(found) if found else math.nan


def _measured(value: float, side: str, measure: str) -> float:
    if math.isnan(value):
        raise LookupError(f"{measure} of {side}")
    return value


def summary_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """A row for each side and measure: median, spread, and the change from the first side beside the noise."""
    rows = []
    for measure in outcome.measures:
        for side in outcome.sides:
            found = outcome.spread(side.name, measure.name)
            if not found.count:
                continue
            alone = side.name == outcome.base
            rows.append(
                {
                    "measure": f"{measure.name}, {measure.unit}" if measure.unit else measure.name,
                    "side": side.name,
                    "median": found.median,
                    "quartiles": (found.low, found.high),
                    "repetitions": found.count,
                    "change": None if alone else median_change(outcome, side.name, measure.name, outcome.base),
                    "noise": outcome.noise(measure.name),
                    "beyond noise": None if alone else outcome.differs(side.name, measure.name),
                }
            )
    return rows


def read_outcome(path: Path) -> Outcome:
    """An outcome from its file.

    Raises:
        FileError: The file cannot be read, or is no outcome of this version.
    """
    try:
        data = json.loads(read_text(path, "the outcome of an experiment", _MAX_BYTES))
        if data["format"] != FORMAT:
            raise FileError(path, f"has format {data['format']}, this version reads {FORMAT}")
        return _outcome(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(path, "is not the outcome of an experiment") from error


def _outcome(data: dict[str, Any]) -> Outcome:
    known = {each.name for each in fields(Outcome)}
    return Outcome(
        **{key: value for key, value in data.items() if key in known}
        | {
            "sides": tuple(SideLabel(**each) for each in data["sides"]),
            "measures": tuple(Measure(**each) for each in data["measures"]),
            "repetitions": tuple(
                Repetition(tuple(each["order"]), _read(each["samples"])) for each in data["repetitions"]
            ),
            "claims": tuple(Judged(**each) for each in data["claims"]),
        }
    )


def _read(samples: dict[str, dict[str, list[float | None]]]) -> dict[str, dict[str, list[float]]]:
    """Samples that were not finite are None in JSON."""
    return {
        side: {name: [math.nan if value is None else float(value) for value in values] for name, values in each.items()}
        for side, each in samples.items()
    }


def read_folder(folder: Path) -> list[Outcome]:
    """All outcomes in a folder, by paper and name."""
    return sorted((read_outcome(path) for path in folder.glob("*.json")), key=lambda each: (each.paper, each.name))
