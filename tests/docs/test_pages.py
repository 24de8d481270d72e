"""Commands, packages, make targets and links that the pages name exist."""

import re
import shlex
from urllib.parse import unquote

import pytest
from typer.main import get_command

from docs.pages import ROOT
from foretide.cli.main import VARIANTS, app, given_program

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference"),
]
SOURCE = ROOT / "src" / "foretide"


def read(page):
    return page.read_text(encoding="utf-8")


def prose(page):
    """A page without its code blocks."""
    return re.sub(r"```.*?```", "", read(page), flags=re.DOTALL)


def named_commands(page):
    """Each `foretide ...` in a block for the console or between backticks, without what the shell does with it."""
    blocks = re.findall(r"```(?:console|sh|bash)\n(.*?)```", read(page), re.DOTALL)
    spans = re.findall(r"`((?:\.venv/bin/)?foretide [^`]+)`", prose(page))
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    named = [text for text in (*lines, *spans) if re.match(r"(\.venv/bin/)?foretide ", text)]
    return [re.split(r" [|>#&] ?| \(", " ".join(text.split()))[0] for text in named]


def unknown_in(text):
    """What the command line does not know of a command: its name, or options."""
    command, words = get_command(app), shlex.split(text)[1:]
    place, variant = given_program(words[1:]) if words[:1] == ["run"] else (None, None)
    if variant is not None:
        command = command.commands["run"].load(VARIANTS[variant])
        words = words[1 : place + 2] if variant == "script" else words[1:]  # what follows a program is its own
    while variant is None and words and not words[0].startswith("-"):
        if hasattr(command, "load"):
            command = command.load()
        if not hasattr(command, "commands"):
            break
        if words[0] not in command.commands:
            return [words[0]]
        command = command.commands[words.pop(0)]
    command = command.load() if hasattr(command, "load") else command
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_that_a_page_names_exist(page):
    assert {text: unknown for text in named_commands(page) if (unknown := unknown_in(text))} == {}


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    for path, _, anchor in (unquote(link).partition("#") for link in links if "://" not in link):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_every_make_target_is_described():
    targets = re.search(r"^\.PHONY: (.*)$", read(ROOT / "Makefile"), re.MULTILINE)[1].split()
    described = set(re.findall(r"`make ([\w-]+)`", read(ROOT / "CONTRIBUTING.md")))
    assert described == set(targets)


def test_the_table_of_packages_names_every_package():
    table = read(ROOT / "docs" / "architecture.md").partition("## Packages")[2].partition("## ")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    there = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    there |= {path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")}
    assert named == there


def test_places_in_the_table_of_additions_exist():
    table = read(ROOT / "docs" / "architecture.md").partition("## Where to add")[2].partition("\n## ")[0]
    places = [place for place in re.findall(r"`([\w/]+(?:/|\.py))`", table) if "NAME" not in place]
    assert len(places) > 10
    assert [place for place in places if not (SOURCE / place).exists()] == []


def test_folders_of_the_layout_in_contributing_exist():
    layout = re.search(r"```\nsrc/foretide/\n(.*?)tests/", read(ROOT / "CONTRIBUTING.md"), re.DOTALL)[1]
    for name, parts in re.findall(r"(\w+)/(?:\{([\w,]+)\})?", layout):
        assert (SOURCE / name).is_dir(), name
        assert all((SOURCE / name / part).is_dir() for part in parts.split(",") if part), name
