"""Code blocks of the guides, by the file that each names in its first line."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
_OWN_TESTS = {"policy.md", "extending.md"}


def pages(own_tests):
    """README, the pages and the guides, without those that have tests of their own."""
    docs = ROOT / "docs"
    found = [page for folder in (docs, GUIDES, docs / "papers") for page in sorted(folder.glob("*.md"))]
    return [ROOT / "README.md", *(page for page in found if page.name not in {*own_tests, *_OWN_TESTS})]


def code_blocks(page):
    """All blocks of Python on a page, in order."""
    return re.findall(r"```python\n(.*?)```", (GUIDES / page).read_text(encoding="utf-8"), re.DOTALL)


def blocks_by_file(page):
    """The blocks that name a file, by its path and, of a table in it, the name of that."""
    named = [(re.match(r"# (\S+\.py(?:, in \w+)?)", block), block) for block in code_blocks(page)]
    return {match[1]: block for match, block in named if match}


def run(block, names):
    """Run a block as it is written, in a namespace."""
    exec(compile(block, "guide", "exec"), names)


def registry_entry(block, names):
    """The entry that a block adds to a table, with the names that the table's own module has."""
    return eval("{\n" + block + "}", names)
