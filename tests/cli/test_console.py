"""What is printed for people and for programs, whatever the text and the numbers are."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rich.table import Table

from foretide.cli.console import Console, echo, plain_table, print_json, progress_bar, warn
from foretide.metrics.metric import Level

HOSTILE = ["[/]", "[/red]", "[bold]x[/bold]", "\x1b[2J", "a\x07\x9b", "\udcff", "\u202eabc", ":smile:", "{x}", "a\rb"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_printed_as_they_are_without_markup_and_control_characters(name, capsys):
    table = plain_table(name, name, name)
    table.add_row(name, name)
    console = Console(width=60)
    console.print(table)
    console.print(name, highlight=False)
    console.print(Table(name, title=name))
    echo(name)
    warn(name)
    with progress_bar(name) as progress:
        progress(0.5)
    out, err = capsys.readouterr()
    assert not set(out + err) & {"\x1b", "\x07", "\x9b", "\udcff", "\u202e", "\r", "\U0001f604"}
    assert name.isprintable() is (name in out)
    assert len(out.splitlines()) > 5


def test_styles_still_work_on_a_terminal(capsys):
    Console(force_terminal=True, color_system="standard", highlight=False).print("x\x1b[2J", style="red")
    assert capsys.readouterr().out == "\x1b[31mx\\x1b[2J\x1b[0m\n"


@dataclass(frozen=True)
class Point:
    x: float
    tags: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": math.nan, "b": [math.inf, -math.inf, 1.5]}, {"a": None, "b": [None, None, 1.5]}),
        (Point(math.inf, frozenset({"b", "a"})), {"x": None, "tags": ["a", "b"]}),
        ([np.float64(2.5), np.int64(3), np.float64("nan"), np.bool_(True)], [2.5, 3, None, True]),
        (np.array([1.0, math.inf]), [1.0, None]),
        ({1: Path("x"), Level.QUERY: Level.QUERY}, {"1": "x", "query": "query"}),
        ("\udcff\x1b", "\udcff\x1b"),
        (10**400, 10**400),
        (None, None),
    ],
)
def test_json_has_finite_numbers_and_plain_values_only(value, expected, capsys):
    print_json(value)
    out = capsys.readouterr().out
    assert json.loads(out, parse_constant=pytest.fail) == expected
    assert out.isascii()
    assert out.count("\n") == 1
