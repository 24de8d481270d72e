"""What an experiment is: sides that are compared, measures, and what the paper claims. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from benchmarks.experiments.outcome import Outcome

Kind = Literal["live", "simulator", "computed"]
"""Live: on Spark. Simulator: a simulated cluster. Computed: planners and models, which need neither."""

Better = Literal["less", "more", "neither"]
Samples = Mapping[str, Sequence[float]]
"""Raw samples of a repetition, by the name of the measure."""

TWIN = "again"
"""The name of the second run of the first side, whose difference from the first one is the noise."""


@dataclass(frozen=True)
class Run:
    """One repetition of a side.

    Attributes:
        number: Of the repetition; -1 while warming up.
        seed: Equal for all sides of a repetition but the twin, so that they see the same load.
        folder: Empty at the start, and deleted at the end of the experiment.
        resource: What `Experiment.resource` opened, such as a Spark session.
        tables: Tables for the report, by title; a later repetition replaces those of an earlier one.
    """

    number: int
    seed: int
    quick: bool
    folder: Path
    resource: Any = None
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Measure:
    """Something that is measured of every side."""

    name: str
    unit: str = ""
    better: Better = "less"


@dataclass(frozen=True)
class Side:
    """One of those that are compared.

    Attributes:
        series: With `at`, the line of the plot that the side is a point of.
        in_quick: Whether the quick form has it.
    """

    name: str
    run: Callable[[Run], Samples]
    series: str = ""
    at: float | None = None
    in_quick: bool = True


@dataclass(frozen=True)
class Verdict:
    """What was measured beside a claim, and whether it is reached; None if that cannot be compared."""

    measured: str
    reached: bool | None


@dataclass(frozen=True)
class Claim:
    """What a paper says, and how that is read from what was found."""

    says: str
    judge: Callable[[Outcome], Verdict]


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper; the first side is the one that the others are compared with.

    Attributes:
        scale: How it differs from the paper's, such as the size of the cluster.
        repeat: Repetitions; `quick_repeat` in the quick form.
        minutes: About how long it takes; `quick_minutes` in the quick form, 0 if it has none and is left out there.
        warm_ups: Repetitions before the first one that are not counted.
        resource: Opened before and closed after all repetitions; `Run.resource` is what it yields.
        together: For measurements that cannot be taken apart: measures all sides at once. The sides then name them, and
            their own callables are not called. It may return a side `TWIN`.
        axis: What the places of the sides are, in a sweep.
    """

    paper: str
    title: str
    kind: Kind
    sides: tuple[Side, ...]
    measures: tuple[Measure, ...]
    claims: tuple[Claim, ...] = ()
    scale: str = ""
    repeat: int = 5
    quick_repeat: int = 2
    minutes: float = 1.0
    quick_minutes: float = 0.5
    warm_ups: int = 0
    resource: Callable[[Run], AbstractContextManager[Any]] = lambda _: nullcontext()
    together: Callable[[Run], Mapping[str, Samples]] | None = None
    axis: str = ""

    def chosen(self, *, quick: bool) -> tuple[Side, ...]:
        """The sides that run; an experiment without a quick form runs all of them."""
        return tuple(side for side in self.sides if side.in_quick or not quick) or self.sides


def not_run(samples: Run) -> Samples:
    """For sides of an experiment that measures them together."""
    raise AssertionError(f"measured together, in repetition {samples.number}")
