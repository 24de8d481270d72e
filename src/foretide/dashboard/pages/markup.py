"""Pieces of HTML that several pages use. Text is escaped wherever it is put in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from foretide.formatting import format_duration, format_number
from foretide.status.views.latency import Point

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0


def html(template: str, *values: object, **named: object) -> Markup:
    """A piece of HTML with values put in, escaped unless they are HTML themselves.

    >>> html("<b>{}</b>", "a < b")
    Markup('<b>a &lt; b</b>')
    """
    return Markup(template).format(*values, **named)  # noqa: S704 - the template is a literal, the values are escaped


def join(parts: Iterable[Markup], between: str = "") -> Markup:
    """Pieces of HTML, one after the other."""
    return Markup(between).join(parts)  # noqa: S704 - a literal


def pill(word: str, kind: str | None = None) -> Markup:
    """A word with a colour."""
    return html('<span class="pill {}">{}</span>', kind or word, word)


def empty(title: str, words: str, command: str | None = None) -> Markup:
    """What a page shows when there is nothing to show, and what would change that."""
    code = Markup("") if command is None else html("<div><code>{}</code></div>", command)
    return html('<section class="panel empty"><h2>{}</h2><p>{}</p>{}</section>', title, words, code)


def note(kind: str, words: str) -> Markup:
    """A sentence that stands out."""
    return html('<p class="note {}">{}</p>', kind, words)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()) -> Markup:
    """A table; columns in `numbers` are aligned to the right."""
    right = set(numbers)
    top = join(html('<th scope="col"{}>{}</th>', _number(place in right), head) for place, head in enumerate(heads))
    body = join(
        html(
            "<tr>{}</tr>",
            join(html("<td{}>{}</td>", _number(place in right), cell) for place, cell in enumerate(row)),
        )
        for row in rows
    )
    return html(
        '<div class="scroll" tabindex="0" role="group" aria-label="table"><table><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>",
        top,
        body,
    )


def _number(is_number: bool) -> Markup:  # noqa: FBT001
    return Markup(' class="n"') if is_number else Markup("")


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash."""
    return "–" if value is None else format_number(value, digits)  # noqa: RUF001 - a dash


def duration(seconds: float | None) -> str:
    """A duration, or a dash."""
    return "–" if seconds is None else format_duration(seconds)  # noqa: RUF001 - a dash


def percent(share: float | None) -> str:
    """A share in percent, or a dash."""
    return "–" if share is None else f"{share:.0%}"  # noqa: RUF001 - a dash


def ago(seconds: float) -> str:
    """How long ago something was.

    >>> ago(0.4), ago(42), ago(190), ago(7300), ago(200000)
    ('now', '42 s ago', '3 min ago', '2 h ago', '2 days ago')
    """
    if seconds < 1:
        return "now"
    for unit, length, most in (("s", 1.0, _MINUTE), ("min", _MINUTE, _HOUR), ("h", _HOUR, _DAY)):
        if seconds < most:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{seconds // _DAY:.0f} days ago"


def sparkline(points: Sequence[Point], label: str) -> Markup:
    """A small line of values over time."""
    if len(points) < 2:  # noqa: PLR2004
        return html('<svg viewBox="0 0 100 30" role="img" aria-label="{}: no history yet"></svg>', label)
    first, length = points[0].at, max(points[-1].at - points[0].at, 1e-9)
    most = max(1e-9, *(point.value for point in points))
    line = " L".join(f"{100 * (p.at - first) / length:.1f},{28 - 25 * max(p.value, 0.0) / most:.1f}" for p in points)
    return html(
        '<svg class="spark" viewBox="0 0 100 30" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path class="area" d="M0,30 L{} L100,30 Z"/><path d="M{}"/></svg>',
        label,
        line,
        line,
    )


def bar(share: float, *, over: bool = False, mark: float | None = None, kind: str = "") -> Markup:
    """A bar of a share of its track, with a mark such as a target."""
    line = Markup("") if mark is None else html('<u style="left:{}%"></u>', f"{100 * min(mark, 1.0):.1f}")
    width = f"{100 * min(max(share, 0.0), 1.0):.1f}"
    name = " ".join(filter(None, ("over" if over else "", kind)))
    return html('<span class="track"><i class="{}" style="width:{}%"></i>{}</span>', name, width, line)
