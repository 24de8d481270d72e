"""Text from users and files, made safe to print or to log."""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters other than a new line and a tab, marks that change the direction of text, and lone surrogates."""


def printable(value: object) -> str:
    r"""The value as text that neither moves the cursor of a terminal nor fails to be encoded.

    >>> printable("shop\x1b[2J"), printable("caf\u00e9 \udcff")
    ('shop\\x1b[2J', 'café \\udcff')
    """
    try:
        text = str(value)
    except Exception as error:  # noqa: BLE001 - somebody else's __str__
        text = f"<{type(value).__name__} without text: {type(error).__name__}>"
    return _UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)
