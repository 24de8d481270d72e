"""Hides secrets in what people and logs see.

They are passwords of stores, addresses of webhooks, which hold a token, and options of sources and sinks, which other
software may quote in its errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "***"

_URL = re.compile(r"""[a-z][a-z0-9+.-]*://[^\s'"<>]*""", re.IGNORECASE)
_PARTS = re.compile(r"([^:/?#]*://)(?:(.*)@)?([^/?#]*)(.*)", re.DOTALL)
_SPECIAL = re.compile("[/?#]")
_SECRET_VALUE = re.compile(r"([?&][^?&=]*(?:pass|secret|token|key)[^?&=]*=)[^&]*", re.IGNORECASE)


_hidden: set[str] = set()
_SECRET_NAME = re.compile("pass|secret|token|key|jaas|credential", re.IGNORECASE)
_IN_QUOTES = re.compile(r"""(?:pass|secret|token|key)\w*\s*=\s*(?:"([^"]+)"|'([^']+)'|([^\s;"']+))""", re.IGNORECASE)


def hide_options(options: Mapping[str, str]) -> None:
    """Have `masked` hide the values of options that are secret by their name, and passwords within them, from now on.

    >>> hide_options({"kafka.ssl.key.password": "xyzzy", "kafka.security.protocol": "SSL"})
    >>> masked("SSL: wrong password xyzzy")
    'SSL: wrong password ***'
    """
    for name, value in options.items():
        if value and _SECRET_NAME.search(name):
            _hidden.update((value, *(part for found in _IN_QUOTES.findall(value) for part in found if part)))


def masked(text: str) -> str:
    """A text in which no address shows a secret, nor any option that was hidden.

    >>> masked("the webhook https://hooks.example/services/T0/B0/token does not answer")
    'the webhook https://hooks.example/*** does not answer'
    """
    for value in sorted(_hidden, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return _URL.sub(lambda found: masked_url(found[0]), text)


def masked_url(url: str) -> str:
    """An address without its secrets; a path of a file as it is.

    Of a database only the password is hidden. The path and query of a web address are hidden as a whole.

    >>> masked_url("postgresql://me:secret@host/db?password=secret&sslmode=require")
    'postgresql://me:***@host/db?password=***&sslmode=require'
    """
    parts = _PARTS.fullmatch(_SECRET_VALUE.sub(lambda found: found[1] + HIDDEN, url))
    if parts is None:
        return url
    scheme, user, host, rest = parts.groups()
    is_web = scheme.lower() in {"http://", "https://"}
    split = user is not None and _SPECIAL.search(user) is not None and (is_web or ":" not in user)
    if split or (user is None and "@" in url):  # a secret with special characters may begin and end anywhere
        return f"{scheme}{HIDDEN}"
    if is_web:
        return f"{scheme}{'' if user is None else HIDDEN + '@'}{host}{'/' + HIDDEN if rest.strip('/') else rest}"
    name, colon, _ = (user or "").partition(":")
    shown = "" if user is None else f"{name}{colon + HIDDEN if colon else ''}@"
    return f"{scheme}{shown}{host}{rest}"
