"""The pages in docs/reference are made from the code, and the checked-in ones are those."""

import importlib.util
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.main import get_command

import foretide
from foretide.cli import app
from foretide.cli.main import LazyCommand
from foretide.metrics.catalogue import CATALOGUE, at_level
from foretide.metrics.metric import Level
from foretide.settings.reference import PYTHON_ONLY, SECTIONS, SETTINGS
from foretide.topology.groupings import Grouping

SCRIPT = Path(__file__).parents[1] / "scripts" / "reference.py"


def load_script():
    spec = importlib.util.spec_from_file_location("reference", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load_script()
PAGES = reference.pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_checked_in_page_is_what_the_code_says(name):
    there = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert there == PAGES[name], f"docs/reference/{name} is out of date: run `make docs` and commit the page"


def test_no_page_is_there_that_nothing_makes():
    by_another_script = {"rest.md"}  # scripts/rest_reference.py; see tests/docs/test_rest_reference.py
    assert {file.name for file in reference.FOLDER.iterdir()} == {*PAGES, *by_another_script}


def test_the_pages_are_the_same_each_time():
    assert reference.pages() == PAGES == load_script().pages()


def leaves(command, path="foretide"):
    command = command.load() if isinstance(command, LazyCommand) else command
    below = getattr(command, "commands", None)
    if below is None:
        return [path]
    return [leaf for name, each in below.items() for leaf in leaves(each, f"{path} {name}")]


def test_every_command_has_its_section():
    expected = leaves(get_command(app))
    assert "foretide route set" in expected
    assert [line[3:] for line in PAGES["cli.md"].splitlines() if line.startswith("## ")] == expected


def test_every_public_grouping_and_error_has_its_section():
    public = [getattr(foretide, name) for name in foretide.__all__]
    classes = [each for each in public if isinstance(each, type)]
    for kind in (each for each in classes if issubclass(each, Grouping)):
        assert f"\n## {kind.name}\n" in PAGES["groupings.md"]
    for kind in (each for each in classes if issubclass(each, Exception)):
        assert f"\n## {kind.__name__}\n" in PAGES["errors.md"]


def test_every_metric_stands_once_in_the_table_of_its_level():
    sections = PAGES["metrics.md"].split("\n## ")[1:]
    assert [section.split("\n", 1)[0] for section in sections] == [level.value.capitalize() for level in Level]
    for level, section in zip(Level, sections, strict=True):
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        assert rows == [f"| `{metric.name}` | {metric.unit} | {metric.meaning} |" for metric in at_level(level)]


def test_the_page_of_metrics_says_how_many_there_are_and_how_often_each_level_is_read():
    top = PAGES["metrics.md"].split("\n## ", 1)[0]
    assert f"There are {len(CATALOGUE)} metrics" in top
    for level, often in zip(Level, [*["every batch"] * 4, "every 5 s", "every 15 s"], strict=True):
        assert f"{level.value} ({len(at_level(level))}, {often})" in top


def test_every_setting_stands_once_in_the_table_of_its_section_or_of_advanced_settings():
    sections = PAGES["settings.md"].split("\n## ")[1:]
    assert [section.split("\n", 1)[0] for section in sections] == [*SECTIONS, "Advanced settings"]
    advanced = [setting for setting in SETTINGS.values() if setting.scope is not None]
    tables = [[each for each in SETTINGS.values() if each.section == name and not each.scope] for name in SECTIONS]
    for settings, section in zip([*tables, advanced], sections, strict=True):
        rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
        assert [row[0] for row in rows] == [f"| `{setting.path}`" for setting in settings]
        assert [row[-1] for row in rows] == [f"`{setting.variable}` |" for setting in settings]
        assert all(len(row) == 5 and all(cell.strip("`| ") for cell in row) for row in rows)


def test_the_page_of_settings_says_how_many_there_are_and_which_have_no_place_in_a_file():
    assert f"There are {len(SETTINGS)} settings, " in PAGES["settings.md"]
    assert all(f"`{path}`" in PAGES["settings.md"].split("In Python only: ")[1] for path in PYTHON_ONLY)


def test_every_page_is_in_the_navigation():
    navigation = (SCRIPT.parents[1] / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in PAGES if f"reference/{name}\n" not in navigation] == []


def test_a_new_command_is_described_without_further_ado():
    cli, group = typer.Typer(help="A tool."), typer.Typer(help="A group.")

    @cli.command("one")
    def _one(
        file: Annotated[Path, typer.Argument(help="What to read.")],
        times: Annotated[int, typer.Option(min=1, max=9, help="How often | how much.")] = 3,
        where: Annotated[str | None, typer.Option("--where", "-w", help="Where to.")] = None,
        *,
        loud: Annotated[bool, typer.Option("--loud", help="Say more.")] = False,
    ):
        """Do one thing.

        And say more about it.
        """

    @group.command("two")
    def _two(names: Annotated[list[str] | None, typer.Argument(metavar="NAME")] = None):
        """Do two things."""

    @group.command("secret", hidden=True)
    def _secret():
        """Not for the page."""

    cli.add_typer(group, name="deep")
    page = reference.cli_page(cli)
    for part in (
        "A tool.",
        "| `foretide one` | Do one thing. |",
        "And say more about it.",
        "foretide one [OPTIONS] FILE",
        "| `FILE` | What to read. | required |",
        "| `--times TIMES` | How often \\| how much. (at least 1, at most 9) | `3` |",
        "| `--where WHERE`, `-w WHERE` | Where to. |  |",
        "| `--loud` | Say more. |  |",
        "foretide deep two [NAME...]",
    ):
        assert part in page, part
    assert "secret" not in page
    assert "completion" not in page
