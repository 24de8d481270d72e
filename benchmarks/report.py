"""Shows figures as tables: a benchmark returns {title: [row, ...]} with rows as dictionaries, and notes as text."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def show(console: Console, figures: dict[str, Any]) -> None:
    """Print what a benchmark found."""
    for title, rows in figures.items():
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            table = Table(*rows[0], title=title, title_justify="left")
            for row in rows:
                table.add_row(*(_text(value) for value in row.values()))
            console.print(table)
        else:
            console.print(f"{title}: {rows}", highlight=False)


def markdown(figures: dict[str, Any]) -> str:
    """What a benchmark found, for a page of the documentation."""
    parts = []
    for title, rows in figures.items():
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            lines = [list(rows[0]), ["---"] * len(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
            parts.append(f"**{title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
        else:
            parts.append(f"{title}: {rows}")
    return "\n\n".join(parts) + "\n"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
