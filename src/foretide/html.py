"""Elements of HTML and SVG as text. What is not an element is escaped, control characters too."""

from __future__ import annotations

import re
from html import escape
from typing import Final

from foretide.text import printable

_VOID: Final = frozenset({"br", "hr", "link", "meta"})
_NAME: Final = re.compile(r"[a-zA-Z][\w:-]*")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | Html | None
Attribute = str | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element; children that are None are left out, and attributes that are None or False.

    An underscore in the name of an attribute stands for a hyphen, one at its end is dropped: `class_`, `aria_label`.

    >>> tag("p", "a < b ", tag("b", "c"), class_="note", hidden=True, title=None)
    '<p class="note" hidden>a &lt; b <b>c</b></p>'
    """
    assert _NAME.fullmatch(name), name  # noqa: S101 - names are ours
    given = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Elements and texts one after another."""
    return Html("".join(each if isinstance(each, Html) else text(each) for each in children if each is not None))


def text(value: object) -> Html:
    r"""Text, escaped.

    >>> text("<b>\x1b[2J")
    '&lt;b&gt;\\x1b[2J'
    """
    return Html(escape(printable(value)))


def _attribute(key: str, value: str | float | bool) -> str:  # noqa: FBT001 - the value of an attribute
    name = key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(value)}"'
