"""Writes the tables of docs/experiments.md: the experiments, and what the results in a folder say of their claims.

python -m benchmarks.experiments.markdown
python -m benchmarks.experiments.markdown artifacts/experiments

`make docs` runs the first; results stay as they are without a folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.experiments.catalogue import select
from benchmarks.experiments.command import outcomes_in
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.show import mark, reached
from foretide.files import atomic_write

PAGE = Path(__file__).parents[2] / "docs" / "experiments.md"


def experiments_table() -> str:
    """Every experiment, and what its paper claims."""
    heads = ("experiment", "how", "minutes", "what is compared", "claims")
    rows = (
        (
            f"`{name}`",
            each.kind,
            f"{each.minutes:g}",
            each.title,
            "; ".join(claim.says for claim in each.claims),
        )
        for name, each in select(()).items()
    )
    return table(heads, rows)


def results_table(outcomes: Sequence[Outcome]) -> str:
    """The claims of the experiments that were run, beside what was measured."""
    rows = [
        (f"`{each.name}`", mark(each), claim.says, claim.measured, f"**{reached(claim.reached)}**")
        for each in outcomes
        for claim in each.claims
    ]
    rows += [(f"`{each.name}`", mark(each), "", f"failed: {each.error}", "") for each in outcomes if each.error]
    return table(("experiment", "how", "claim", "measured", ""), rows)


def between(page: str, name: str, text: str) -> str:
    """The page with another text between the marks of that name.

    >>> between("a <!-- x -->old<!-- end of x --> b", "x", "new")
    'a <!-- x -->\\nnew\\n<!-- end of x --> b'
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{text}\n{end}{after}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars within cells are escaped.

    >>> table(("a", "b"), [("1", "x|y")])
    '| a | b |\\n|---|---|\\n| 1 | x\\\\|y |'
    """
    lines = [" | ".join(heads), *(" | ".join(_cell(cell) for cell in row) for row in rows)]
    first, *rest = (f"| {line} |" for line in lines)
    return "\n".join([first, f"|{'---|' * len(heads)}", *rest])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def main() -> None:
    """Write the tables into the page."""
    page = between(PAGE.read_text(encoding="utf-8"), "experiments", experiments_table())
    for folder in sys.argv[1:2]:
        page = between(page, "results", results_table(outcomes_in(Path(folder))))
    atomic_write(PAGE, page)


if __name__ == "__main__":
    main()
