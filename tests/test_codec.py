"""Dataclasses survive JSON, and what does not fit its type is refused by the name of the field."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.codec import from_data, from_json, parse_json, to_data, to_json
from foretide.errors import CodecError, ControlError


@dataclass(frozen=True)
class Square:
    side: float

    def __post_init__(self) -> None:
        if self.side < 0:
            raise ControlError(f"side must be 0 or more, got {self.side:g}")


@dataclass(frozen=True)
class Circle:
    radius: float


@dataclass(frozen=True)
class Drawing:
    name: str
    shape: Square | Circle
    size: tuple[int, str] = (1, "cm")
    colour: Literal["red", "blue"] = "red"
    others: tuple[Square | Circle, ...] = ()
    marks: frozenset[str] = frozenset()
    weights: Mapping[int, float | None] = field(default_factory=dict)
    label: int | str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


KINDS = {"square": Square, "circle": Circle}
numbers = st.floats(0, allow_nan=False)
shapes = st.builds(Square, numbers) | st.builds(Circle, numbers)
drawings = st.builds(
    Drawing,
    st.text(),
    shapes,
    st.tuples(st.integers(), st.text()),
    st.sampled_from(["red", "blue"]),
    st.lists(shapes, max_size=3).map(tuple),
    st.frozensets(st.text(max_size=3), max_size=3),
    st.dictionaries(st.integers(), st.none() | numbers, max_size=3),
    st.none() | st.integers() | st.text(),
    st.just({"any": [1, {"thing": None}]}),
)


@given(drawings)
def test_a_value_survives_json(drawing):
    assert from_json(Drawing, to_json(drawing, KINDS), KINDS) == drawing
    assert from_data(Drawing, to_data(drawing, KINDS), KINDS) == drawing


def test_numbers_that_are_not_finite_are_text():
    assert to_json(Square(math.inf)) == '{"side":"inf"}'
    assert math.isnan(from_json(Circle, '{"radius": "nan"}').radius)


def test_defaults_stand_in_for_missing_fields_and_unknown_ones_are_passed_over():
    data = {"name": "a", "shape": {"kind": "circle", "radius": 1}, "later": 5}
    assert from_data(Drawing, data, KINDS) == Drawing("a", Circle(1.0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "name: expected str, got int"),
        ({"shape": {"kind": "cube"}}, "shape.kind: expected one of square, circle, got 'cube'"),
        ({"shape": {"kind": []}}, "shape.kind: expected one of square, circle, got []"),
        ({"shape": {"kind": "square"}}, "shape: the field 'side' is missing"),
        ({"shape": {"kind": "square", "side": -1}}, "shape: side must be 0 or more, got -1"),
        ({"size": [1]}, "size: expected 2 values, got 1"),
        ({"colour": "green"}, "colour: expected one of red, blue, got 'green'"),
        ({"others": [{"kind": "circle", "radius": "wide"}]}, "others[0].radius: expected float, got str"),
        ({"others": [{"kind": "circle", "radius": 10**400}]}, "others[0].radius: the number is too large"),
        ({"weights": {"1": True}}, "weights[1]: expected float, got bool"),
        ({"weights": {"one": 1}}, "weights: expected keys of type int, got 'one'"),
    ],
)
def test_a_field_that_does_not_fit_is_named(change, words):
    good = to_data(Drawing("a", Circle(1.0)), KINDS)
    with pytest.raises(CodecError) as caught:
        from_data(Drawing, {**good, **change}, KINDS)
    assert str(caught.value) == words
    assert caught.value.path == words.partition(":")[0]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "9" * 5000, b"\xff"])
def test_text_that_is_not_such_a_value_is_refused(text):
    with pytest.raises(CodecError):
        from_json(Drawing, text, KINDS)


@pytest.mark.parametrize("text", ['["\\ud800x", 1]', b'["\\uDC00x", 1]'])
def test_half_a_surrogate_pair_which_no_output_takes_is_replaced(text):
    assert parse_json(text) == ["?x", 1]


def test_a_whole_surrogate_pair_is_one_letter():
    assert parse_json('["\\ud83d\\ude00"]') == ["\N{GRINNING FACE}"]


@pytest.mark.parametrize("value", [{("a", "b"): 1.0}, {"a": object()}])
def test_what_json_cannot_express_is_refused(value):
    with pytest.raises(TypeError):
        to_json(Drawing("a", Circle(1.0), extra=value))
