"""Bounds in the types of fields: what they refuse, and in which words."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import pytest
from annotated_types import Ge, Gt, Interval, Le, Lt

from foretide.bounds import Bounded, OneOf, interval
from foretide.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Sampling(Bounded):
    section: ClassVar[str] = "sampling"

    share: Annotated[float, Interval(ge=0, le=1)] = 0.5
    rows: Annotated[int | None, Ge(1)] = None
    factor: Annotated[float, Gt(1)] = 2.0
    weight: float = 1.0
    mode: Literal["first", "last"] = "first"
    scope: Annotated[Literal["a", "b"], "described"] = "a"
    names: Annotated[tuple[str, ...], OneOf(("x", "y"))] = ("x",)

    def conflicts(self) -> Iterator[str]:
        if self.rows is not None and self.factor > self.rows:
            yield "sampling.factor must be at most sampling.rows"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"share": 1.4}, "sampling.share must be between 0 and 1, got 1.4"),
        ({"share": -0.1}, "sampling.share must be between 0 and 1, got -0.1"),
        ({"share": math.nan}, "sampling.share must be a finite number, got nan"),
        ({"weight": math.inf}, "sampling.weight must be a finite number, got inf"),
        ({"rows": 0}, "sampling.rows must be at least 1, got 0"),
        ({"factor": 1}, "sampling.factor must be greater than 1, got 1"),
        ({"mode": "all"}, "sampling.mode must be one of first, last, got 'all'"),
        ({"scope": "c"}, "sampling.scope must be one of a, b, got 'c'"),
        ({"names": ("x", "z")}, "sampling.names must be a list of x, y, got ('x', 'z')"),
        (
            {"rows": 0, "factor": 0},
            "sampling.rows must be at least 1, got 0; sampling.factor must be greater than 1, got 0",
        ),
        ({"rows": 1, "factor": 3}, "sampling.factor must be at most sampling.rows"),
    ],
)
def test_values_out_of_bounds_are_refused_by_name(wrong, problem):
    with pytest.raises(SettingsError) as error:
        Sampling(**wrong)
    assert str(error.value) == error.value.problem == problem
    assert error.value.source is None


def test_values_on_the_bounds_and_none_are_accepted():
    assert Sampling(share=0, names=("y", "x")).share == 0
    assert Sampling(share=1, rows=None).rows is None


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Annotated[float, Ge(0), Le(1)], "between 0 and 1"),
        (Annotated[float, Interval(gt=0, lt=0.5)], "greater than 0 and less than 0.5"),
        (Annotated[float, Interval(ge=0, lt=86_400)], "at least 0 and less than 86400"),
        (Annotated[float, Lt(1)], "less than 1"),
        (float, ""),
    ],
)
def test_bounds_in_words(hint, words):
    assert interval(hint) == words
